import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { InputFields } from '#graphql/builder.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { getMergeRequest, type MergeRequestRow } from '../queries.ts';

/** The inputs that name a merge request. */
export const named = (t: InputFields) => ({
  projectPath: t.id({ required: true }),
  iid: t.string({ required: true }),
});

export interface Named {
  readonly projectPath: string;
  readonly iid: string;
}

/** @throws DomainError `not_found` */
export const findNamed = async (
  ctx: Context,
  { projectPath, iid }: Named,
): Promise<{ project: ProjectRow; row: MergeRequestRow }> => {
  const project = await getProject(ctx, { path: projectPath });
  if (!/^\d{1,9}$/.test(iid)) throw notFound('Merge Request');
  return { project, row: await getMergeRequest(ctx, project, Number(iid)) };
};
