import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MAIL_LOG } from '#platform/mail/mail.ts';
import type { TestApp } from './app.ts';

export interface LoggedMail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** Returns all mails to the address, oldest first, from the log that stands in for a mail server. */
export const mailsTo = async (app: TestApp, address: string): Promise<LoggedMail[]> => {
  await app.settle();
  const log = await readFile(join(app.hub.services.config.dataDir, MAIL_LOG), 'utf8').catch(() => '');
  return log
    .split(/^(?=Date: )/m)
    .flatMap((mail) => {
      const [, to, subject, text] = /\nTo: (.*)\nSubject: (.*)\nMessage-ID: .*\n\n([\s\S]*)$/.exec(mail) ?? [];
      return to === undefined ? [] : [{ to, subject: subject ?? '', text: text ?? '' }];
    })
    .filter(({ to }) => to === address);
};

/** Returns path and query of the newest link in a mail to the address that starts with `path`. */
export const linkTo = async (app: TestApp, address: string, path: string): Promise<string> => {
  const links = (await mailsTo(app, address)).flatMap(({ text }) => text.match(/https?:\/\/\S+/g) ?? []);
  const found = links.map((link) => link.slice(app.url.length)).findLast((link) => link.startsWith(path));
  if (found === undefined) throw new Error(`no mail to ${address} has a link to ${path}`);
  return found;
};
