import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MAIL_LOG } from '#platform/mail.ts';
import type { TestApp } from './app.ts';

export interface LoggedMail {
  readonly to: string;
  readonly subject: string;
  readonly text: string;
}

/** The mails that went to the address so far, oldest first, out of the log that takes them where no server is configured. */
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

/** Path and query of the link in the last mail to the address that has one with this beginning. */
export const linkTo = async (app: TestApp, address: string, path: string): Promise<string> => {
  const links = (await mailsTo(app, address)).flatMap(({ text }) => text.match(/https?:\/\/\S+/g) ?? []);
  const found = links.map((link) => link.slice(app.url.length)).findLast((link) => link.startsWith(path));
  if (found === undefined) throw new Error(`no mail to ${address} has a link to ${path}`);
  return found;
};
