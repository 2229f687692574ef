import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { createTransport } from 'nodemailer';
import { z } from 'zod';
import type { Context, Services, Tx } from './context.ts';
import { defineJob, FinalJobError, type JobDefinition } from './jobs.ts';
import { decrypt, encrypt } from './secrets.ts';

export interface Mail {
  /** One address, as it is stored. */
  readonly to: string;
  readonly subject: string;
  /** Plain text; lines end in `\n`. */
  readonly text: string;
}

/** The queue holds no address and no link in the clear: a mail may carry a secret. */
const input = z.object({ id: z.uuid(), sealed: z.base64() });

/**
 * Sends a mail once the transaction has committed. Throws a TypeError for an address that is more than one, or that
 * would break out of its header.
 */
export const sendMail = (tx: Tx, { to, subject, text }: Mail): void => {
  if (!ONE_ADDRESS.test(to)) throw new TypeError('a mail goes to one address');
  const sealed = encrypt(tx.services.secretKey, JSON.stringify({ to, subject: oneLine(subject), text }));
  tx.enqueue(deliverMail, { id: randomUUID(), sealed: sealed.toString('base64') });
};

const ONE_ADDRESS = /^[^\s@<>,;:"()[\]\\\p{Cc}]+@[^\s@<>,;:"()[\]\\\p{Cc}]+$/u;

/** What people chose themselves (names) may stand in a subject: it stays one line. */
const oneLine = (subject: string): string => subject.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, 200);

/**
 * The job `mail.send`: hands the mail to the SMTP server or, where none is configured, appends it to `mail.log` in the
 * data directory. A server that fails for now is asked again, later and later, for about two days; one that refuses the
 * mail for good is not. After a crash the same mail may go out twice, under one Message-ID.
 */
const deliverMail = defineJob({
  name: 'mail.send',
  input,
  maxAttempts: 13,
  run: async ({ services, signal }, { id, sealed }) => {
    const mail = message.parse(JSON.parse(decrypt(services.secretKey, Buffer.from(sealed, 'base64'))));
    const from = senderOf(services);
    const messageId = `<${id}@${from.slice(from.lastIndexOf('@') + 1)}>`;
    if (services.config.smtpUrl === null) await appendToLog(services, { ...mail, from, messageId });
    else await overSmtp(services.config.smtpUrl, { ...mail, from, messageId }, signal);
  },
});

const message = z.object({ to: z.string(), subject: z.string(), text: z.string() });

/** The job as this hub runs it: `isSilent` says whether nothing may be sent out now. What was to be sent then is dropped. */
export const defineMailDelivery = (
  isSilent: (ctx: Context) => Promise<boolean>,
): JobDefinition<z.output<typeof input>> => ({
  ...deliverMail,
  run: async (ctx, sent, run) => {
    if (await isSilent(ctx)) ctx.log.info({ mail: sent.id }, 'a mail was not sent: silent mode is on');
    else await deliverMail.run(ctx, sent, run);
  },
});

/** The configured sender, or one at the hub's own host. */
const senderOf = ({ config, urls }: Pick<Services, 'config' | 'urls'>): string => {
  if (config.mailFrom !== null) return config.mailFrom;
  const { hostname } = new URL(urls.base);
  return `millrace@${isIP(hostname.replace(/^\[|\]$/g, '')) ? 'localhost' : hostname}`;
};

interface ReadyMail extends Mail {
  readonly from: string;
  readonly messageId: string;
}

const SMTP_TIMEOUT_MS = 30_000;

const overSmtp = async (url: string, mail: ReadyMail, signal: AbortSignal): Promise<void> => {
  const { username, protocol, hostname } = new URL(url);
  const transport = createTransport({
    url,
    connectionTimeout: SMTP_TIMEOUT_MS,
    greetingTimeout: SMTP_TIMEOUT_MS,
    socketTimeout: SMTP_TIMEOUT_MS,
    // A password is not said in the clear, but on this very machine.
    requireTLS: username !== '' && protocol === 'smtp:' && !/^(localhost|127\..*|\[::1\])$/.test(hostname),
  });
  try {
    signal.throwIfAborted();
    await transport.sendMail({
      from: { name: 'Millrace', address: mail.from },
      to: { name: '', address: mail.to },
      envelope: { from: mail.from, to: [mail.to] },
      subject: mail.subject,
      text: mail.text,
      messageId: mail.messageId,
      // Nobody is there to read answers, of people or of machines.
      headers: { 'Auto-Submitted': 'auto-generated' },
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  } catch (error) {
    // Only what the server says is repeated: the mail itself must not come into a log.
    const { code, responseCode } = smtpFailure.catch({}).parse(error);
    const said = [code, responseCode].filter((part) => part !== undefined).join(' ') || 'no connection';
    if (responseCode !== undefined && responseCode >= 500 && code !== 'EAUTH') {
      throw new FinalJobError(`the mail server refused the mail: ${said}`);
    }
    throw new Error(`the mail server did not take the mail: ${said}`);
  } finally {
    transport.close();
  }
};

const smtpFailure = z.object({ code: z.string().optional(), responseCode: z.number().optional() });

/** One write each, so that the mails of several processes do not run into each other; for the owner's eyes alone. */
const appendToLog = async ({ config, clock }: Pick<Services, 'config' | 'clock'>, mail: ReadyMail): Promise<void> => {
  const head = {
    Date: clock.now().toUTCString(),
    From: mail.from,
    To: mail.to,
    Subject: mail.subject,
    'Message-ID': mail.messageId,
  };
  const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\n`);
  const { O_APPEND, O_CREAT, O_WRONLY, O_NOFOLLOW } = constants;
  const file = await open(join(config.dataDir, MAIL_LOG), O_APPEND | O_CREAT | O_WRONLY | O_NOFOLLOW, 0o600);
  try {
    await file.chmod(0o600);
    await file.write(Buffer.from(`${lines.join('')}\n${mail.text}\n\n`));
  } finally {
    await file.close();
  }
};

/** In the data directory. */
export const MAIL_LOG = 'mail.log';
