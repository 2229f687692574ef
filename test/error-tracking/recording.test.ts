import { describe, expect, it } from 'vitest';
import { announceCounts } from '#domains/error-tracking/digest/announce.ts';
import { lockProjects } from '#domains/error-tracking/digest/projects.ts';
import { thinUsers } from '#domains/error-tracking/digest/users.ts';
import {
  type NormalizedEvent,
  recordAll,
  recordClientReports,
  recordEvents,
  recordSessions,
  recordUserReports,
} from '#domains/error-tracking/event.ts';
import { prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import { useApp } from '../support/app.ts';
import { errorEvent, eventId, exception, frame } from '../support/error-events.ts';
import { until } from '../support/until.ts';

const app = useApp();

const record = (events: readonly NormalizedEvent[]) =>
  app()
    .context()
    .transaction((tx) => recordEvents(tx, events.map(prepareEvent)));

const rows = async (text: string, ...values: readonly unknown[]) =>
  (await app().hub.services.pool.query(text, [...values])).rows;

const errorsOf = (projectId: number) => rows('select * from errors where project_id = $1 order by id', projectId);

describe('recording events', () => {
  it('groups, counts and stores them, each once', async () => {
    const { id } = await app().make.project();
    const other = (type: string, given: Partial<NormalizedEvent> = {}) =>
      errorEvent(id, { exceptions: [exception(type, 'no user 1', [frame('load')])], ...given });
    const user = (name: string) => ({ id: name, username: null, email: null, ip_address: null, data: {} });
    const at = (timestamp: string) => ({ timestamp });
    const batch = [
      other('KeyError', { user: user('a'), environment: 'prod', release: '1.0', ...at('2026-11-20T10:59:59.000Z') }),
      other('KeyError', { user: user('a'), environment: 'prod', release: '1.1', ...at('2026-11-20T11:00:00.000Z') }),
      other('KeyError', { user: user('b'), environment: 'test', ...at('2026-11-19T10:00:00.000Z') }),
      other('TypeError', { level: 'fatal', tags: { browser: 'Firefox' } }),
    ];
    const [first] = batch;
    if (!first) throw new Error('no event');
    expect(await record([...batch, first])).toBe(4);
    expect(await record(batch)).toBe(0);
    expect(await record([other('KeyError', { user: user('b'), ...at('2026-11-20T10:00:00.000Z') })])).toBe(1);

    const [keyError, typeError, ...more] = await errorsOf(id);
    expect(more).toEqual([]);
    expect(keyError).toMatchObject({
      status: 'unresolved',
      type: 'KeyError',
      title: 'KeyError: no user 1',
      culprit: 'app.py in load',
      event_count: 4,
      user_count: 2,
      first_seen: '2026-11-19 10:00:00+00',
      last_seen: '2026-11-20 11:00:00+00',
    });
    expect(typeError).toMatchObject({ event_count: 1, user_count: 0, level: 'fatal' });
    expect(
      await rows('select hour, event_count from error_hours where error_id = $1 order by hour', keyError.id),
    ).toEqual([
      { hour: '2026-11-19 10:00:00+00', event_count: 1 },
      { hour: '2026-11-20 10:00:00+00', event_count: 2 },
      { hour: '2026-11-20 11:00:00+00', event_count: 1 },
    ]);
    const [{ sum }] = await rows('select sum(event_count) from error_project_hours where project_id = $1', id);
    expect(sum).toBe(5);
    expect(
      await rows('select kind, value, event_count from error_facets where error_id = $1 order by 1, 2', keyError.id),
    ).toEqual([
      { kind: 'environment', value: 'prod', event_count: 2 },
      { kind: 'environment', value: 'test', event_count: 1 },
      { kind: 'release', value: '1.0', event_count: 1 },
      { kind: 'release', value: '1.1', event_count: 1 },
    ]);
    const versions = `select f.version as first, l.version as last from errors e
      join error_releases f on f.id = first_release_id join error_releases l on l.id = last_release_id where e.id = $1`;
    expect(await rows(versions, keyError.id)).toEqual([{ first: '1.0', last: '1.1' }]);
  });

  it('counts an event once that arrives again weeks later, or in two transactions at once', async () => {
    const { id } = await app().make.project();
    const event = errorEvent(id, { received_at: '2026-09-01T10:00:00.000Z', timestamp: '2026-09-01T10:00:00.000Z' });
    const later = { ...event, received_at: '2026-11-01T10:00:00.000Z' };
    const counts = await Promise.all([record([event]), record([later]), record([{ ...event }, later])]);
    expect(counts.sort()).toEqual([0, 0, 1]);
    const { id: elsewhere } = await app().make.project();
    expect(await record([{ ...event, project_id: elsewhere }])).toBe(1);
    expect(await errorsOf(id)).toMatchObject([{ event_count: 1 }]);
  });

  it('leaves out projects that are gone, and takes the rest of the batch', async () => {
    const { id } = await app().make.project();
    expect(await record([errorEvent(999_999_999), errorEvent(id)])).toBe(1);
    expect(await record([errorEvent(999_999_999)])).toBe(0);
  });

  it('estimates the number of affected users from 10,000 on', async () => {
    const { id } = await app().make.project();
    const seen = (from: number, count: number) =>
      Array.from({ length: count }, (_, n) =>
        errorEvent(id, { user: { id: `${from + n}`, username: null, email: null, ip_address: null, data: {} } }),
      );
    await record(seen(0, 2));
    const [error] = await errorsOf(id);
    await rows(
      `insert into error_users (error_id, hash) select $1, (random() * 9.2e18)::bigint from generate_series(1, 9998)`,
      error.id,
    );
    await rows('update errors set user_count = 10000 where id = $1', error.id);
    await record(seen(0, 2));
    expect(await errorsOf(id)).toMatchObject([{ user_count: 10_000, user_sampling: 0 }]);
    await record(seen(2, 1));
    const [estimated] = await errorsOf(id);
    expect(estimated.user_sampling).toBe(1);
    expect(Math.abs(estimated.user_count - 10_001)).toBeLessThan(600);
    const [{ count }] = await rows('select count(*) from error_users where error_id = $1', error.id);
    expect(count * 2).toBe(estimated.user_count);
  });

  it('halves the sample of users again and again until it is small enough, for each error by itself', async () => {
    const { id } = await app().make.project();
    await record([
      errorEvent(id, { exceptions: [exception('Many', null)] }),
      errorEvent(id, { exceptions: [exception('More', null)] }),
    ]);
    const errors = await errorsOf(id);
    const counts = [20_001, 10_001];
    for (const [n, error] of errors.entries()) {
      // Hashes at equal distances.
      await rows(
        `insert into error_users (error_id, hash)
         select $1, (9223372036854775807 / $2::bigint) * n from generate_series(0, $2::bigint - 1) as n`,
        error.id,
        counts[n],
      );
      await rows('update errors set user_count = $2 where id = $1', error.id, counts[n]);
    }
    await app()
      .context()
      .transaction((tx) =>
        thinUsers(
          tx,
          errors.map((error) => error.id),
        ),
      );
    const thinned = await errorsOf(id);
    expect(thinned.map(({ user_sampling }) => user_sampling)).toEqual([2, 1]);
    for (const [n, { id: error, user_count, user_sampling }] of thinned.entries()) {
      const [{ count }] = await rows('select count(*)::integer as count from error_users where error_id = $1', error);
      expect(count).toBeLessThanOrEqual(10_000);
      expect(user_count).toBe(count << user_sampling);
      expect(Math.abs(user_count - (counts[n] ?? 0))).toBeLessThanOrEqual(8);
    }
  });

  it('announces new errors at once, and counts a second later to those who may read errors', async () => {
    const { id } = await app().make.project();
    await record([errorEvent(id)]);
    await record([errorEvent(id), errorEvent(id)]);
    // The job waits for a second. Running it now announces all, and leaves it nothing to do.
    await announceCounts.run(app().context(), { project_id: id }, { attempt: 1, lastAttempt: false });
    const events = await rows(
      `select kind, payload, min_access_level from events where project_id = $1 and kind like 'error%' order by id`,
      id,
    );
    const [error] = await errorsOf(id);
    expect(events).toEqual([
      {
        kind: 'error_tracking_error.created',
        min_access_level: 20,
        payload: expect.objectContaining({ id: error.id, title: 'ValueError: wrong', event_count: 1 }),
      },
      {
        kind: 'error_tracking_errors.counted',
        min_access_level: 20,
        payload: { project_id: id, errors: [expect.objectContaining({ id: error.id, event_count: 3 })] },
      },
    ]);
  });
});

describe('recording reports that belong to events', () => {
  it('locks all projects of a batch together, so that batches do not wait for each other', async () => {
    const [low, high] = [await app().make.project(), await app().make.project()];
    await record([errorEvent(low.id), errorEvent(high.id)]);
    const counts = { sid: null, environment: null, total: 1, errored: 0, crashed: 0, abnormal: 0 };
    const session = { project_id: low.id, release: '1.0', started: new Date().toISOString(), ...counts };
    const discard = { project_id: high.id, timestamp: session.started, reason: 'sample_rate', category: 'error' };
    const batch = {
      events: [prepareEvent(errorEvent(high.id, { release: '2.0' }))],
      sessions: [session, { ...session, project_id: high.id }],
      discards: [{ ...discard, quantity: 1 }],
      reports: [],
    };
    let recording: Promise<void> | undefined;
    await app()
      .context()
      .transaction(async (tx) => {
        await lockProjects(tx, [low.id]);
        recording ??= app()
          .context()
          .transaction((other) => recordAll(other, batch));
        await until('the batch waits for the first project', async () => {
          const waiting = await rows(
            `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
               and query like '%error_tracking_projects%'`,
          );
          return waiting.length > 0;
        });
        await lockProjects(tx, [high.id]);
      });
    await recording;
    expect(
      await rows(
        `select project_id, version, event_count, total from error_releases r
         left join error_session_hours h on h.release_id = r.id where project_id = any ($1) order by 1, 2`,
        [low.id, high.id],
      ),
    ).toEqual([
      { project_id: low.id, version: '1.0', event_count: 0, total: 1 },
      { project_id: high.id, version: '1.0', event_count: 0, total: 1 },
      { project_id: high.id, version: '2.0', event_count: 1, total: null },
    ]);
  });

  it('keeps the level and release of the newest event if an older batch is recorded after it', async () => {
    const { id } = await app().make.project();
    const seen = (minutes: number, given: Partial<NormalizedEvent>) => {
      const at = new Date(Date.now() - minutes * 60_000).toISOString();
      return errorEvent(id, { received_at: at, timestamp: at, ...given });
    };
    await record([seen(1, { level: 'warning', release: '1.1' })]);
    await record([seen(5, { level: 'fatal', release: '1.0' })]);
    expect(
      await rows(
        'select level, r.version from errors e join error_releases r on r.id = e.last_release_id where e.project_id = $1',
        id,
      ),
    ).toEqual([{ level: 'warning', version: '1.1' }]);
  });

  it('adds sessions by release, hour and environment', async () => {
    const { id } = await app().make.project();
    const counts = { sid: null, total: 10, errored: 3, crashed: 1, abnormal: 0 };
    const session = {
      project_id: id,
      release: '1.0',
      environment: 'prod',
      started: '2026-11-20T10:30:00.000Z',
      ...counts,
    };
    await app()
      .context()
      .transaction(async (tx) => {
        await recordSessions(tx, [session, { ...session, started: '2026-11-20T10:10:00.000Z' }]);
        await recordSessions(tx, [
          { ...session, environment: null },
          { ...session, project_id: 999_999_999 },
        ]);
        await recordSessions(tx, [{ ...session, project_id: 999_999_999 }]);
      });
    expect(
      await rows(
        `select version, environment, hour, total, errored, crashed from error_session_hours
         join error_releases r on r.id = release_id where project_id = $1 order by environment desc`,
        id,
      ),
    ).toEqual([
      { version: '1.0', environment: 'prod', hour: '2026-11-20 10:00:00+00', total: 20, errored: 6, crashed: 2 },
      { version: '1.0', environment: '', hour: '2026-11-20 10:00:00+00', total: 10, errored: 3, crashed: 1 },
    ]);
  });

  it('adds the items that SDKs dropped, and keeps the last report of a user about an event', async () => {
    const { id } = await app().make.project();
    const event_id = eventId();
    const report = {
      project_id: id,
      event_id,
      name: 'Ann',
      email: 'ann@example.com',
      received_at: '2026-11-20T10:30:00.000Z',
    };
    const discard = {
      project_id: id,
      timestamp: '2026-11-20T10:30:00.000Z',
      reason: 'ratelimit_backoff',
      category: 'error',
    };
    await app()
      .context()
      .transaction(async (tx) => {
        await recordClientReports(tx, [
          { ...discard, quantity: 2 },
          { ...discard, quantity: 3 },
          { ...discard, project_id: 999_999_999, quantity: 2 },
        ]);
        await recordUserReports(tx, [
          { ...report, comments: 'first' },
          { ...report, comments: 'second' },
          { ...report, project_id: 999_999_999, comments: 'lost' },
        ]);
      });
    expect(await rows('select reason, quantity from error_client_discards where project_id = $1', id)).toEqual([
      { reason: 'ratelimit_backoff', quantity: 5 },
    ]);
    expect(await rows('select comments from error_user_reports where project_id = $1', id)).toEqual([
      { comments: 'second' },
    ]);
  });
});
