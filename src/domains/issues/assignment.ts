import { GUEST } from '#domains/access/model.ts';
import { type Asked, assignableAmong, readersByProject } from '#domains/planning/readers.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';

/** Returns those users who can read the project's issues. */
export const readersAmong = async (
  ctx: Pick<Context, 'db'>,
  project: ProjectRow,
  userIds: readonly number[],
): Promise<ReadonlySet<number>> => (await issueReaders(ctx, [{ project, userIds }])).get(project.id) ?? new Set();

/** The same for users of several projects, by project. */
export const issueReaders = (ctx: Pick<Context, 'db'>, asked: readonly Asked[]) =>
  readersByProject(ctx, asked, GUEST, ({ issues_access_level }) => issues_access_level === 'enabled');

/**
 * Returns the ids without duplicates. `assigned` are the assignees that the issue has. The error for a user who cannot
 * be assigned does not reveal whether the user exists.
 *
 * @throws DomainError `invalid`
 */
export const checkAssignees = async (
  ctx: Context,
  project: ProjectRow,
  userIds: readonly number[],
  assigned: readonly number[] = [],
): Promise<number[]> => {
  // Forms send 0 for nobody.
  const wanted = [...new Set(userIds)].filter((id) => id !== 0);
  const assignable = await assignableAmong(ctx, await readersAmong(ctx, project, wanted), assigned);
  const wrong = wanted.filter((id) => !assignable.has(id));
  if (wrong.length > 0) throw invalid({ assignee_ids: wrong.map((id) => `${id} cannot be assigned`) });
  return wanted.sort((a, b) => a - b);
};
