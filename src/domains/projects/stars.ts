import { sql } from 'kysely';
import { type UserSummary, userSummaryColumns } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { unauthenticated } from '#platform/errors.ts';
import { about } from './commands.ts';
import { projectStarred, projectUnstarred } from './events.ts';
import type { ProjectRow } from './model.ts';
import { requireAbility } from './policy.ts';
import { getProject } from './queries.ts';

/** A user who has starred a project. */
export interface Starrer extends UserSummary {
  readonly starred_since: string;
}

/**
 * Lists the users who have starred the project, latest first. Users with a private profile are visible only to
 * themselves and administrators. Users who cannot sign in are left out.
 */
export const listStarrers = (
  ctx: Context,
  project: Pick<ProjectRow, 'id'>,
  { search }: { readonly search?: string | undefined } = {},
): List<Starrer> => {
  const { userId, isAdmin } = ctx.actor;
  let query = ctx.db
    .selectFrom('project_stars')
    .innerJoin('users', 'users.id', 'project_stars.user_id')
    .select(userSummaryColumns)
    .select('project_stars.created_at as starred_since')
    .where('project_stars.project_id', '=', project.id)
    .where('users.state', '=', 'active');
  if (!isAdmin) query = query.where(sql<boolean>`(not users.private_profile or users.id = ${userId})`);
  if (search) {
    const pattern = containing(search);
    query = query.where(sql<boolean>`(users.name ilike ${pattern} or users.username ilike ${pattern})`);
  }
  return listOf(ctx.db, query, LATEST, 'desc');
};

const LATEST: readonly SortKey<Starrer>[] = [
  { by: sql.ref('project_stars.created_at'), of: (row) => row.starred_since },
  { by: sql.ref('project_stars.user_id'), of: (row) => row.id },
];

/**
 * Sets or removes the caller's star. `changed` is false if nothing had to change.
 *
 * @throws DomainError `unauthenticated`; `forbidden` for a star of auditors who can only read the project
 */
export const setStar = async (
  ctx: Context,
  given: ProjectRow,
  starred: boolean,
): Promise<{ readonly project: ProjectRow; readonly changed: boolean }> => {
  const { userId } = ctx.actor;
  if (userId === null) throw unauthenticated();
  if (starred) requireAbility(ctx, given, 'star_project');
  return ctx.transaction(async (tx) => {
    const key = { user_id: userId, project_id: given.id };
    const rows = starred
      ? await tx.db
          .insertInto('project_stars')
          .values(key)
          .onConflict((c) => c.doNothing())
          .returning('project_id')
          .execute()
      : await tx.db
          .deleteFrom('project_stars')
          .where('user_id', '=', key.user_id)
          .where('project_id', '=', key.project_id)
          .returning('project_id')
          .execute();
    if (rows.length === 0) return { project: await getProject(tx, { id: given.id }), changed: false };
    await tx.db
      .updateTable('projects')
      .set({ star_count: sql`star_count + ${sql.lit(starred ? 1 : -1)}` })
      .where('id', '=', given.id)
      .execute();
    const project = await getProject(tx, { id: given.id });
    const payload = { user_id: userId, star_count: project.star_count };
    tx.emit(starred ? projectStarred : projectUnstarred, { ...about(project), payload });
    return { project, changed: true };
  });
};
