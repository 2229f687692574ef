import { sql } from 'kysely';
import { defineFollower } from '#platform/event-log/followers.ts';

/** What counts as a contribution, as far as whoever may know of the project may know of it. */
const CONTRIBUTIONS =
  /^(push\.received|issue\.(opened|closed|reopened)|merge_request\.(opened|closed|reopened|merged|approved)|note\.created)$/;

/** Keeps who contributes to which project. A row is written once a day at most: busy projects would else do little else. */
export const projectContributions = defineFollower({
  name: 'projects.contributions',
  payloads: false,
  handle: async (tx, events) => {
    const latest = new Map<string, { userId: number; projectId: number; at: string }>();
    for (const { actor_id, project_id, kind, min_access_level, created_at } of events) {
      if (actor_id === null || project_id === null || min_access_level !== null || !CONTRIBUTIONS.test(kind)) continue;
      latest.set(`${actor_id}:${project_id}`, { userId: actor_id, projectId: project_id, at: created_at });
    }
    if (latest.size === 0) return;
    const found = [...latest.values()];
    await sql`
      insert into project_contributions (user_id, project_id, last_at)
        select u.id, p.id, given.at
        from unnest(${found.map((each) => each.userId)}::bigint[], ${found.map((each) => each.projectId)}::bigint[],
          ${found.map((each) => each.at)}::timestamptz[]) as given (user_id, project_id, at)
        join users u on u.id = given.user_id join projects p on p.id = given.project_id
        order by u.id, p.id
      on conflict (user_id, project_id) do update set last_at = excluded.last_at
        where project_contributions.last_at < excluded.last_at - interval '1 day'`.execute(tx.db);
  },
});
