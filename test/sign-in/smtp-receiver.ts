import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { SMTPServer } from 'smtp-server';

export interface ReceivedMail {
  readonly from: string;
  readonly to: readonly string[];
  /** The mail as received. */
  readonly raw: string;
  /** The headers by lower-case name. A repeated header has all its values. */
  readonly headers: ReadonlyMap<string, readonly string[]>;
}

export interface SmtpReceiver {
  readonly url: string;
  readonly mails: readonly ReceivedMail[];
  /** Makes the server refuse the next mails with these statuses. */
  refuse(...statuses: readonly number[]): void;
  close(): Promise<void>;
}

/** Starts a mail server on loopback that accepts every mail. With `login`, it requires that login. */
export const startSmtpReceiver = async (login?: {
  readonly user: string;
  readonly pass: string;
}): Promise<SmtpReceiver> => {
  const mails: ReceivedMail[] = [];
  const refusals: number[] = [];
  const server = new SMTPServer({
    disabledCommands: login ? ['STARTTLS'] : ['STARTTLS', 'AUTH'],
    allowInsecureAuth: true,
    onAuth: ({ username, password }, _session, done) => {
      const right = username === login?.user && password === login?.pass;
      done(right ? null : new Error('wrong login'), right ? { user: username } : undefined);
    },
    onData: (stream, session, done) => {
      void text(stream).then((raw) => {
        const status = refusals.shift();
        if (status !== undefined) {
          done(Object.assign(new Error('not now'), { responseCode: status }));
          return;
        }
        const { mailFrom, rcptTo } = session.envelope;
        mails.push({
          from: mailFrom ? mailFrom.address : '',
          to: rcptTo.map(({ address }) => address),
          raw,
          headers: headersOf(raw),
        });
        done(null);
      }, done);
    },
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address: AddressInfo | string | null = server.server.address();
  if (address === null || typeof address === 'string') throw new Error('the mail server has no address');
  const user = login ? `${encodeURIComponent(login.user)}:${encodeURIComponent(login.pass)}@` : '';
  return {
    url: `smtp://${user}127.0.0.1:${address.port}`,
    mails,
    refuse: (...statuses) => void refusals.push(...statuses),
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
};

const headersOf = (raw: string): ReadonlyMap<string, readonly string[]> => {
  const headers = new Map<string, string[]>();
  const head = raw.slice(0, raw.indexOf('\r\n\r\n')).replace(/\r\n[ \t]+/g, ' ');
  for (const line of head.split('\r\n')) {
    const name = line.slice(0, line.indexOf(':')).toLowerCase();
    headers.set(name, [...(headers.get(name) ?? []), line.slice(name.length + 1).trim()]);
  }
  return headers;
};
