import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { requireUnchanged } from '#platform/errors.ts';
import { notifyBlocked } from './blocking/unblocking.ts';
import { mergeRequestDeleted } from './events.ts';
import { lockInProject } from './locking.ts';
import type { MergeRequestRow } from './queries.ts';
import { removeRefs } from './refs.ts';
import { emitMergeRequest } from './snapshot.ts';

/**
 * Deletes a merge request with its versions and comments. For owners.
 *
 * @param unchangedSince Keeps the merge request if it has changed after this time
 * @throws DomainError `forbidden`, `modified`
 */
export const deleteMergeRequest = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
  unchangedSince: Date | null = null,
): Promise<void> => {
  requireAbility(ctx, seen, 'remove_merge_request');
  await ctx.transaction(async (tx) => {
    const { project, row } = await lockInProject(tx, seen, given);
    requireAbility(tx, project, 'remove_merge_request');
    requireUnchanged(row, unchangedSince);
    // Before the deletion, while labels and people are still known.
    await emitMergeRequest(tx, mergeRequestDeleted, project, row, {});
    await notifyBlocked(tx, [row.id]);
    await tx.db.deleteFrom('merge_requests').where('id', '=', row.id).execute();
    tx.enqueue(removeRefs, { project_id: project.id, iid: row.iid });
  });
};
