import { sql } from 'kysely';
import { projectOfNote } from '#domains/notes/policy.ts';
import { noteIsVisible } from '#domains/planning/visibility.ts';
import type { Context } from '#platform/context.ts';
import type { TrackedKind } from './tracked.ts';

/**
 * Returns the users who take part, by the id of the issue or merge request: author, assignees, reviewers, and the
 * authors of the comments that the caller can read.
 */
export const participantIdsBelow = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  kind: TrackedKind,
  ids: readonly number[],
): Promise<Map<number, number[]>> => {
  const [table, column] = [sql.table(`${kind}s`), sql.ref(`${kind}_id`)];
  const reviewers =
    kind === 'merge_request' ? sql`union select merge_request_id, user_id from merge_request_reviewers` : sql``;
  const { rows } = await sql<{ id: number; user_id: number }>`
    select people.id, people.user_id from (
      select id, author_id as user_id from ${table}
      union select ${column}, user_id from ${sql.table(`${kind}_assignees`)}
      ${reviewers}
      union select ${column}, author_id from notes
        where not system and ${noteIsVisible(ctx.actor, 'notes', projectOfNote(kind))}
    ) people
    where people.id = any (${ids}::bigint[]) and people.user_id is not null
    order by people.id, people.user_id`.execute(ctx.db);
  return new Map([...Map.groupBy(rows, ({ id }) => id)].map(([id, found]) => [id, found.map((row) => row.user_id)]));
};

export interface Reviewer {
  readonly user_id: number;
  readonly state: string;
  readonly created_at: string;
}

/** Lists the reviewers of a merge request with the state of their review. */
export const reviewersOf = (ctx: Pick<Context, 'db'>, mergeRequestId: number): Promise<Reviewer[]> =>
  ctx.db
    .selectFrom('merge_request_reviewers')
    .select(['user_id', 'state', 'created_at'])
    .where('merge_request_id', '=', mergeRequestId)
    .orderBy('user_id')
    .execute();
