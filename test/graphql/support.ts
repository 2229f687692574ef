import { pino } from 'pino';
import { type Actor, anonymous, type Context, type Services, type Tx } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';

export const userActor = (userId: number, scopes: readonly string[] | null = null): Actor => ({
  ...anonymous,
  userId,
  username: `user${userId}`,
  scopes: scopes && new Set(scopes),
});

const absent = (what: string): never => {
  throw new Error(`the kit's tests have no ${what}`);
};

export const logged: string[] = [];
const log = pino({ level: 'warn' }, { write: (line: string) => void logged.push(line) });

/** A context without a database or services, because the kit must not need them. */
export const kitContext = (actor: Actor, signal: AbortSignal = new AbortController().signal): Context => ({
  actor,
  get db(): Database {
    return absent('database');
  },
  get services(): Services {
    return absent('services');
  },
  clock: { now: () => new Date() },
  log,
  signal,
  requestId: 'test-request',
  client: { ip: null, userAgent: null },
  chainId: null,
  transaction: <T>(_run: (tx: Tx) => Promise<T>): Promise<T> => absent('transactions'),
});
