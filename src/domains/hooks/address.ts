import { parseOutboundUrl } from '#platform/http-client/address-guard.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';

const MASK = '[MASKED]';
const USER_INFO = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#\\]*)@/i;
const PLACEHOLDER = /\{([A-Za-z][\w.-]*)\}/g;

/** The URL as it is shown: credentials masked, the names of its variables instead of their values. */
export const shownUrl = (url: string): string => url.replace(USER_INFO, (_, scheme: string) => `${scheme}${MASK}@`);

/** The address with the values of its variables; a placeholder without one stays as it is. */
export const fillUrl = (url: string, variables: ReadonlyMap<string, string>): string =>
  url.replace(PLACEHOLDER, (placeholder, key: string) => variables.get(key) ?? placeholder);

/**
 * Whether the text can be the URL of a hook at all. What is no literal address is checked by resolving it.
 * @throws OutboundError `blocked`
 */
export const checkUrlText = (url: string, filled: string, policy: AddressPolicy): boolean => {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for; URL parsers drop them silently.
  if (/[\x00-\x20\x7f]/.test(filled)) return false;
  const { authorization } = parseOutboundUrl(filled, policy);
  // Credentials that the mask would not find must not get in.
  return authorization === null || USER_INFO.test(url);
};

/** Credentials of the filled address, to be kept out of logs. */
export const credentialsOf = (filled: string): string[] => {
  const url = URL.parse(filled);
  if (!url) return [];
  if (url.username === '' && url.password === '') return [];
  const basic = Buffer.from(`${decode(url.username)}:${decode(url.password)}`).toString('base64');
  return [url.username, url.password, decode(url.username), decode(url.password), basic];
};

const decode = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
};
