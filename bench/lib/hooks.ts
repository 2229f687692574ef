import { setTimeout as sleep } from 'node:timers/promises';
import { seed } from './data.ts';
import { openHttp } from './http.ts';
import type { Server } from './processes.ts';
import { pushPayload } from './push.ts';
import { ADMIN_TOKEN, type Database } from './world.ts';

const TIMEOUT_MS = 60_000;

/** A hub with one project whose hooks may call loopback. Push events are committed as a real push commits them. */
export interface HookScene {
  readonly hub: Server;
  /** Replaces all hooks of the project with one for each URL. */
  setHooks(urls: readonly string[]): Promise<void>;
  /** Commits this many push events at once. */
  commit(count: number): Promise<unknown>;
  /** Returns the current position in the log of attempts, from which `untilRecorded` counts. */
  mark(): Promise<number>;
  /** Waits until this many attempts have been recorded since the mark, all answered with 200. */
  untilRecorded(wanted: number, since: number): Promise<void>;
  close(): Promise<void>;
}

export const openHooks = async (database: Database): Promise<HookScene> => {
  const hub = await database.startHub();
  const toHub = openHttp(hub.url);
  const { userId } = await seed(database.pool, { groups: 1, projectsPerGroup: 1 });
  await database.pool.query(`
    update application_settings
      set attributes = attributes || '{"allow_local_requests_from_web_hooks_and_services": true}';
    select pg_notify('settings', '')`);
  await sleep(200);
  const { rows } = await database.pool.query<{ id: number; namespaces: number[] }>(
    `select p.id, n.traversal_ids as namespaces from projects p join namespaces n on n.id = p.namespace_id`,
  );
  const [project] = rows;
  if (!project) throw new Error('there is no project');
  const as = { 'private-token': ADMIN_TOKEN, 'content-type': 'application/json' };

  // Counting rows costs more than delivering. The sequence gives an upper bound, and rows are counted only at the end.
  const mark = async (): Promise<number> => {
    const { rows } = await database.pool.query<{ last: number }>(
      `select coalesce(last_value, 0) as last from pg_sequences where sequencename = 'webhook_attempts_id_seq'`,
    );
    return rows[0]?.last ?? 0;
  };
  const recorded = async (since: number): Promise<number> => {
    const { rows } = await database.pool.query<{ count: number }>(
      `select count(*) as count from webhook_attempts where id > $1 and response_status = 200`,
      [since],
    );
    return rows[0]?.count ?? 0;
  };
  return {
    hub,
    mark,
    setHooks: async (urls) => {
      await database.pool.query('delete from webhooks');
      for (const url of urls) {
        const body = JSON.stringify({ url, push_events: true, token: 'secret-of-the-bench' });
        const { status, text } = await toHub.post(`/api/v4/projects/${project.id}/hooks`, body, as);
        if (status >= 300) throw new Error(`a hook was answered with ${status}: ${text}`);
      }
    },
    commit: (count) =>
      database.pool.query(
        `with pushed as (
           insert into events (kind, actor_id, subject_type, subject_id, project_id, namespace_ids, payload)
           select 'push.received', $1::bigint, 'project', $2::bigint, $2::bigint, $3::bigint[], $4::jsonb
           from generate_series(1, $5::int))
         select pg_notify('event_committed', '')`,
        [userId, project.id, project.namespaces, JSON.stringify(pushPayload(userId)), count],
      ),
    untilRecorded: async (wanted, since) => {
      const deadline = performance.now() + TIMEOUT_MS;
      while ((await mark()) < since + wanted || (await recorded(since)) < wanted) {
        if (performance.now() > deadline) throw new Error(`${await recorded(since)} of ${wanted} were delivered`);
        await sleep(5);
      }
    },
    close: () => toHub.close(),
  };
};
