import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

// Without workers, nothing changes the rows that a test adds.
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });
const db = () => app().hub.services.db;

const administrator = async (): Promise<Visitor> => {
  const visitor = new Visitor(app().url);
  await visitor.signIn('root');
  return visitor;
};

/** Returns the texts of the cells of the row that begins with `first`. */
const rowOf = (html: string, first: string): string[] | undefined =>
  [...html.matchAll(/<tr role="row">(.*?)<\/tr>/gs)]
    .map(([, row = '']) =>
      [...row.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/gs)].map(([, cell = '']) => cell.replace(/<[^>]*>/g, '')),
    )
    .find(([name]) => name === first);

describe('the page about the work of the hub', () => {
  it('is for administrators, who find it on the start page', async () => {
    const { visitor } = await signedIn(app());
    expect((await visitor.get('/admin')).status).toBe(403);
    expect((await visitor.get('/')).html).not.toContain('href="/admin"');
    const stranger = await new Visitor(app().url).get('/admin');
    expect([stranger.status, stranger.location]).toEqual([303, '/users/sign_in?return_to=%2Fadmin']);
    const root = await administrator();
    expect((await root.get('/')).html).toContain('href="/admin"');
    expect((await root.get('/admin')).status).toBe(200);
  });

  it('shows the processes of the hub, and which of them died', async () => {
    const root = await administrator();
    const { html } = await root.get('/admin');
    expect(rowOf(html, app().hub.services.processId.slice(0, 8))).toEqual([
      expect.any(String),
      'requests',
      expect.any(String),
      expect.any(String),
      expect.stringMatching(/^\d+ s ago$/),
    ]);
    // The hub itself removes the row within seconds.
    let dead: string[] | undefined;
    await until('the page shows the dead process', async () => {
      await sql`
        insert into hub_processes (id, role, hostname, started_at, seen_at)
        values ('deadbeef-0000-4000-8000-000000000000', 'worker', 'lost', '2026-01-02T03:04:00Z', now() - interval '13 s')
        on conflict do nothing`.execute(db());
      dead = rowOf((await root.get('/admin')).html, 'deadbeef');
      return dead !== undefined;
    });
    expect(dead).toEqual([
      'deadbeef',
      'jobs',
      'lost',
      '2 Jan 2026, 03:04 UTC',
      expect.stringMatching(/^dead, \d+ s ago$/),
    ]);
  });

  it('counts the jobs of each name, and shows why one of them failed', async () => {
    await sql`
      select graphile_worker.add_jobs(array(
        select json_populate_recordset(null::graphile_worker.job_spec, ${JSON.stringify([
          { identifier: 'test.work' },
          { identifier: 'test.work' },
          { identifier: 'test.work', run_at: '2100-01-01T00:00:00Z' },
          { identifier: 'test.work', max_attempts: 1 },
          { identifier: 'test.work', max_attempts: 2 },
        ])}::json)), false)`.execute(db());
    await sql`
      update graphile_worker._private_jobs set attempts = 1, last_error = ${'<b>no room</b>\nat line 1'} where max_attempts = 1`.execute(
      db(),
    );
    await sql`
      update graphile_worker._private_jobs set locked_at = now(), locked_by = 'test' where max_attempts = 2`.execute(
      db(),
    );
    const { html } = await (await administrator()).get('/admin');
    expect(rowOf(html, 'test.work')).toEqual(['test.work', '1', '2', '1', '1', '&#60;b&#62;no room&#60;/b&#62;']);
  });

  it('counts deliveries that wait, and hooks that failed', async () => {
    const root = await administrator();
    expect((await root.get('/admin')).text).toContain('No delivery is due.');
    const { rows } = await sql<{ id: number }>`
      insert into webhooks (project_id, url, triggers)
      select ${(await app().make.project()).id}, 'http://127.0.0.1:9/' || n, '{push_events}' from generate_series(1, 2) n
      returning id`.execute(db());
    const [disabled, paused] = rows.map(({ id }) => id);
    await sql`update webhooks set disabled_permanently = true where id = ${disabled}`.execute(db());
    await sql`update webhooks set disabled_until = now() + interval '1 hour' where id = ${paused}`.execute(db());
    await sql`
      insert into webhook_queue (delivery_id, webhook_id, payload_id, created_at, next_attempt_at)
      select gen_random_uuid(), ${paused}, n, now(), now() + n * interval '1 hour' from unnest(array[-2, -1, 1]) n`.execute(
      db(),
    );
    const { text } = await root.get('/admin');
    expect(text).toMatch(/2 deliveries are due, the oldest for 72\d\d s\. 1 delivery waits for another try\./);
    expect(text).toContain('1 hook is disabled after failures. 1 hook is paused after failures.');
    await sql`delete from webhook_queue`.execute(db());
  });

  it('names the followers that are late, and the events that they set aside', async () => {
    const root = await administrator();
    await sql`select sequence_events()`.execute(db());
    const set = (behind: number, age: string) =>
      sql`
        with aged as (update events set created_at = now() - ${age}::interval)
        update event_cursors set position = last_position - case when name = 'hooks.dispatch' then ${behind} else 0 end
        from event_log`.execute(db());
    await set(2, '20 seconds');
    expect((await root.get('/admin')).text).toMatch(/All \d\d have handled their events/);
    await set(2, '2 hours');
    const late = await root.get('/admin');
    expect(rowOf(late.html, 'hooks.dispatch')).toEqual([
      'hooks.dispatch',
      '2',
      expect.stringMatching(/^72\d\d s$/),
      '0',
      '',
    ]);
    expect(late.text).toMatch(/The other \d\d have handled their events/);
    await set(0, '2 hours');
    await sql`
      insert into event_failures (follower, event_id, position, kind, error)
      select 'hooks.dispatch', n, n, 'push.received', 'failure ' || n from generate_series(1, 2) n`.execute(db());
    expect(rowOf((await root.get('/admin')).html, 'hooks.dispatch')).toEqual([
      'hooks.dispatch',
      '',
      '',
      '2',
      'failure 2',
    ]);
  });

  it('shows the latest events, with who caused them and where', async () => {
    const { make } = app();
    const user = await make.user();
    const project = await make.project({}, user);
    await app().as(user).post(`/projects/${project.id}/issues`, { title: 'Broken' });
    await sql`select sequence_events()`.execute(db());
    const { html } = await (await administrator()).get('/admin');
    expect(rowOf(html, 'issue.opened')).toEqual([
      'issue.opened',
      expect.stringMatching(/UTC$/),
      `@${user.username}`,
      project.path_with_namespace,
      expect.stringMatching(/^Issue \d+$/),
    ]);
  });

  it('reloads itself only if asked to, and stops', async () => {
    const root = await administrator();
    const once = await root.get('/admin');
    expect([once.headers.get('refresh'), once.html.includes('href="/admin?live=360"')]).toEqual([null, true]);
    const live = await root.get('/admin?live=360');
    expect([live.headers.get('refresh'), live.html.includes('<a href="/admin">Stop</a>')]).toEqual([
      '5; url=/admin?live=359',
      true,
    ]);
    expect((await root.get('/admin?live=1')).headers.get('refresh')).toBe('5; url=/admin?live=0');
    expect((await root.get('/admin?live=0')).headers.get('refresh')).toBeNull();
    expect((await root.get('/admin?live=361')).status).toBe(400);
  });
});
