import { sql } from 'kysely';
import { z } from 'zod';
import { approvalsOfVersion, type OutdatedApprovals } from '#domains/approvals/of-version.ts';
import { differences } from '#domains/planning/changes.ts';
import { recordSystemNotes } from '#domains/planning/system-notes.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { findPusher } from '#domains/repositories/pushes.ts';
import { type Context, inNameOf, systemActor, type Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeRequestChecked, mergeRequestPrepared, mergeRequestUpdated } from '../events.ts';
import { unlessDeleted } from '../locking.ts';
import { autoMergeOf, endAutoMerge } from '../merging/auto-merge.ts';
import { enqueuePipelineOfHead } from '../pipelines/pipelines.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow, mergeRequestsByIds } from '../queries.ts';
import { headRef, mergeRef } from '../refs.ts';
import { emitMergeRequest } from '../snapshot.ts';
import { withdraw } from '../withdrawing.ts';
import { insertVersion } from './inserting.ts';
import { branchNote, draftMark, knownCommits, pushNote } from './pushed-commits.ts';
import { hasVersion, headOf, readVersion, type Version } from './reading.ts';

/**
 * The job `merge_requests.refresh`: makes a version if the head of the source branch has none yet, and finds out whether
 * it merges without conflicts. It may run twice: a version that exists is not made again.
 */
export const refreshMergeRequest = defineJob({
  name: 'merge_requests.refresh',
  /** `user_id`: who pushed, if a push is the reason. */
  input: z.object({ id: z.number(), user_id: z.number().nullish() }),
  maxAttempts: 8,
  run: (ctx, { id, user_id }) => refreshNow(ctx, id, user_id ?? null),
});

/** Refreshes the merge request after this transaction. `pusherId` is given if a push is the reason. */
export const refreshLater = (tx: Tx, id: number, pusherId: number | null = null): void => {
  tx.enqueue(refreshMergeRequest, { id, user_id: pusherId }, { key: `merge_requests.refresh:${id}` });
};

/** The same at once, for a caller who waits for the merge status. */
export const refreshNow = async (ctx: Context, id: number, pusherId: number | null = null): Promise<void> => {
  const asHub = { ...ctx, actor: systemActor };
  const row = (await mergeRequestsByIds(asHub, [id])).get(id);
  if (!row || (row.state !== 'opened' && row.merge_status !== 'preparing')) return;
  const project = await findProject(asHub, { id: row.project_id });
  if (!project) return;
  const version = await readVersion(ctx, project, row);
  const pusher = pusherId ?? (await pusherOf(ctx, row, version));
  const storeApprovals = await approvalsOfVersion(ctx, project, row, version);
  // The caller only waits. The changes are not theirs.
  await ctx.transaction((tx) =>
    settle(tx.as(systemActor), project, row, version, { pusherId: pusher, storeApprovals }),
  );
};

/** Returns who pushed the head, for a refresh that comes before that of the push, or replaces it. */
const pusherOf = async (
  ctx: Context,
  { source_project_id, source_branch, diff_head_sha, prepared_at, imported }: MergeRequestRow,
  { head }: Version,
): Promise<number | null> => {
  const isFirst = prepared_at === null && !imported;
  if (isFirst || source_project_id === null || head === null || head === diff_head_sha) return null;
  return findPusher(ctx, { id: source_project_id }, { ref: branchRef(source_branch), after: head });
};

/**
 * Brings the merge ref up to date and returns its commit. @throws DomainError `bad_request` if the merge request is not
 * open, or its branches conflict
 */
export const getMergeRefCommit = async (
  ctx: Context,
  project: ProjectRow,
  { id, iid }: Pick<MergeRequestRow, 'id' | 'iid'>,
): Promise<string> => {
  await refreshNow(ctx, id);
  const row = await getMergeRequest(ctx, project, iid);
  const isMergeable = row.state === 'opened' && row.merge_status === 'can_be_merged';
  if (!isMergeable) throw new DomainError('bad_request', 'Merge request is not mergeable');
  const oid = await ctx.services.git.resolve(project.disk_path, mergeRef(iid));
  if (oid === null) throw new DomainError('bad_request', 'Merge ref cannot be updated');
  return oid;
};

interface Settling {
  /** Null if nobody pushed. */
  readonly pusherId: number | null;
  /** Stores what the version means for approvals (`approvalsOfVersion`). */
  readonly storeApprovals: (tx: Tx) => Promise<OutdatedApprovals | null>;
}

/** Stores the version and the merge status, and emits what changed. */
const settle = async (
  tx: Tx,
  project: ProjectRow,
  seen: MergeRequestRow,
  version: Version,
  { pusherId, storeApprovals }: Settling,
): Promise<void> => {
  const before = await lockMergeRequest(tx, project, seen).catch(unlessDeleted);
  if (!before || (before.state !== 'opened' && before.merge_status !== 'preparing')) return;
  const { head, diff, mergeStatus, needsRebase, branchMissing } = version;
  // Another refresh is under way or done for what has changed meanwhile; an older version must not replace a newer one.
  if (before.target_branch !== seen.target_branch || ((await headOf(tx, before))?.oid ?? null) !== head) {
    refreshLater(tx, before.id);
    return;
  }
  if (head !== null) {
    await tx.services.git.updateRefs(project.disk_path, [{ ref: headRef(before.iid), newOid: head }]);
  }
  // An import brings no time of preparation. Its merge requests were open before.
  const isFirst = before.prepared_at === null && !before.imported;
  // Another run may have stored it meanwhile.
  const isStored = head !== null && (await hasVersion(tx, before.id, { head, base: version.base }));
  const oldrev = before.diff_head_sha;
  // An archive may not name the head. Its branch was there all the time, and nobody has pushed.
  const isImported = before.imported && oldrev === null;
  const known = isFirst || isImported || !diff || isStored ? null : await knownCommits(tx, before.id);
  if ((diff && !isStored) || (isFirst && branchMissing)) await insertVersion(tx, before.id, version);
  const isPushed = !isFirst && head !== null && head !== oldrev;
  const isChecked =
    before.merge_status !== mergeStatus ||
    before.needs_rebase !== needsRebase ||
    before.branch_missing !== branchMissing;
  const pusher = inNameOf(tx, pusherId ?? before.author_id);
  const mark = isPushed && known ? draftMark(before, version.commits, known) : null;
  const outcome: Outcome = { isFirst, isPushed, isChecked, mark };
  if (isPushed && known) {
    await recordSystemNotes(pusher, { merge_request_id: before.id }, [
      ...(oldrev === null ? [branchNote('restored', before)] : []),
      ...pushNote(version.commits, known),
      ...(mark ? [mark.note] : []),
    ]);
  }
  const isSame = !isFirst && !isPushed && !isChecked;
  if (!isSame) await storeOutcome(tx, before.id, version, outcome);
  const outdated = await storeApprovals(tx);
  if (outdated) await withdraw(pusher, project, before, outdated.user_ids, outdated.system_action);
  else {
    // Somebody approved meanwhile.
    refreshLater(tx, before.id);
  }
  if (isSame) return;
  const after = await getMergeRequest(tx, project, before.iid);
  await emitOutcome(tx, pusher, project, { before, after }, outcome);
  const runner = pusherId ?? after.author_id;
  if ((isFirst || isPushed) && head !== null && runner !== null && project.builds_access_level !== 'disabled') {
    enqueuePipelineOfHead(tx, { id: before.id, user_id: runner, head });
  }
  if (isPushed && autoMergeOf(after)?.sha !== head)
    await endAutoMerge(pusher, project, after, 'the source branch was updated');
  else if (needsRebase && project.merge_method === 'ff')
    await endAutoMerge(tx, project, after, 'the target branch was updated');
  else if (after.source_project_id === null) await endAutoMerge(tx, project, after, 'the source project was deleted');
};

/** The effect of a version on the merge request. */
interface Outcome {
  /** It was opened before, and is ready for review now. */
  readonly isFirst: boolean;
  readonly isPushed: boolean;
  /** The answer whether it can be merged has changed. */
  readonly isChecked: boolean;
  /** Set if a pushed commit makes a draft of it. */
  readonly mark: ReturnType<typeof draftMark>;
}

const storeOutcome = async (
  tx: Tx,
  id: number,
  { head, mergeStatus, needsRebase, branchMissing }: Version,
  { isFirst, isPushed, mark }: Outcome,
): Promise<void> => {
  await tx.db
    .updateTable('merge_requests')
    .set({
      merge_status: mergeStatus,
      needs_rebase: needsRebase,
      branch_missing: branchMissing,
      ...(head === null ? {} : { diff_head_sha: head }),
      ...(isFirst ? { prepared_at: sql`now()` } : {}),
      ...(isPushed ? { merge_error: null, updated_at: sql`now()` } : {}),
      ...(mark ? { title: mark.title, draft: true } : {}),
    })
    .where('id', '=', id)
    .execute();
};

const emitOutcome = async (
  tx: Tx,
  pusher: Tx,
  project: ProjectRow,
  { before, after }: { readonly before: MergeRequestRow; readonly after: MergeRequestRow },
  { isFirst, isPushed, isChecked, mark }: Outcome,
): Promise<void> => {
  if (isFirst) await emitMergeRequest(pusher, mergeRequestPrepared, project, after, {});
  else if (isPushed) {
    const changes = mark ? differences({ ...before }, { title: after.title, draft: after.draft }) : {};
    await emitMergeRequest(pusher, mergeRequestUpdated, project, after, changes, before.diff_head_sha ?? undefined);
  }
  if (isChecked) await emitMergeRequest(tx, mergeRequestChecked, project, after, {});
};
