import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { sweepDeliveries } from '#domains/hooks/jobs.ts';
import { systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';
import { until } from '../support/until.ts';
import { allowLocal, insertDeliveries, insertHook, startEngineProcess, withDeadlines } from './engine-support.ts';
import { Receiver } from './receiver.ts';

let database: TestDatabase;
let held: TestServices;
const children: ChildProcess[] = [];
beforeAll(async () => {
  database = await createTestDatabase();
  held = await createTestServices(database.url);
  await allowLocal(held.services);
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  await sql`truncate webhooks, webhook_payloads, webhook_deliveries, webhook_attempts, webhook_queue, hub_processes cascade`.execute(
    held.services.db,
  );
});
afterAll(async () => {
  await held[Symbol.asyncDispose]();
  await database.drop();
});

const db = () => held.services.db;
const hookOf = (id: number) => db().selectFrom('webhooks').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
const deliveries = (id: number) =>
  db()
    .selectFrom('webhook_deliveries as d')
    .leftJoin('webhook_queue as q', 'q.delivery_id', 'd.id')
    .select(['d.id', 'd.attempts', 'd.finished_at', 'q.next_attempt_at', 'q.claimed_by'])
    .select(sql<string>`coalesce(q.state, d.state)`.as('state'))
    .where('d.webhook_id', '=', id)
    .orderBy('d.created_at')
    .execute();
const states = async (id: number): Promise<Record<string, number>> => {
  const counts: Record<string, number> = {};
  for (const { state } of await deliveries(id)) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
};
const attempts = (id: number) =>
  db().selectFrom('webhook_attempts').selectAll().where('webhook_id', '=', id).orderBy('id').execute();

describe('the delivery engine', () => {
  it('sends each due delivery once, in many lanes, and records each attempt', async () => {
    await using receiver = await Receiver.start();
    await using one = await startEngineProcess(database.url);
    await using _two = await startEngineProcess(database.url);
    const ids = await Promise.all(
      Array.from({ length: 20 }, (_, n) => insertHook(one.services, `${receiver.url}/${n}`)),
    );
    await insertDeliveries(one.services, ids, 25);
    await one.engine.drain();
    const keys = receiver.received.map(({ headers }) => headers['idempotency-key']);
    expect(keys).toHaveLength(500);
    expect(new Set(keys).size).toBe(500);
    for (const id of ids) expect(await states(id)).toEqual({ delivered: 25 });
    expect(await attempts(ids[0] ?? 0)).toHaveLength(25);
  });

  it('retries after a delay under the same idempotency key until the receiver accepts', async () => {
    await using receiver = await Receiver.start();
    const answers = [500, 404, 302];
    receiver.answer = (response) => {
      const status = answers.shift() ?? 204;
      response.writeHead(status, status === 302 ? { location: `${receiver.url}/elsewhere` } : {}).end();
    };
    await using it = await startEngineProcess(database.url);
    const id = await insertHook(it.services, receiver.url);
    await insertDeliveries(it.services, [id]);
    await until('it is delivered', async () => (await states(id)).delivered === 1);
    expect(receiver.received).toHaveLength(4);
    expect(receiver.received.map(({ path }) => path)).not.toContain('/hook/elsewhere');
    expect(new Set(receiver.received.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
    expect(new Set(receiver.received.map(({ headers }) => headers['x-gitlab-webhook-uuid'])).size).toBe(4);
    expect(receiver.received.map(({ headers }) => headers['x-millrace-attempt'])).toEqual(['1', '2', '3', '4']);
    expect((await attempts(id)).map(({ response_status, error }) => [response_status, error])).toEqual([
      [500, 'The receiver answered 500'],
      [404, 'The receiver answered 404'],
      [302, 'The receiver redirects; redirects are not followed'],
      [204, null],
    ]);
    // The failure count is written after the attempts.
    await until('the failures are forgotten', async () => (await hookOf(id)).recent_failures === 0);
  });

  it('disables a hook at the fourth failure, holds its deliveries, probes with one, and sends all once it recovers', async () => {
    await using receiver = await Receiver.start();
    receiver.answer = 503;
    await using it = await startEngineProcess(database.url, { backoffMs: () => 60_000 });
    const id = await insertHook(it.services, receiver.url);
    await insertDeliveries(it.services, [id], 50);
    await until('it is disabled', async () => (await hookOf(id)).disabled_until !== null);
    await until('the rest is held', async () => (await states(id)).held === 50);
    const sent = receiver.received.length;
    expect(sent).toBeGreaterThanOrEqual(4);
    expect(sent).toBeLessThanOrEqual(8);
    expect((await hookOf(id)).recent_failures).toBe(4);
    const event = await db()
      .selectFrom('events')
      .selectAll()
      .where('kind', '=', 'webhook.alert_status_changed')
      .where('subject_id', '=', id)
      .executeTakeFirstOrThrow();
    expect(event.payload).toMatchObject({ previous: 'executable', current: 'temporarily_disabled' });

    const pass = () => sql`update webhooks set disabled_until = now() - interval '1 s' where id = ${id}`.execute(db());
    await pass();
    await until('the probe failed', async () => (await hookOf(id)).recent_failures === 5);
    expect(receiver.received).toHaveLength(sent + 1);
    const { rows } = await sql<{ minutes: number }>`
      select round(extract(epoch from disabled_until - now()) / 60) as minutes from webhooks where id = ${id}`.execute(
      db(),
    );
    expect(rows[0]?.minutes).toBe(2);

    receiver.answer = 200;
    await insertDeliveries(it.services, [id], 5);
    await until('new ones are held as well', async () => (await states(id)).held === 55);
    expect(receiver.received).toHaveLength(sent + 1);
    await pass();
    await until('it is live', async () => (await hookOf(id)).disabled_until === null);
    await sql`update webhook_queue set next_attempt_at = now() where webhook_id = ${id}`.execute(db());
    await until('all flows', async () => (await states(id)).delivered === 55);
    expect(await hookOf(id)).toMatchObject({ recent_failures: 0, disabled_permanently: false });
  });

  it('disables a hook permanently at the fortieth failure and at 410, without losing deliveries', async () => {
    await using receiver = await Receiver.start();
    receiver.answer = 410;
    await using it = await startEngineProcess(database.url);
    const id = await insertHook(it.services, receiver.url);
    await insertDeliveries(it.services, [id]);
    await until('it is disabled', async () => (await hookOf(id)).disabled_permanently);
    await until('it is held', async () => (await states(id)).held === 1);
    expect(receiver.received).toHaveLength(1);

    receiver.answer = 500;
    const other = await insertHook(it.services, receiver.url);
    await sql`update webhooks set recent_failures = 39, disabled_until = now() where id = ${other}`.execute(db());
    await insertDeliveries(it.services, [other]);
    await until('it is disabled', async () => (await hookOf(other)).disabled_permanently);
    await until('it is held', async () => (await states(other)).held === 1);
  });

  it('does not let hanging and dead receivers delay others', async () => {
    await using well = await Receiver.start();
    await using hanging = await Receiver.start();
    hanging.answer = () => {};
    const http = withDeadlines(({ url, timeoutMs }) => (url.startsWith(hanging.url) ? 600_000 : timeoutMs));
    await using it = await startEngineProcess(database.url, { backoffMs: () => 60_000, http });
    const bad = await Promise.all(Array.from({ length: 10 }, () => insertHook(it.services, hanging.url)));
    bad.push(await insertHook(it.services, 'http://127.0.0.1:9/'));
    const good = await Promise.all(Array.from({ length: 10 }, () => insertHook(it.services, well.url)));
    await insertDeliveries(it.services, [...bad, ...good], 20);
    // The hanging requests time out only after ten minutes. Nothing may wait for that.
    await until('the others are done', () => well.received.length === 200);
    await until('it is recorded', async () => (await states(good[0] ?? 0)).delivered === 20);
    await it.engine.stop();
    // They are released, so that the next process sends them.
    for (const id of bad.slice(0, 10)) expect(await states(id)).toEqual({ waiting: 20 });
    await http.close();
  });

  it('gives up after three days and ten attempts, not before', async () => {
    await using receiver = await Receiver.start();
    receiver.answer = 500;
    await using it = await startEngineProcess(database.url, { backoffMs: () => 600_000 });
    const old = await insertHook(it.services, receiver.url);
    const young = await insertHook(it.services, receiver.url);
    const rare = await insertHook(it.services, receiver.url);
    const insert = async (id: number, days: number, made: number) => {
      await insertDeliveries(it.services, [id]);
      await sql`
        update webhook_queue set attempts = ${made}, retries_from = now() - make_interval(days => ${days})
        where webhook_id = ${id}`.execute(db());
    };
    await it.engine.stop();
    await insert(old, 3, 12);
    await insert(young, 1, 12);
    await insert(rare, 4, 2);
    await using _other = await startEngineProcess(database.url, { backoffMs: () => 600_000 });
    await until('all were tried', () => receiver.received.length === 3);
    await until('the old one expired', async () => (await states(old)).expired === 1);
    await until('it is recorded', async () => (await states(young)).waiting === 1);
    await until('it is recorded', async () => (await states(rare)).waiting === 1);
    const rows = [...(await deliveries(old)), ...(await deliveries(young)), ...(await deliveries(rare))];
    expect(rows.map(({ state, finished_at }) => ({ state, finished: finished_at !== null }))).toEqual([
      { state: 'expired', finished: true },
      { state: 'waiting', finished: false },
      { state: 'waiting', finished: false },
    ]);
  });

  it('is not held up by a hook or delivery that is deleted meanwhile', async () => {
    await using receiver = await Receiver.start();
    await using it = await startEngineProcess(database.url);
    const gone = await insertHook(it.services, `${receiver.url}/gone`);
    const stays = await insertHook(it.services, `${receiver.url}/stays`);
    receiver.answer = async (response, { path }) => {
      if (path.endsWith('gone')) await sql`delete from webhooks where id = ${gone}`.execute(db());
      response.writeHead(200).end();
    };
    await insertDeliveries(it.services, [gone, stays], 3);
    await until('the other is done', async () => (await states(stays)).delivered === 3);
    await it.engine.drain();
    const ctx = createContextFactory(held.services)({ actor: systemActor });
    await sweepDeliveries.run(ctx, {}, { attempt: 1, lastAttempt: false });
    expect([await deliveries(gone), await attempts(gone)]).toEqual([[], []]);
    expect(await deliveries(stays)).toHaveLength(3);
  });

  it('resends what a killed process was sending, under the same ids', async () => {
    await using receiver = await Receiver.start();
    receiver.answer = () => {};
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL('./engine-process.ts', import.meta.url)), database.url],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    children.push(child);
    await once(createInterface({ input: child.stdout }), 'line');
    const id = await insertHook(held.services, receiver.url);
    await insertDeliveries(held.services, [id], 3);
    await until('it is being sent', () => receiver.received.length === 3);
    child.kill('SIGKILL');
    await once(child, 'exit');
    expect(await states(id)).toEqual({ sending: 3 });
    receiver.answer = 200;
    await using it = await startEngineProcess(database.url, { deadAfterMs: 1_500 });
    await until('it is delivered', async () => (await states(id)).delivered === 3);
    await it.engine.drain();
    const keys = receiver.received.map(({ headers }) => headers['idempotency-key']);
    expect(keys.slice(0, 3).sort()).toEqual(keys.slice(3).sort());
  });

  it('sends claimed deliveries that no process is sending', async () => {
    await using receiver = await Receiver.start();
    const id = await insertHook(held.services, receiver.url);
    await insertDeliveries(held.services, [id], 2);
    await sql`update webhook_queue set state = 'sending', claimed_by = gen_random_uuid()`.execute(db());
    await using _it = await startEngineProcess(database.url);
    await until('it is delivered', async () => (await states(id)).delivered === 2);
  });

  it('continues after the database drops its connections', async () => {
    await using receiver = await Receiver.start();
    await using it = await startEngineProcess(database.url);
    const id = await insertHook(it.services, receiver.url);
    let cut = false;
    receiver.answer = async (response) => {
      if (!cut) {
        cut = true;
        await sql`
          select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name like 'millrace hooks%'`.execute(db());
      }
      response.writeHead(200).end();
    };
    await insertDeliveries(it.services, [id], 30);
    await until('all is delivered', async () => (await states(id)).delivered === 30);
  });
});
