import { afterEach, describe, expect, it } from 'vitest';
import type { IngestKey } from '#domains/error-ingest/keys.ts';
import { Quotas } from '#domains/error-ingest/quotas.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { envelope, eventEnvelope, eventsOf, makeSender, type Sender } from './sending.ts';

const app = useApp();
const limitTo = (settings: Record<string, number>) => app().as(app().root).put('/application/settings', settings);
afterEach(() =>
  limitTo({ error_tracking_key_limit: 0, error_tracking_project_limit: 0, error_tracking_backlog_limit: 1_000_000 }),
);

const sessions = () => envelope({}, [{ type: 'sessions' }, { attrs: { release: 'a' }, aggregates: [] }]);

/** Sends until one is refused, and returns that answer. A minute may end in between. */
const sendUntilRefused = (sender: Sender, body: () => string) =>
  until('a refusal', async () => {
    const answer = await sender.send(body());
    return answer.status === 429 ? answer : null;
  });

describe('quotas', () => {
  it.each([
    ['error_tracking_key_limit', 'key'],
    ['error_tracking_project_limit', 'project'],
  ])('refuse events above %s with the headers that SDKs obey', async (setting, scope) => {
    const sender = await makeSender(app());
    await limitTo({ [setting]: 3 });
    const answer = await sendUntilRefused(sender, eventEnvelope);
    expect(answer.headers.get('content-length')).toBe('0');
    const seconds = Number(answer.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(answer.headers.get('x-sentry-rate-limits')).toBe(`${seconds}:error;default:${scope}:quota`);
    expect([await answer.text(), answer.headers.get('access-control-allow-origin')]).toEqual(['', '*']);
    // Sessions have a limit of their own.
    expect((await sender.send(sessions())).status).toBe(200);
    const refused = await sendUntilRefused(sender, sessions);
    expect(refused.headers.get('x-sentry-rate-limits')).toMatch(new RegExp(`^\\d+:session;feedback:${scope}:quota$`));
    expect((await eventsOf(app(), sender.projectId)).length).toBeGreaterThanOrEqual(3);
    const other = await makeSender(app());
    expect((await other.send(eventEnvelope())).status).toBe(200);
    const refusals = await until('counts of refusals', async () => {
      const { rows } = await app().hub.services.pool.query(
        'select sum(refused)::int as refused from ingest_counts where project_id = $1',
        [sender.projectId],
      );
      return rows[0]?.refused >= 2 && rows[0];
    });
    expect(refusals.refused).toBeGreaterThanOrEqual(2);
  });

  it('refuse everything while too much waits to be digested', async () => {
    const sender = await makeSender(app());
    await limitTo({ error_tracking_backlog_limit: 1 });
    const { pool } = app().hub.services;
    // They wait as long as this connection holds them.
    const holder = await pool.connect();
    try {
      await pool.query(`insert into ingest_envelopes (project_id, key_id, form, encoding, size, address, body)
        select 0, 0, 'envelope', 'identity', 2, '', '{}' from generate_series(1, 3)`);
      await holder.query('begin');
      await holder.query('select id from ingest_envelopes for update');
      const answer = await sendUntilRefused(sender, sessions);
      expect(answer.headers.get('x-sentry-rate-limits')).toBe('30::organization:backlog');
    } finally {
      await holder.query('rollback');
      holder.release();
      await pool.query('delete from ingest_envelopes where project_id = 0');
    }
  });

  it('count the items that other processes have stored, and start anew each minute', () => {
    const quotas = new Quotas();
    const key: IngestKey = { id: 1, project_id: 2 };
    const limits = { key: 10, project: 12 };
    const start = 600_000;
    expect(quotas.admit(key, 'events', limits, start)).toBeNull();
    const before = [
      { project_id: 2, key_id: 1, events: 8, others: 0 },
      { project_id: 2, key_id: 3, events: 2, others: 5 },
    ];
    quotas.learn(before, [{ ...key, category: 'events' }], start + 1);
    expect(quotas.admit(key, 'events', limits, start + 2)).toBeNull();
    expect(quotas.admit(key, 'events', limits, start + 2_000)?.limit).toEqual({
      seconds: 58,
      header: '58:error;default:key:quota',
    });
    expect(quotas.admit({ id: 3, project_id: 2 }, 'events', limits, start + 3)?.limit?.header).toMatch(
      /:project:quota$/,
    );
    expect(quotas.admit(key, 'others', limits, start + 3)).toBeNull();
    expect(quotas.admit(key, 'events', limits, start + 60_000)).toBeNull();
  });
});
