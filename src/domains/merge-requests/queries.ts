import type { Selectable } from 'kysely';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { MergeRequests } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';

export type MergeRequestRow = Selectable<MergeRequests>;

/**
 * The merge request of the project with this number.
 *
 * @throws DomainError `not_found` when there is none, and as `requireAbility` where merge requests are hidden
 */
export const getMergeRequest = async (ctx: Context, project: ProjectRow, iid: number): Promise<MergeRequestRow> => {
  requireAbility(ctx, project, 'read_merge_request');
  const row = await ctx.db
    .selectFrom('merge_requests')
    .selectAll()
    .where('project_id', '=', project.id)
    .where('iid', '=', iid)
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};
