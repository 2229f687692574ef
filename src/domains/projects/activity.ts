import { sql } from 'kysely';
import { BOOKKEEPING_MS, defineFollower } from '#platform/event-log/followers.ts';

/**
 * Events that do not count as project activity: transfers, changes of webhooks, stars, the deletion, and what runners do
 * in a pipeline.
 */
const QUIET = /^(export|import|webhook|job)\.|^pipeline\.updated$|^project\.(starred|unstarred|deleted)$/;

const NAME = 'projects.activity';

/** True while an event that counts as activity of the project `p` has not moved its `last_activity_at` yet. */
export const hasPendingActivity = sql<boolean>`exists (
  select from events e where e.project_id = p.id and e.kind !~ ${sql.lit(QUIET.source)}
    and (e.position is null or e.position > coalesce((select position from event_cursors where name = ${sql.lit(NAME)}), 0)))`;

/** Moves `last_activity_at` of the projects that the events concern. */
export const projectActivity = defineFollower({
  name: NAME,
  delayMs: BOOKKEEPING_MS,
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
