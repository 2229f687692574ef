import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { idOrPath, integer } from '#rest/params.ts';
import { firstContributionsAmong, getMergeRequest, type MergeRequestRow } from '../queries.ts';
import { toMergeRequest } from '../record.ts';

/** The path parameters of one merge request. */
export const one = { id: idOrPath(), merge_request_iid: integer({ min: 1, max: 2_147_483_647 }) };

/** @throws DomainError `not_found` */
export const findMergeRequest = async (
  ctx: Context,
  id: IdOrPath,
  iid: number,
): Promise<{ project: ProjectRow; row: MergeRequestRow }> => {
  const project = await getProject(ctx, id);
  return { project, row: await getMergeRequest(ctx, project, iid) };
};

/** Returns the record of a single merge request. @throws DomainError `not_found` if it was deleted meanwhile */
export const wholeRecord = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  options: { renderHtml?: boolean; divergedCommits?: number | undefined; includeRebase?: boolean } = {},
) => {
  const firstContribution = (await firstContributionsAmong(ctx, [row.id])).has(row.id);
  const record = await toMergeRequest(ctx, project, row, { ...options, firstContribution });
  if (!record) throw notFound();
  return record;
};
