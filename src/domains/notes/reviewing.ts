import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import type { Noteable } from './noteable.ts';
import type { GivenPosition } from './positions/model.ts';
import { hasCommit, type PlacedPosition, placePosition } from './positions/place.ts';

/** Where a comment on a merge request is placed. */
interface Placing {
  readonly position?: GivenPosition | undefined;
  /** A commit of the merge request. */
  readonly commit_id?: string | undefined;
}

/** Returns the place in the diff, or null without a position. @throws DomainError `bad_request` */
export const placeIn = async (
  ctx: Context,
  noteable: Noteable,
  { position, commit_id }: Placing,
): Promise<PlacedPosition | null> => {
  const { kind, project, id } = noteable;
  if (kind !== 'merge_request') {
    if (position || commit_id !== undefined) throw badRequest('position and commit_id are for merge requests');
    return null;
  }
  if (commit_id !== undefined && !(await hasCommit(ctx, id, commit_id)))
    throw badRequest('commit_id is not a commit of the merge request');
  return position
    ? placePosition(ctx, { disk_path: project.disk_path, merge_request_id: id, commit_id }, position)
    : null;
};
