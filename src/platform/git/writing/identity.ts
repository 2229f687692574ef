import type { Identity } from '../objects.ts';

/** Removes NUL, line breaks and angle brackets, which names and emails in git cannot contain. */
const plain = (text: string): string => text.replaceAll(/[\0\r\n<>]/g, '').trim();

// git strips these characters from both ends, and refuses a name that consists only of them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must find them
const DROPPED = /^[\u0000-\u0020.,:;<>"\\']*$/;

const usable = (text: string): string => (DROPPED.test(text) ? '' : plain(text));

const nameOf = ({ name, email }: Identity): string => usable(name) || usable(email) || 'unknown';
const secondsOf = ({ date }: Identity): number => Math.floor(date.getTime() / 1000);

/** Returns the environment variables that set the author or committer for git. */
export const identityEnv = (role: 'AUTHOR' | 'COMMITTER', who: Identity): Record<string, string> => ({
  [`GIT_${role}_NAME`]: nameOf(who),
  [`GIT_${role}_EMAIL`]: plain(who.email),
  [`GIT_${role}_DATE`]: `@${secondsOf(who)} +0000`,
});

/** `Ada <ada@example.com> 1706688000 +0000`, as in commit and tag objects. */
export const signatureLine = (who: Identity): string => `${nameOf(who)} <${plain(who.email)}> ${secondsOf(who)} +0000`;
