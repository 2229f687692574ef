import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { pruneErrors } from '#domains/error-tracking/digest/retention.ts';
import {
  type NormalizedEvent,
  recordClientReports,
  recordEvents,
  recordSessions,
  recordUserReports,
} from '#domains/error-tracking/event.ts';
import { prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import { useApp } from '../support/app.ts';
import { errorEvent, eventId } from '../support/error-events.ts';

const app = useApp();

const prune = () => pruneErrors.run(app().context(), {}, { attempt: 1, lastAttempt: false });

const count = async (table: string, where = 'true'): Promise<number> => {
  const { rows } = await app().hub.services.pool.query(`select count(*) from ${table} where ${where}`);
  return rows[0].count;
};

const partitions = () => count('pg_inherits', `inhparent = 'error_events'::regclass`);

describe('the retention of errors', () => {
  it('drops events and hourly counts after 90 days, and keeps the totals', async () => {
    const { id } = await app().make.project();
    const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString();
    const seen = (days: number): NormalizedEvent =>
      errorEvent(id, { timestamp: daysAgo(days), received_at: daysAgo(days), release: '1', environment: `${days}` });
    const counts = { total: 1, errored: 0, crashed: 1, abnormal: 0 };
    const session = { project_id: id, release: '1', environment: null, ...counts };
    const discard = { project_id: id, reason: 'sample_rate', category: 'error', quantity: 1 };
    const report = { project_id: id, name: '', email: '', comments: '' };
    await app()
      .context()
      .transaction(async (tx) => {
        await recordEvents(tx, [seen(200), seen(98), seen(89), seen(0)].map(prepareEvent));
        for (const days of [200, 1]) {
          await recordSessions(tx, [{ ...session, sid: randomUUID(), started: daysAgo(days) }]);
          await recordClientReports(tx, [{ ...discard, timestamp: daysAgo(days) }]);
          await recordUserReports(tx, [{ ...report, event_id: eventId(), received_at: daysAgo(days) }]);
        }
      });
    const before = await partitions();
    await prune();
    expect(await count('error_events')).toBe(2);
    expect(await count('error_hours')).toBe(2);
    expect(await count('error_project_hours')).toBe(2);
    expect(await count('error_facets', `kind = 'environment'`)).toBe(2);
    expect(await count('error_session_hours')).toBe(1);
    expect(await count('error_session_outcomes')).toBe(1);
    expect(await count('error_client_discards')).toBe(1);
    expect(await count('error_user_reports')).toBe(1);
    expect(await count('errors', 'event_count = 4')).toBe(1);
    // Two were dropped, and that of the next week was made.
    expect(await partitions()).toBe(before - 1);
    await prune();
    expect(await partitions()).toBe(before - 1);
  });

  it('deletes the events of projects that are deleted', async () => {
    const [gone, kept] = [await app().make.project(), await app().make.project()];
    await app()
      .context()
      .transaction((tx) => recordEvents(tx, [errorEvent(gone.id), errorEvent(kept.id)].map(prepareEvent)));
    await app().as(app().root).delete(`/projects/${gone.id}`);
    await app().hub.services.pool.query('delete from projects where id = $1', [gone.id]);
    await prune();
    expect(await count('errors', `project_id = ${gone.id}`)).toBe(0);
    expect(await count('error_events', `project_id = ${gone.id}`)).toBe(0);
    expect(await count('error_tracking_projects', `project_id = ${gone.id}`)).toBe(0);
    expect(await count('error_events', `project_id = ${kept.id}`)).toBe(1);
  });
});
