import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { lockMergeRequest, type MergeRequestRow } from './queries.ts';

/**
 * Locks the merge request, and its project against changes of roles, until the transaction ends. Returns both as they are
 * now, so that the caller's rights can be judged again.
 *
 * @throws DomainError `not_found` or `forbidden` if the caller cannot see the merge request any more
 */
export const lockInProject = async (
  tx: Tx,
  seen: Pick<ProjectRow, 'id'>,
  given: Pick<MergeRequestRow, 'id' | 'iid'>,
): Promise<{ readonly project: ProjectRow; readonly row: MergeRequestRow }> => {
  const project = await lockProjectFor(tx, seen, 'read_merge_request', 'shared');
  return { project, row: await lockMergeRequest(tx, project, given) };
};

/** For `catch`: returns null if the merge request was deleted meanwhile. */
export const unlessDeleted = (error: unknown): null => {
  if (error instanceof DomainError && error.code === 'not_found') return null;
  throw error;
};
