import { sql } from 'kysely';
import { recordHistory } from '#domains/planning/history.ts';
import { recordSystemNotes, type SystemNote } from '#domains/planning/system-notes.ts';
import { findProject } from '#domains/projects/queries.ts';
import { type Context, inNameOf, type Tx } from '#platform/context.ts';
import { mergeRequestClosed, mergeRequestMerged } from './events.ts';
import { endAutoMerge } from './merging/auto-merge.ts';
import { lockMergeRequest, type MergeRequestRow } from './queries.ts';
import { removeMergeRefLater } from './refs.ts';
import { emitMergeRequest } from './snapshot.ts';

interface Ending {
  /** Whether the locked merge request, which is open, must still end. */
  isDue(tx: Tx, row: MergeRequestRow): boolean | Promise<boolean>;
  readonly as: Closed | Merged;
}

interface Closed {
  readonly state: 'closed';
  /** Completes "aborted the automatic merge because". */
  readonly reason: string;
  readonly notes?: readonly SystemNote[];
}

interface Merged {
  readonly state: 'merged';
  /** The merge commit that the push brought, if it did. */
  readonly mergeCommit: string | null;
}

/** Closes a merge request, or marks it as merged by a push, in the name of the user whose act had this effect. */
export const endMergeRequest = async (
  ctx: Context,
  row: Pick<MergeRequestRow, 'id' | 'iid' | 'project_id'>,
  userId: number | null,
  { isDue, as }: Ending,
): Promise<void> => {
  const project = await findProject(ctx, { id: row.project_id });
  if (!project) return;
  await ctx.transaction(async (tx) => {
    const before = await lockMergeRequest(tx, project, row);
    if (before.state !== 'opened' || !(await isDue(tx, before))) return;
    await tx.db
      .updateTable('merge_requests')
      .set({
        state: as.state,
        updated_at: sql`now()`,
        ...(as.state === 'closed'
          ? { closed_at: sql`now()`, closed_by_id: userId }
          : { merged_at: sql`now()`, merge_user_id: userId, merge_commit_sha: as.mergeCommit }),
      })
      .where('id', '=', before.id)
      .execute();
    const user = inNameOf(tx, userId);
    if (as.state === 'closed' && as.notes) await recordSystemNotes(user, { merge_request_id: before.id }, as.notes);
    await recordHistory(user, { merge_request_id: before.id }, [{ kind: 'state', state: as.state }]);
    const after = await lockMergeRequest(tx, project, before);
    await emitMergeRequest(user, as.state === 'closed' ? mergeRequestClosed : mergeRequestMerged, project, after, {
      state: { previous: before.state, current: as.state },
    });
    removeMergeRefLater(tx, before.id);
    if (as.state === 'closed') await endAutoMerge(user, project, after, as.reason);
  });
};
