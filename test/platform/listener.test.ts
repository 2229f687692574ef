import pg from 'pg';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { Listener } from '#platform/db/listener.ts';
import { createLogger } from '#platform/log.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { PATIENCE_MS } from '../support/until.ts';

const log = createLogger('silent');
let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await createTestDatabase();
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});

afterAll(async () => {
  await client.end();
  await database.drop();
});

const notify = (channel: string, payload: string) => client.query('SELECT pg_notify($1, $2)', [channel, payload]);
const terminate = () =>
  client.query(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'millrace listener'`,
  );

test('handlers get the notifications of their channel until they are removed', async () => {
  const listener = new Listener(database.url, log);
  const [first, second, later]: [string[], string[], string[]] = [[], [], []];
  listener.on('first', (payload) => first.push(payload));
  const off = listener.on('Second; "channel"', (payload) => second.push(payload));
  await listener.start();
  listener.on('later', (payload) => later.push(payload));
  await notify('first', '1');
  await notify('Second; "channel"', '2');
  await vi.waitFor(() => expect([first, second]).toEqual([['1'], ['2']]), PATIENCE_MS);
  await vi.waitFor(async () => {
    await notify('later', '3');
    expect(later).toContain('3');
  }, PATIENCE_MS);
  off();
  await notify('Second; "channel"', '4');
  await notify('first', '5');
  await vi.waitFor(() => expect(first).toEqual(['1', '5']), PATIENCE_MS);
  expect(second).toEqual(['2']);
  await listener.close();
});

test('sends one command at a time, however many channels change at once', async () => {
  const warnings: string[] = [];
  const onWarning = ({ message }: Error) => void warnings.push(message);
  process.on('warning', onWarning);
  const listener = new Listener(database.url, log);
  await listener.start();
  const heard: string[] = [];
  const channels = Array.from({ length: 6 }, (_, n) => `many ${n}`);
  const offs = channels.map((channel) => listener.on(channel, () => heard.push(channel)));
  await vi.waitFor(async () => {
    for (const channel of channels) await notify(channel, '');
    expect([...new Set(heard)].sort()).toEqual(channels);
  }, PATIENCE_MS);
  for (const off of offs) off();
  await listener.close();
  process.off('warning', onWarning);
  // pg warns of this once per process.
  expect(warnings.filter((message) => message.includes('already executing a query'))).toEqual([]);
});

test('reconnects after a lost connection, wakes all handlers, and continues', async () => {
  const listener = new Listener(database.url, log);
  const heard: string[] = [];
  let reconnects = 0;
  listener.on('channel', () => {
    throw new Error('a handler that fails stops nobody');
  });
  listener.on('channel', (payload) => heard.push(payload));
  listener.onReconnect(() => reconnects++);
  await listener.start();
  for (let round = 1; round <= 2; round++) {
    await terminate();
    await vi.waitFor(() => expect(reconnects).toBe(round), PATIENCE_MS);
    expect(heard).toEqual(['']);
    await notify('channel', 'after');
    await vi.waitFor(() => expect(heard).toEqual(['', 'after']), PATIENCE_MS);
    heard.length = 0;
  }
  await listener.close();
});

test('keeps retrying while the database refuses connections, until it is closed', async () => {
  const own = await createTestDatabase();
  const name = new URL(own.url).pathname.slice(1);
  const listener = new Listener(own.url, log);
  let reconnects = 0;
  listener.onReconnect(() => reconnects++);
  await listener.start();
  const warn = vi.spyOn(log, 'warn');
  await client.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
  await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name]);
  await vi.waitFor(() => expect(warn.mock.calls.length).toBeGreaterThan(3), PATIENCE_MS);
  expect(reconnects).toBe(0);
  await client.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
  await vi.waitFor(() => expect(reconnects).toBe(1), PATIENCE_MS);
  await listener.close();
  await own.drop();
});

test('fails to start without a database', async () => {
  await expect(new Listener(`${database.url.split('?')[0]}?host=/nowhere`, log).start()).rejects.toThrow(/ENOENT/);
});
