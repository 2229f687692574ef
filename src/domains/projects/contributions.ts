import { sql } from 'kysely';
import { PRIVATE } from '#domains/access/model.ts';
import { BOOKKEEPING_MS, defineFollower } from '#platform/event-log/followers.ts';

/** Event kinds that count as contributions. */
const CONTRIBUTIONS =
  /^(push\.received|issue\.(opened|closed|reopened)|merge_request\.(opened|closed|reopened|merged|approved)|note\.created)$/;

/** All members of a private project may know who did this work, although only some can read the code. */
const WORK_ON_CODE = /^(push|merge_request)\./;

/**
 * Records who contributes to which project: from events that everyone who can see the project can see, and from work on
 * the code of private projects. A row is written at most once a day, so that busy projects do not cause constant
 * writes.
 */
export const projectContributions = defineFollower({
  name: 'projects.contributions',
  delayMs: BOOKKEEPING_MS,
  payloads: false,
  wants: ({ kind, project_id }) => project_id !== null && CONTRIBUTIONS.test(kind),
  handle: async (tx, events) => {
    const latest = new Map<string, { userId: number; projectId: number; isOpen: boolean; at: string }>();
    for (const { actor_id, project_id, kind, min_access_level, created_at } of events) {
      if (actor_id === null || project_id === null) continue;
      const isOpen = min_access_level === null;
      if (!isOpen && !WORK_ON_CODE.test(kind)) continue;
      const key = `${actor_id}:${project_id}`;
      latest.set(key, {
        userId: actor_id,
        projectId: project_id,
        isOpen: isOpen || latest.get(key)?.isOpen === true,
        at: created_at,
      });
    }
    if (latest.size === 0) return;
    const found = [...latest.values()];
    await sql`
      insert into project_contributions (user_id, project_id, last_at)
        select u.id, p.id, given.at
        from unnest(${found.map((each) => each.userId)}::bigint[], ${found.map((each) => each.projectId)}::bigint[],
          ${found.map((each) => each.isOpen)}::boolean[],
          ${found.map((each) => each.at)}::timestamptz[]) as given (user_id, project_id, is_open, at)
        join users u on u.id = given.user_id join projects p on p.id = given.project_id
        where given.is_open or p.visibility_level = ${PRIVATE}
        order by u.id, p.id
      on conflict (user_id, project_id) do update set last_at = excluded.last_at
        where project_contributions.last_at < excluded.last_at - interval '1 day'`.execute(tx.db);
  },
});
