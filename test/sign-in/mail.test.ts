import { randomUUID } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { answerMailRequest } from '#domains/users/mail-requests.ts';
import { ConfigError, readConfig } from '#platform/config/config.ts';
import type { Tx } from '#platform/context.ts';
import { type Mail, sendMail } from '#platform/mail/mail.ts';
import { startTestApp, type TestApp, useApp } from '../support/app.ts';
import { mailsTo } from '../support/mails.ts';
import { until } from '../support/until.ts';
import { type SmtpReceiver, startSmtpReceiver } from './smtp-receiver.ts';

const newAddress = () => `mail-${randomUUID()}@example.org`;

const send = (app: TestApp, mail: Partial<Mail>) =>
  app
    .context()
    .transaction(async (tx) => sendMail(tx, { to: newAddress(), subject: 'Subject', text: 'Text\n', ...mail }));

/** Returns the jobs in the queue that will send mails. */
const queued = async (app: TestApp) => {
  const { rows } = await app.hub.services.pool.query(
    `select j.payload::text as payload, j.attempts, j.max_attempts, j.last_error
     from graphile_worker._private_jobs j join graphile_worker._private_tasks t on t.id = j.task_id
     where t.identifier = 'mail.send' order by j.id`,
  );
  return rows;
};

describe('a mail without a mail server', () => {
  const app = useApp();
  const log = () => join(app().hub.services.config.dataDir, 'mail.log');

  it('is appended to a file in the data directory that only its owner can read', async () => {
    const [one, other] = [newAddress(), newAddress()];
    await send(app(), { to: one, text: 'Hello Zoë,\n\nhttp://127.0.0.1/x?token=abc\n' });
    await send(app(), { to: other, subject: 'Second' });
    expect(await mailsTo(app(), one)).toMatchObject([{ subject: 'Subject', text: expect.stringContaining('Zoë') }]);
    expect(await mailsTo(app(), other)).toMatchObject([{ subject: 'Second' }]);
    expect((await stat(log())).mode & 0o777).toBe(0o600);
  });

  it('stays separate from others when many are written at once', async () => {
    const to = newAddress();
    const lines = Array.from({ length: 40 }, (_, n) => `${n}:${'x'.repeat(5_000)}`);
    await Promise.all(lines.map((line) => send(app(), { to, text: `${line}\n` })));
    const texts = (await mailsTo(app(), to)).map(({ text }) => text.trim());
    expect(texts.sort()).toEqual([...lines].sort());
  });

  it('is sent only when the transaction commits', async () => {
    const to = newAddress();
    const failing = app()
      .context()
      .transaction(async (tx) => {
        sendMail(tx, { to, subject: 'Never', text: '' });
        throw new Error('rolled back');
      });
    await expect(failing).rejects.toThrow('rolled back');
    expect(await mailsTo(app(), to)).toEqual([]);
  });

  it('goes to one address, and cannot inject headers or further addresses', async () => {
    for (const to of [
      'a@example.org, b@example.org',
      'a@example.org b@example.org',
      'a@example.org\r\nBcc: b@example.org',
      'A <a@example.org>',
      'a@example.org\0',
      'group:a@example.org;',
      'nobody',
      '',
    ]) {
      await expect(send(app(), { to })).rejects.toThrow(TypeError);
    }
    const to = newAddress();
    await send(app(), { to, subject: 'One\r\nTo: b@example.org\nTwo\u2028Three' });
    expect(await mailsTo(app(), to)).toMatchObject([{ subject: 'One To: b@example.org Two Three' }]);
    expect(await mailsTo(app(), 'b@example.org')).toEqual([]);
  });

  it('is dropped in silent mode', async () => {
    const to = newAddress();
    const root = app().as(app().root);
    await root.put('/application/settings', { silent_mode_enabled: true });
    await send(app(), { to });
    await app().settle();
    await root.put('/application/settings', { silent_mode_enabled: false });
    expect(await mailsTo(app(), to)).toEqual([]);
    expect(await queued(app())).toEqual([]);
  });

  it('is stored encrypted in the queue', async () => {
    const to = newAddress();
    const seen = await app()
      .context()
      .transaction(async (tx) => {
        let payload = '';
        const keeping: Tx = {
          ...tx,
          enqueue: (_job, input) => {
            payload = JSON.stringify(input);
          },
        };
        sendMail(keeping, { to, subject: 'Subject of it', text: 'a-secret-link' });
        return payload;
      });
    for (const part of [to, 'Subject of it', 'a-secret-link']) expect(seen).not.toContain(part);
    expect(Buffer.from(JSON.parse(seen).sealed, 'base64').toString('latin1')).not.toContain('a-secret-link');
  });

  it('is readable, and matches the example in the documentation', async () => {
    const to = newAddress();
    await send(app(), { to });
    await app().settle();
    expect(await readFile(log(), 'utf8')).toMatch(
      /Date: .* GMT\nFrom: millrace@localhost\nTo: mail-.*\nSubject: Subject\nMessage-ID: <[0-9a-f-]{36}@localhost>\n\nText\n/,
    );
  });
});

describe('a mail over SMTP', () => {
  let receiver: SmtpReceiver;
  let app: TestApp;

  beforeAll(async () => {
    receiver = await startSmtpReceiver({ user: 'mill', pass: 'p@ss/word' });
    app = await startTestApp({ env: { MILLRACE_SMTP_URL: receiver.url, MILLRACE_MAIL_FROM: 'hub@millrace.example' } });
  });
  afterAll(async () => {
    await app.close();
    await receiver.close();
  });

  const received = (to: string) => until(`a mail to ${to}`, () => receiver.mails.find((mail) => mail.to.includes(to)));

  it('arrives unchanged, from the configured address', async () => {
    const to = newAddress();
    await send(app, { to, subject: 'Grüße', text: 'Hello Zoë,\n\n.a line that begins with a dot\n' });
    const mail = await received(to);
    expect(mail).toMatchObject({ from: 'hub@millrace.example', to: [to] });
    expect(mail.headers.get('from')).toEqual(['Millrace <hub@millrace.example>']);
    expect(mail.headers.get('to')).toEqual([to]);
    expect(mail.headers.get('subject')).toEqual(['=?UTF-8?Q?Gr=C3=BC=C3=9Fe?=']);
    expect(mail.headers.get('auto-submitted')).toEqual(['auto-generated']);
    expect(mail.headers.get('message-id')?.[0]).toMatch(/^<[0-9a-f-]{36}@millrace\.example>$/);
    expect(mail.raw).toContain('Hello Zo=C3=AB,\r\n\r\n');
    expect(mail.raw).toContain('.a line that begins with a dot');
  });

  it('has a link that works', async () => {
    const user = await app.make.user({ email: newAddress(), confirmed_at: null });
    const { email } = await app.hub.services.db
      .selectFrom('users')
      .select('email')
      .where('id', '=', user.id)
      .executeTakeFirstOrThrow();
    await app.context().transaction(async (tx) => tx.enqueue(answerMailRequest, { purpose: 'confirm_email', email }));
    const { raw } = await received(email);
    const text = raw.replace(/=\r\n/g, '').replaceAll('=3D', '=');
    const link = /http:\S+/.exec(text)?.[0] ?? '';
    expect(link.startsWith(`${app.url}/users/confirmation?confirmation_token=`)).toBe(true);
    expect((await fetch(link)).status).toBe(200);
  });

  it('is retried after a temporary failure with the same Message-ID, and sent once', async () => {
    const to = newAddress();
    receiver.refuse(451);
    await send(app, { to });
    const [job] = await until('a failed attempt', async () => {
      const jobs = await queued(app);
      return jobs.some((each) => each.last_error !== null) ? jobs : null;
    });
    expect(job).toMatchObject({ attempts: 1, max_attempts: 13 });
    expect(job.last_error).toContain('did not accept the mail');
    // The recorded error contains nothing of the mail, not even its recipient.
    expect(job.last_error).not.toContain(to);
    await app.hub.services.pool.query('update graphile_worker._private_jobs set run_at = now() where attempts = 1');
    const mail = await received(to);
    expect(mail.headers.get('message-id')?.[0]).toContain(JSON.parse(job.payload).id);
    await app.settle();
    expect(receiver.mails.filter((each) => each.to.includes(to))).toHaveLength(1);
  });

  it('is given up after a permanent refusal', async () => {
    const to = newAddress();
    receiver.refuse(550);
    await send(app, { to });
    await app.settle();
    const waiting = (await queued(app)).filter((job) => job.attempts < job.max_attempts);
    expect(waiting).toEqual([]);
    expect(receiver.mails.filter((each) => each.to.includes(to))).toEqual([]);
  });

  it('leaves no file in the data directory', async () => {
    await expect(stat(join(app.hub.services.config.dataDir, 'mail.log'))).rejects.toThrow('ENOENT');
  });
});

describe('an invalid mail setting', () => {
  it('is reported, without the password', () => {
    for (const url of ['http://mail.example', 'smtp://', 'smtp://user:secret-word@host/path', 'mail.example']) {
      expect(() => readConfig([], { MILLRACE_SMTP_URL: url })).toThrow(ConfigError);
    }
    const problem = () => readConfig([], { MILLRACE_SMTP_URL: 'smtp://user:secret-word@host/path' });
    expect(problem).toThrow(/MILLRACE_SMTP_URL/);
    expect(problem).not.toThrow(/secret-word/);
    for (const from of ['nobody', 'a@b@c', 'a@b\r\nBcc: c@d', 'A <a@b>']) {
      expect(() => readConfig([], { MILLRACE_MAIL_FROM: from })).toThrow(/MILLRACE_MAIL_FROM/);
    }
  });
});
