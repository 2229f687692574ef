import { randomUUID } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readInThread, UnreadError } from '#domains/error-ingest/digest/thread.ts';
import { digestBatch } from '#domains/error-ingest/digest.ts';
import { cleanIngest } from '#domains/error-ingest/jobs.ts';
import { startTestApp, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { envelope, eventEnvelope, eventsOf, makeSender, newEventId } from './sending.ts';

const app = useApp();

const query = async (text: string, values: readonly unknown[] = []) =>
  (await app().hub.services.pool.query(text, [...values])).rows;

describe('the digest', () => {
  it('sets envelopes aside that it cannot read, and goes on with the others', async () => {
    const { send, projectId, key } = await makeSender(app());
    const good = newEventId();
    const bad = newEventId();
    await send(envelope({ event_id: bad }, [{ type: 'event' }, '{"message":']));
    await send(envelope({}, [{ type: 'session' }, '7'], [{ type: 'client_report' }, 'x']));
    const unused = [[{ type: 'attachment' }, 'x'] as const, [{ type: 'transaction' }, {}] as const];
    await send(envelope({ event_id: good }, [{ type: 'event' }, { message: 'good' }], ...unused));
    expect((await send(envelope({}, [{ type: 'profile' }, {}]))).status).toBe(200);
    expect(await eventsOf(app(), projectId)).toMatchObject([{ event_id: good }]);
    const failures = await query(
      'select event_id, reason, form, encoding, octet_length(body) > 0 as kept from ingest_failures where project_id = $1 order by id',
      [projectId],
    );
    const rest = { form: 'envelope', encoding: 'identity', kept: true };
    expect(failures).toEqual([
      { event_id: expect.any(String), reason: 'an item of type event is not JSON', ...rest },
      {
        event_id: null,
        reason: 'an item of type session is not an object; an item of type client_report is not JSON',
        ...rest,
      },
    ]);
    const counts = await query(
      'select sum(events)::int as events, sum(others)::int as others, sum(failed)::int as failed from ingest_counts where project_id = $1',
      [projectId],
    );
    expect(counts).toEqual([{ events: 2, others: 1, failed: 2 }]);
    expect(await query('select id from ingest_envelopes where project_id = $1', [projectId])).toEqual([]);
    // Maintainers see both.
    const client = app().as(app().root);
    let usage = await client.get(`/projects/${projectId}/error_tracking/usage`);
    const sum = (name: string) =>
      usage.body.reduce((total: number, row: Record<string, number>) => total + (row[name] ?? 0), 0);
    // Dropped items are counted once a second.
    await until('the dropped items', async () => {
      usage = await client.get(`/projects/${projectId}/error_tracking/usage`);
      return sum('dropped') === 3;
    });
    expect([sum('events'), sum('others'), sum('refused'), sum('invalid'), sum('failed')]).toEqual([2, 1, 0, 0, 2]);
    expect(usage.body[0]).toMatchObject({ client_key_id: key.id, start: expect.stringMatching(/:00:00.000Z$/) });
    const usageQuery = `query ($path: ID!) { project(fullPath: $path) {
      errorTrackingUsage { clientKeyId start events others refused invalid failed dropped } } }`;
    const { body: project } = await client.get(`/projects/${projectId}`);
    const path = project.path_with_namespace;
    const inGraphql = await client.graphql(usageQuery, { path });
    expect(inGraphql.data.project.errorTrackingUsage).toEqual(
      usage.body.map(({ client_key_id, ...row }: Record<string, unknown>) => ({
        ...row,
        clientKeyId: `gid://gitlab/ErrorTracking::ClientKey/${client_key_id}`,
      })),
    );
    const listed = await client.get(`/projects/${projectId}/error_tracking/failures?per_page=1`);
    expect(listed.body).toEqual([
      {
        ...{ id: expect.any(Number), client_key_id: key.id, event_id: null, received_at: expect.any(String) },
        reason: 'an item of type session is not an object; an item of type client_report is not JSON',
      },
    ]);
    const older = await client.get(`/projects/${projectId}/error_tracking/failures?page=2&per_page=1`);
    expect(older.body).toMatchObject([{ event_id: bad, reason: 'an item of type event is not JSON' }]);
    const developer = await app().make.user();
    await app().make.projectMember({ id: projectId }, developer, 30);
    const stranger = await app().make.user();
    const hidden = await app().as(developer).graphql(usageQuery, { path });
    expect(hidden.data.project.errorTrackingUsage).toBeNull();
    for (const path of ['usage', 'failures']) {
      const url = `/projects/${projectId}/error_tracking/${path}`;
      expect([path, (await app().as(developer).get(url)).status]).toEqual([path, 403]);
      expect([path, (await app().as(stranger).get(url)).status]).toEqual([path, 404]);
      expect([path, (await app().anonymous.get(url)).status]).toEqual([path, 401]);
    }
  });

  it('finds the envelope that fails its batch, for any reason', async () => {
    const { send, projectId } = await makeSender(app());
    // A trigger stands for whatever the database refuses.
    await query(`
      create function refuse() returns trigger language plpgsql as $$ begin
        if new.release = 'poison' then raise exception 'the database refuses it'; end if; return new; end $$`);
    await query('create trigger refuse before insert on error_events for each row execute function refuse()');
    try {
      const ids = Array.from({ length: 5 }, newEventId);
      await Promise.all(ids.map((id, index) => send(eventEnvelope({ release: index === 2 ? 'poison' : 'fine' }, id))));
      const digested = (await eventsOf(app(), projectId)).map(({ event_id }) => event_id);
      expect(digested.toSorted()).toEqual(ids.filter((_id, index) => index !== 2).toSorted());
      expect(await query('select reason from ingest_failures where project_id = $1', [projectId])).toEqual([
        { reason: 'the database refuses it' },
      ]);
    } finally {
      await query('drop trigger refuse on error_events');
      await query('drop function refuse');
    }
  });

  it('fails as a whole if its thread cannot read a body, so that nothing is removed', async () => {
    const { services } = app().hub;
    const missing = { id: 0, project_id: 1, key_id: 1, received_at: new Date().toISOString(), event_id: null };
    const batch = [{ ...missing, form: 'event', encoding: 'identity', size: 1, address: '127.0.0.1' }] as const;
    await expect(readInThread(services, batch)).rejects.toThrow(UnreadError);
  });

  it('drops envelopes of a project that was deleted', async () => {
    const other = await startTestApp({ env: { MILLRACE_ROLE: 'web' } });
    try {
      const { send, projectId } = await makeSender(other);
      expect((await send(eventEnvelope())).status).toBe(200);
      const { pool, db } = other.hub.services;
      const waiting = await pool.query('select project_id from ingest_envelopes');
      expect(waiting.rows).toEqual([{ project_id: projectId }]);
      const jobs = await pool.query(`select attempts from graphile_worker.jobs where key = 'error_ingest.digest'`);
      expect(jobs.rows).toEqual([{ attempts: 0 }]);
      await db.deleteFrom('projects').where('id', '=', projectId).execute();
      expect((await send(eventEnvelope())).status).toBe(401);
    } finally {
      await other.close();
    }
  });

  it('counts sessions, dropped events and reports of people', async () => {
    const { send, projectId } = await makeSender(app());
    const started = new Date().toISOString();
    const attrs = { release: 'shop@1.0', environment: 'live' };
    const [first, second, third] = [newEventId(), newEventId(), newEventId()];
    const session = (fields: Record<string, unknown>) =>
      [{ type: 'session' }, { sid: first, started, attrs, ...fields }] as const;
    const id = newEventId();
    await send(
      gzipSync(
        envelope(
          {},
          session({ init: true, status: 'ok', errors: 0 }),
          session({ status: 'ok', errors: 1 }),
          session({ status: 'exited', errors: 1 }),
          session({ sid: second, init: true, status: 'crashed', errors: 1 }),
          session({ sid: third, init: true }),
          session({ sid: third, status: 'unhandled', errors: 1 }),
          [
            { type: 'sessions' },
            { attrs, aggregates: [{ started, exited: 5, errored: 2, unhandled: 1, crashed: 1, abnormal: 1 }, 7] },
          ],
          [
            { type: 'client_report' },
            { timestamp: started, discarded_events: [{ reason: 'sample_rate', category: 'error', quantity: 3 }, {}] },
          ],
          [{ type: 'user_report' }, { event_id: id, name: 'Ada', email: 'ada@example.com', comments: 'It hangs.' }],
        ),
      ),
      { 'Content-Encoding': 'gzip' },
    );
    await app().settle();
    expect(
      await query(
        `select r.version, h.environment, h.total, h.errored, h.crashed, h.abnormal from error_session_hours h
         join error_releases r on r.id = h.release_id where r.project_id = $1`,
        [projectId],
      ),
    ).toEqual([{ version: 'shop@1.0', environment: 'live', total: 13, errored: 5, crashed: 2, abnormal: 1 }]);
    expect(
      await query('select reason, category, quantity from error_client_discards where project_id = $1', [projectId]),
    ).toEqual([{ reason: 'sample_rate', category: 'error', quantity: 3 }]);
    const { body: project } = await app().as(app().root).get(`/projects/${projectId}`);
    const { data } = await app()
      .as(app().root)
      .graphql(
        `query ($path: ID!) { project(fullPath: $path) { errorTracking {
           discards { time reason category count } } } }`,
        { path: project.path_with_namespace },
      );
    const time = `${started.slice(0, 13)}:00:00.000Z`;
    expect(data.project.errorTracking.discards).toEqual([{ time, reason: 'sample_rate', category: 'error', count: 3 }]);
    expect(
      await query(
        `select replace(event_id::text, '-', '') as event_id, name, comments from error_user_reports where project_id = $1`,
        [projectId],
      ),
    ).toEqual([{ event_id: id, name: 'Ada', comments: 'It hangs.' }]);
  });

  it('counts a session once, although browsers send its state again', async () => {
    const { send, projectId } = await makeSender(app());
    const attrs = { release: 'shop@1.0', environment: 'live' };
    const started = new Date().toISOString();
    const sid = randomUUID();
    const session = (fields: Record<string, unknown>) =>
      [{ type: 'session' }, { sid, started, attrs, ...fields }] as const;
    // @sentry/browser 10 and 11 send it when the page is idle and when the user changes, also after errors.
    await send(envelope({}, session({ init: true, status: 'ok', errors: 1 })));
    await send(envelope({}, session({ status: 'ok', errors: 1 }), session({ status: 'crashed', errors: 1 })));
    await app().settle();
    await send(envelope({}, session({ status: 'crashed', errors: 1 }), session({ status: 'ok', errors: 1 })));
    await send(envelope({}, session({ sid: randomUUID(), init: true, status: 'ok', errors: 0 })));
    await app().settle();
    expect(
      await query(
        `select h.total, h.errored, h.crashed, h.abnormal from error_session_hours h
         join error_releases r on r.id = h.release_id where r.project_id = $1`,
        [projectId],
      ),
    ).toEqual([{ total: 2, errored: 1, crashed: 1, abnormal: 0 }]);
  });

  it('lets projects take turns, so that the flood of one delays no other by more than a batch', async () => {
    const flooding = await makeSender(app());
    const others = [await makeSender(app()), await makeSender(app())];
    await app().settle();
    const insert = (projectId: number, keyId: number, events: number, message: string) =>
      query(
        `insert into ingest_envelopes (project_id, key_id, event_id, form, encoding, size, address, body)
         select $1, $2, gen_random_uuid(), 'event', 'identity', octet_length($4), '127.0.0.1', convert_to($4, 'UTF8')
         from generate_series(1, $3)`,
        [projectId, keyId, events, JSON.stringify({ message })],
      );
    const digested = async ({ projectId }: { projectId: number }) =>
      (await query('select count(*)::int as count from error_events where project_id = $1', [projectId]))[0].count;
    // Large reports, so that few of them fill a batch.
    await insert(flooding.projectId, flooding.key.id, 600, 'x'.repeat(50_000));
    for (const { projectId, key } of others) await insert(projectId, key.id, 2, 'it broke');
    expect(await digestBatch(app().context())).toBe(true);
    expect(await Promise.all(others.map(digested))).toEqual([2, 2]);
    const first = await digested(flooding);
    expect(first).toBeGreaterThan(20);
    expect(first).toBeLessThan(250);
    await query('delete from ingest_envelopes where id not in (select min(id) from ingest_envelopes)');
    expect(await digestBatch(app().context())).toBe(true);
    expect(await digestBatch(app().context())).toBe(false);
    expect(await digested(flooding)).toBe(first + 1);
  });

  it('adds old counts up by hours, and forgets old ones and old failures', async () => {
    const { projectId, key } = await makeSender(app());
    await query(
      `insert into ingest_counts (project_id, key_id, start, events, refused) select $1, $2, start, 1, 2 from unnest(array[
         date_trunc('hour', now()) - interval '3 hours', date_trunc('hour', now()) - interval '2 hours 59 minutes',
         date_trunc('hour', now()) - interval '2 hours 1 minute', now() - interval '91 days']) as start`,
      [projectId, key.id],
    );
    await query(
      `insert into ingest_failures (id, project_id, key_id, received_at, failed_at, reason, form, encoding, body)
       select -n, $1, 1, now(), now() - make_interval(days => n), 'old', 'event', 'identity', '' from unnest(array[1, 15]) as n`,
      [projectId],
    );
    await cleanIngest.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    expect(await query('select events, refused from ingest_counts where project_id = $1', [projectId])).toEqual([
      { events: 3, refused: 6 },
    ]);
    expect(await query('select id from ingest_failures where project_id = $1', [projectId])).toEqual([{ id: -1 }]);
  });
});
