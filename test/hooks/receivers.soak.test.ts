import { sql } from 'kysely';
import { buildConnector } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createHttpClient, type HttpClientOptions } from '#platform/http-client/http-client.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';
import { until } from '../support/until.ts';
import { allowLocal, insertDeliveries, insertHook, startEngineProcess, withDeadlines } from './engine-support.ts';
import { Receiver } from './receiver.ts';

let local: TestDatabase;
let guarded: TestDatabase;
const held: TestServices[] = [];
beforeAll(async () => {
  local = await createTestDatabase();
  guarded = await createTestDatabase();
  for (const { url } of [local, guarded]) held.push(await createTestServices(url, { max: 4 }));
  if (held[0]) await allowLocal(held[0].services);
});
afterAll(async () => {
  for (const each of held) await each[Symbol.asyncDispose]();
  await local.drop();
  await guarded.drop();
});
const db = (of: TestDatabase) => {
  const found = held[of === local ? 0 : 1];
  if (!found) throw new Error('there is no database');
  return found.services.db;
};

interface Attempt {
  readonly response_status: number | null;
  readonly error: string | null;
  readonly response_body: string | null;
  readonly duration_ms: number;
}
const attemptsOf = async (of: TestDatabase, hook: number): Promise<Attempt[]> =>
  (
    await sql<Attempt>`
      select response_status, error, response_body, duration_ms from webhook_attempts
      where webhook_id = ${hook} order by id`.execute(db(of))
  ).rows;
const firstAttempt = async (of: TestDatabase, hook: number): Promise<Attempt> => {
  await until('it was tried', async () => (await attemptsOf(of, hook)).length > 0);
  const [first] = await attemptsOf(of, hook);
  if (!first) throw new Error('there is no attempt');
  return first;
};
/** Returns the seconds from the attempt, which is recorded in the same statement, to the next. */
const waitOf = async (hook: number): Promise<number> => {
  const { rows } = await sql<{ seconds: number }>`
    select extract(epoch from d.next_attempt_at - a.created_at)::float8 as seconds
    from webhook_queue d join webhook_attempts a on a.delivery_id = d.delivery_id
    where d.webhook_id = ${hook} and d.state = 'waiting'`.execute(db(local));
  return rows[0]?.seconds ?? 0;
};

describe('a receiver', () => {
  it('is not followed if it redirects, and the redirect counts as a failure', async () => {
    await using target = await Receiver.start();
    await using receiver = await Receiver.start();
    await using it = await startEngineProcess(local.url, { backoffMs: () => 600_000 });
    for (const status of [301, 302, 303, 307, 308]) {
      receiver.answer = (response) => response.writeHead(status, { location: target.url }).end();
      const hook = await insertHook(it.services, receiver.url);
      await insertDeliveries(it.services, [hook]);
      expect(await firstAttempt(local, hook)).toMatchObject({
        response_status: status,
        error: 'The receiver redirects; redirects are not followed',
      });
    }
    expect(target.received).toEqual([]);
  });

  it('is cut off if its answer does not end, and only the beginning is kept', async () => {
    await using receiver = await Receiver.start();
    let written = 0;
    receiver.answer = (response) => {
      response.writeHead(200);
      const pour = () => {
        while (!response.destroyed && response.write('x'.repeat(16_384))) written += 16_384;
      };
      response.on('drain', pour);
      response.on('error', () => {});
      pour();
    };
    await using it = await startEngineProcess(local.url, { backoffMs: () => 600_000 });
    const hook = await insertHook(it.services, receiver.url);
    await insertDeliveries(it.services, [hook]);
    const attempt = await firstAttempt(local, hook);
    expect(attempt.error).toBe('The answer is too large');
    expect(attempt.response_body).toHaveLength(8 * 1_024);
    expect(written).toBeLessThan(64 * 1_024 * 1_024);
  });

  it('has ten seconds to answer, and delays only its own deliveries', async () => {
    await using silent = await Receiver.start();
    silent.answer = () => {};
    await using slow = await Receiver.start();
    slow.answer = (response) => setTimeout(() => response.writeHead(200).end(), 400);
    const passed = Promise.withResolvers<number>();
    const deadlines: number[] = [];
    const http = withDeadlines(({ url, timeoutMs }) => {
      deadlines.push(timeoutMs);
      return url.startsWith(silent.url) ? passed.promise : timeoutMs;
    });
    await using it = await startEngineProcess(local.url, { backoffMs: () => 600_000, http });
    const [never, late] = [await insertHook(it.services, silent.url), await insertHook(it.services, slow.url)];
    await insertDeliveries(it.services, [never, late]);
    const taken = await firstAttempt(local, late);
    expect([taken.error, taken.response_status]).toEqual([null, 200]);
    expect(taken.duration_ms).toBeGreaterThanOrEqual(390);
    expect(await attemptsOf(local, never)).toEqual([]);
    expect(deadlines).toEqual([10_000, 10_000]);
    // This replaces the ten seconds.
    passed.resolve(50);
    const given = await firstAttempt(local, never);
    expect(given.response_status).toBeNull();
    expect(given.error).toMatch(/time/i);
    await http.close();
  });

  it('sets the delay with Retry-After on 429 and 503, while other failures use the usual delays', async () => {
    await using receiver = await Receiver.start();
    const now = new Date('2026-01-01T00:00:00Z');
    await using it = await startEngineProcess(local.url, { backoffMs: () => 5_000, clock: { now: () => now } });
    const restAfter = async (status: number, header: Record<string, string>) => {
      receiver.answer = (response) => response.writeHead(status, header).end();
      const hook = await insertHook(it.services, receiver.url);
      await insertDeliveries(it.services, [hook]);
      expect((await firstAttempt(local, hook)).response_status).toBe(status);
      return waitOf(hook);
    };
    expect(await restAfter(429, { 'retry-after': '3600' })).toBe(3_600);
    const date = new Date(now.getTime() + 7_200_000).toUTCString();
    expect(await restAfter(503, { 'retry-after': date })).toBe(7_200);
    // The delay is limited.
    expect(await restAfter(429, { 'retry-after': '999999999' })).toBe(86_400);
    expect(await restAfter(500, {})).toBe(5);
    expect(await restAfter(404, { 'retry-after': 'soon' })).toBe(5);
    // A shorter delay does not make the engine faster.
    expect(await restAfter(429, { 'retry-after': '1' })).toBe(5);
  });
});

describe('an address', () => {
  /** Opens only loopback connections, whatever the guard decided, and records the requested addresses. */
  const watched = (options: HttpClientOptions) => {
    const asked: string[] = [];
    const connector = buildConnector({});
    const http = createHttpClient({
      ...options,
      connect: (given, callback) => {
        const [first] = given.addresses;
        asked.push(first?.address ?? '');
        if (first?.address !== '127.0.0.1')
          return callback(new Error('test: only loopback is ever connected to'), null);
        connector({ ...given, hostname: '127.0.0.1' }, callback);
      },
    });
    return { http, asked };
  };

  it('is not connected to if its host also resolves to a private one', async () => {
    for (const inner of [
      '10.0.0.7',
      '127.0.0.1',
      '169.254.169.254',
      '100.64.1.1',
      '::1',
      'fd00::1',
      '::ffff:10.0.0.7',
    ]) {
      const { http, asked } = watched({
        lookup: async () => [
          { address: '93.184.216.34', family: 4 },
          { address: inner, family: inner.includes(':') ? 6 : 4 },
        ],
      });
      await using it = await startEngineProcess(guarded.url, { http, backoffMs: () => 600_000 });
      const hook = await insertHook(it.services, 'http://receiver.example/hook');
      await insertDeliveries(it.services, [hook]);
      const { error, response_status } = await firstAttempt(guarded, hook);
      expect([inner, response_status]).toEqual([inner, null]);
      expect(error).toMatch(/blocked/);
      expect([inner, asked]).toEqual([inner, []]);
      await http.close();
    }
  });

  it('of cloud metadata stays blocked on each retry, even if local requests are allowed', async () => {
    const { http, asked } = watched({ lookup: async () => [{ address: '169.254.169.254', family: 4 }] });
    await using it = await startEngineProcess(local.url, { http, backoffMs: () => 10 });
    const hook = await insertHook(it.services, 'http://metadata.example/latest');
    await insertDeliveries(it.services, [hook]);
    await until('it was tried again', async () => (await attemptsOf(local, hook)).length >= 3);
    // The engine also takes deliveries that other tests in this file left waiting for loopback receivers.
    expect(asked.filter((address) => address !== '127.0.0.1')).toEqual([]);
    for (const { error } of await attemptsOf(local, hook)) expect(error).toMatch(/blocked/);
    await http.close();
  });
});

describe('a host', () => {
  it('serves its other receivers while most of them hang', async () => {
    await using receiver = await Receiver.start();
    receiver.answer = (response, { path }) => {
      if (path === '/well') response.writeHead(200).end();
    };
    const http = withDeadlines(({ url, timeoutMs }) => (url.includes('/hang-') ? 600_000 : timeoutMs));
    await using it = await startEngineProcess(local.url, { http });
    const at = (path: string) => new URL(path, receiver.url).href;
    const hanging: number[] = [];
    for (let n = 0; n < 30; n++) hanging.push(await insertHook(it.services, at(`/hang-${n}`)));
    await insertDeliveries(it.services, hanging, 5);
    await until('all of them hang', () => receiver.received.length >= 100);
    const well = await insertHook(it.services, at('/well'));
    await insertDeliveries(it.services, [well]);
    // The hanging requests time out only after ten minutes. Nothing may wait for that.
    expect((await firstAttempt(local, well)).response_status).toBe(200);
    expect(receiver.received.filter(({ path }) => path === '/well')).toHaveLength(1);
    await sql`delete from webhooks where id = any (${hanging}::bigint[])`.execute(db(local));
    await it.engine.stop();
    await http.close();
  });
});
