import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { z } from 'zod';
import type { Context, Services, Tx } from '../context.ts';
import { defineJob, FinalJobError, type JobDefinition } from '../jobs.ts';
import { decrypt, encrypt } from '../secrets.ts';
import { MAIL_ADDRESS } from './mail-address.ts';

export interface Mail {
  /** A single address, as stored. */
  readonly to: string;
  readonly subject: string;
  /** Plain text with `\n` line breaks. */
  readonly text: string;
}

/** The queue contains no address and no link in plain text, because a mail may contain a secret. */
const input = z.object({ id: z.uuid(), sealed: z.base64() });

/**
 * Sends a mail after the transaction commits. @throws TypeError if the address is more than one, or would break out of
 * its header
 */
export const sendMail = (tx: Tx, { to, subject, text }: Mail): void => {
  if (!MAIL_ADDRESS.test(to)) throw new TypeError('a mail must have exactly one valid address');
  const sealed = encrypt(tx.services.secretKey, JSON.stringify({ to, subject: oneLine(subject), text }));
  tx.enqueue(deliverMail, { id: randomUUID(), sealed: sealed.toString('base64') });
};

/** A subject may contain user input (names), so line breaks are removed. */
const oneLine = (subject: string): string => subject.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, 200);

/**
 * The job `mail.send`: passes the mail to the SMTP server. If none is configured, it appends the mail to `mail.log` in
 * the data directory. Retries temporary failures with growing delays for about two days, but not permanent ones. After
 * a crash the same mail may be sent twice, with the same Message-ID.
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

/** The job with the setting of this hub. While `isSilent` returns true, mails are dropped. */
export const defineMailDelivery = (
  isSilent: (ctx: Context) => Promise<boolean>,
): JobDefinition<z.output<typeof input>> => ({
  ...deliverMail,
  run: async (ctx, sent, run) => {
    if (await isSilent(ctx)) ctx.log.info({ mail: sent.id }, 'dropped a mail: silent mode is on');
    else await deliverMail.run(ctx, sent, run);
  },
});

/** Returns the configured sender, or one at the hub's own host. */
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
  const { createTransport } = await import('nodemailer');
  const { username, protocol, hostname } = new URL(url);
  const transport = createTransport({
    url,
    connectionTimeout: SMTP_TIMEOUT_MS,
    greetingTimeout: SMTP_TIMEOUT_MS,
    socketTimeout: SMTP_TIMEOUT_MS,
    // The password is never sent unencrypted, except on this machine.
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
      // Suppresses automatic replies, because nothing reads them.
      headers: { 'Auto-Submitted': 'auto-generated' },
      disableFileAccess: true,
      disableUrlAccess: true,
    });
  } catch (error) {
    // Only repeats the codes of the server: the mail itself must not appear in a log.
    const { code, responseCode } = smtpFailure.catch({}).parse(error);
    const said = [code, responseCode].filter((part) => part !== undefined).join(' ') || 'no connection';
    if (responseCode !== undefined && responseCode >= 500 && code !== 'EAUTH') {
      throw new FinalJobError(`the mail server refused the mail: ${said}`);
    }
    throw new Error(`the mail server did not accept the mail: ${said}`);
  } finally {
    transport.close();
  }
};

const smtpFailure = z.object({ code: z.string().optional(), responseCode: z.number().optional() });

/**
 * Appends each mail in a single write, so that the mails of several processes do not mix. Only the owner can read the
 * file.
 */
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
    const text = Buffer.from(`${lines.join('')}\n${mail.text}\n\n`);
    const { bytesWritten } = await file.write(text);
    if (bytesWritten < text.length) throw new Error('the disk is full: only a part of the mail was written');
  } finally {
    await file.close();
  }
};

/** The file name in the data directory. */
export const MAIL_LOG = 'mail.log';
