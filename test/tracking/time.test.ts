import { describe, expect, it } from 'vitest';
import { eventDefinitions } from '#app/events.ts';
import { useApp } from '../support/app.ts';
import { KINDS, makeTracked } from './support.ts';

const app = useApp();

describe.each(KINDS)('the time of %s', (kind) => {
  it('has an estimate, which can be removed', async () => {
    const { maintainer, guest, paths } = await makeTracked(app());
    const at = paths[kind];
    const set = await maintainer.post(`${at}/time_estimate`, { duration: '1w 2h' });
    expect(set).toMatchObject({ status: 200, body: { time_estimate: 151_200, human_time_estimate: '1w 2h' } });
    expect((await maintainer.get(at)).body.time_stats).toEqual(set.body);
    const notes = await maintainer.get(`${at}/notes?sort=asc`);
    expect(notes.body.map(({ body }: { body: string }) => body)).toContain('changed time estimate to 1w 2h');
    for (const duration of ['x', '-1h']) {
      expect((await maintainer.post(`${at}/time_estimate`, { duration })).status).toBe(400);
    }
    expect((await maintainer.post(`${at}/time_estimate`, {})).status).toBe(400);
    expect((await guest.post(`${at}/time_estimate`, { duration: '1h' })).status).toBe(403);
    const reset = await maintainer.post(`${at}/reset_time_estimate`);
    expect(reset).toMatchObject({ status: 200, body: { time_estimate: 0, human_time_estimate: null } });
  });

  it('adds up the spent time, which is never negative', async () => {
    const { maintainer, stranger, guest, paths } = await makeTracked(app());
    const at = paths[kind];
    const first = await maintainer.post(`${at}/add_spent_time`, { duration: '3h30m', summary: 'Looking' });
    expect(first).toMatchObject({ status: 201, body: { total_time_spent: 12_600, human_total_time_spent: '3h 30m' } });
    await maintainer.post(`${at}/add_spent_time`, { duration: '-30m' });
    expect((await maintainer.get(`${at}/time_stats`)).body).toMatchObject({ total_time_spent: 10_800 });
    for (const duration of ['-4h', '0', 'soon']) {
      expect((await maintainer.post(`${at}/add_spent_time`, { duration })).status).toBe(400);
    }
    expect((await guest.post(`${at}/add_spent_time`, { duration: '1h' })).status).toBe(403);
    expect((await stranger.post(`${at}/add_spent_time`, { duration: '1h' })).status).toBe(404);
    expect((await stranger.get(`${at}/time_stats`)).status).toBe(404);
    expect((await maintainer.get(`${at}/time_stats`)).body).toMatchObject({ total_time_spent: 10_800 });
    const reset = await maintainer.post(`${at}/reset_spent_time`);
    expect(reset).toMatchObject({ status: 200, body: { total_time_spent: 0 } });
    expect((await maintainer.post(`${at}/reset_spent_time`)).status).toBe(200);
    const rows = await app()
      .hub.services.db.selectFrom('events')
      .selectAll()
      .where('kind', 'in', ['issue.updated', 'merge_request.updated'])
      .where('project_id', '=', (await maintainer.get(at)).body.project_id)
      .orderBy('id')
      .execute();
    expect(rows.map(({ payload }) => payload)).toMatchObject([
      { changes: { total_time_spent: { previous: 0, current: 12_600 } } },
      { changes: { total_time_spent: { previous: 12_600, current: 10_800 } } },
      { changes: { total_time_spent: { previous: 10_800, current: 0 } } },
    ]);
    // Receivers of hooks get the difference too.
    const bodies = await Promise.all(
      rows.map((row) => {
        const event = { ...row, position: 0, created_at: String(row.created_at) };
        return eventDefinitions.find((each) => each.kind === row.kind)?.body(app().context(), event);
      }),
    );
    expect(bodies.map((body) => body?.object_attributes)).toMatchObject([
      { time_change: 12_600, human_time_change: '3h 30m' },
      { time_change: -1_800, human_time_change: '-30m' },
      { time_change: -10_800, human_time_change: '-3h' },
    ]);
  });
});
