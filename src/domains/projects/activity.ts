import { sql } from 'kysely';
import { defineFollower } from '#platform/event-log/followers.ts';

/** Events that do not count as project activity: transfers, changes of webhooks, stars and the deletion. */
const QUIET = /^(export|import|webhook)\.|^project\.(starred|unstarred|deleted)$/;

/** Moves `last_activity_at` of the projects that the events concern. */
export const projectActivity = defineFollower({
  name: 'projects.activity',
  payloads: false,
  wants: ({ kind, project_id }) => project_id !== null && !QUIET.test(kind),
  handle: async (tx, events) => {
    const latest = new Map<number, string>();
    for (const { project_id, created_at } of events) {
      if (project_id === null) continue;
      const known = latest.get(project_id);
      if (known === undefined || known < created_at) latest.set(project_id, created_at);
    }
    if (latest.size === 0) return;
    // Lock rows in order of id, so that this follower and other writers of many projects cannot deadlock.
    await sql`
      with active as (
        select p.id, given.at from unnest(${[...latest.keys()]}::bigint[], ${[...latest.values()]}::timestamptz[]) as given (id, at)
        join projects p on p.id = given.id
        where p.last_activity_at < given.at
        order by p.id for no key update of p
      )
      update projects set last_activity_at = active.at from active where projects.id = active.id`.execute(tx.db);
  },
});
