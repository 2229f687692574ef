import { type Insertable, sql } from 'kysely';
import { z } from 'zod';
import { approvalsOfVersion, type OutdatedApprovals } from '#domains/approvals/of-version.ts';
import { differences } from '#domains/planning/changes.ts';
import { recordSystemNotes } from '#domains/planning/system-notes.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { diffBounds } from '#domains/repositories/diff-bounds.ts';
import { isGenerated } from '#domains/repositories/generated-files.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { type Context, inNameOf, systemActor, type Tx } from '#platform/context.ts';
import type { MergeRequestDiffCommits, MergeRequestDiffFiles } from '#platform/db/tables.ts';
import { DomainError } from '#platform/errors.ts';
import type { Commit, PlacedCommit } from '#platform/git/objects.ts';
import type { Diff } from '#platform/git/reading.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeRequestChecked, mergeRequestPrepared, mergeRequestUpdated } from '../events.ts';
import { autoMergeOf, endAutoMerge } from '../merging/auto-merge.ts';
import { findMerge, refreshMergeRef } from '../merging/merge-ref.ts';
import { enqueuePipelineOfHead } from '../pipelines/pipelines.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow, mergeRequestsByIds } from '../queries.ts';
import { headRef, mergeRef } from '../refs.ts';
import { emitMergeRequest } from '../snapshot.ts';
import { withdraw } from '../withdrawing.ts';
import { collapsedFiles } from './collapsing.ts';
import { branchNote, draftMark, knownCommits, pushNote } from './pushed-commits.ts';

// A version is the diff from the merge base to the head of the source branch, with its commits, as they were at one
// moment. Refs in the target project keep the commits, so a version outlives the branch, and the fork.

/** Commits listed in a version. Their number is stored beside them. */
const MAX_COMMITS = 1_000;
/** Characters of the messages of a version. One message may have a megabyte. */
const MESSAGES = { each: 64 * 1024, total: 4 * 1024 * 1024 };
/** The most versions of one merge request. Later pushes only move its head (reference: merge-requests §2). */
const MAX_VERSIONS = 1_000;
const ROWS_AT_ONCE = 500;

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

/** The same at once, for a caller who waits for the merge status. */
export const refreshNow = async (ctx: Context, id: number, pusherId: number | null = null): Promise<void> => {
  const asHub = { ...ctx, actor: systemActor };
  const row = (await mergeRequestsByIds(asHub, [id])).get(id);
  if (!row || (row.state !== 'opened' && row.merge_status !== 'preparing')) return;
  const project = await findProject(asHub, { id: row.project_id });
  if (!project) return;
  const version = await readVersion(ctx, project, row);
  const storeApprovals = await approvalsOfVersion(ctx, project, row, version);
  // The caller only waits. The changes are not theirs.
  await ctx.transaction((tx) => settle(tx.as(systemActor), project, row, version, { pusherId, storeApprovals }));
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

interface Version {
  /** Null if the source branch or its project is gone. */
  readonly head: string | null;
  readonly base: string | null;
  /** The tip of the target branch, or null if there is none. */
  readonly start: string | null;
  readonly commits: readonly Commit[];
  readonly commitsCount: number;
  /** Null if the newest version has this head already. */
  readonly diff: (Diff & { readonly collapsed: readonly boolean[] }) | null;
  readonly mergeStatus: 'can_be_merged' | 'cannot_be_merged';
  /** The head lacks commits of the target branch. */
  readonly needsRebase: boolean;
  /** Without one of the branches there is nothing to compare. The versions stay as they are. */
  readonly branchMissing: boolean;
}

/** Returns the head of the source branch and its repository, or null if the branch or its project is gone. */
export const headOf = async (
  ctx: Context,
  row: Pick<MergeRequestRow, 'source_project_id' | 'source_branch'>,
): Promise<PlacedCommit | null> => {
  if (row.source_project_id === null) return null;
  // The caller may not see the fork.
  const source = await findProject({ ...ctx, actor: systemActor }, { id: row.source_project_id });
  const oid = source && (await ctx.services.git.resolve(source.disk_path, branchRef(row.source_branch)));
  return oid ? { path: source.disk_path, oid } : null;
};

const NOTHING = {
  head: null,
  base: null,
  start: null,
  commits: [],
  commitsCount: 0,
  diff: null,
  mergeStatus: 'cannot_be_merged',
  needsRebase: false,
  branchMissing: true,
} as const;

/** Reads the branches and copies what the target project lacks. */
const readVersion = async (ctx: Context, project: ProjectRow, row: MergeRequestRow): Promise<Version> => {
  const { git } = ctx.services;
  const path = project.disk_path;
  const source = await headOf(ctx, row);
  if (!source) return NOTHING;
  const head = source.oid;
  const start = await git.resolve(path, branchRef(row.target_branch));
  const standing = start && (await findStanding(ctx, project, row, { start, head }));
  if (standing) return standing;
  if (source.path !== path) await git.copyCommit(path, source);
  if (start === null) {
    await git.updateRefs(path, [{ ref: `refs/keep-around/${head}`, newOid: head }]);
    return { ...NOTHING, head };
  }
  const not = [start];
  const [base, commitsCount] = await Promise.all([
    git.mergeBase(path, [start, head]),
    git.countCommits(path, { from: head, not }),
  ]);
  const kept = new Set(base === null ? [head] : [head, base]);
  await git.updateRefs(
    path,
    [...kept].map((oid) => ({ ref: `refs/keep-around/${oid}`, newOid: oid })),
  );
  const isMergeable = base !== null && commitsCount > 0;
  const merged = isMergeable ? await refreshMergeRef(ctx, project, row, { start, head }) : null;
  const mergeStatus = merged === null ? 'cannot_be_merged' : 'can_be_merged';
  const isNew = !(await hasVersion(ctx, row.id, { head, base }));
  const commits = isNew ? await git.listCommits(path, { from: head, not, limit: MAX_COMMITS, messages: MESSAGES }) : [];
  const bounds = await diffBounds(ctx);
  const found = isNew ? await git.diff(path, base, head, bounds) : null;
  const diff = found && { ...found, collapsed: collapsedFiles(found.files, bounds) };
  const needsRebase = base !== start;
  return { head, base, start, commits, commitsCount, diff, mergeStatus, needsRebase, branchMissing: false };
};

/** Returns the newest version if it is of the current tips and they merge cleanly. Starts no process of git. */
const findStanding = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  tips: { readonly start: string; readonly head: string },
): Promise<Version | null> => {
  const latest = await findLatest(ctx, row.id);
  if (latest?.head_commit_sha !== tips.head || latest.start_commit_sha !== tips.start) return null;
  const { base_commit_sha: base, commits_count } = latest;
  if (!base || !commits_count || (await findMerge(ctx, project, row, tips)) === null) return null;
  const needsRebase = base !== tips.start;
  return {
    ...tips,
    base,
    commits: [],
    commitsCount: commits_count,
    diff: null,
    mergeStatus: 'can_be_merged',
    needsRebase,
    branchMissing: false,
  };
};

const findLatest = ({ db }: Pick<Context, 'db'>, id: number) =>
  db
    .selectFrom('merge_request_diffs')
    .select(['head_commit_sha', 'base_commit_sha', 'start_commit_sha', 'commits_count'])
    .where('merge_request_id', '=', id)
    .where('is_latest', '=', true)
    .executeTakeFirst();

const hasVersion = async (
  ctx: Pick<Context, 'db'>,
  id: number,
  { head, base }: { readonly head: string; readonly base: string | null },
): Promise<boolean> => {
  const latest = await findLatest(ctx, id);
  return latest !== undefined && latest.head_commit_sha === head && latest.base_commit_sha === base;
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
    tx.enqueue(refreshMergeRequest, { id: before.id }, { key: `merge_requests.refresh:${before.id}` });
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
    tx.enqueue(refreshMergeRequest, { id: before.id }, { key: `merge_requests.refresh:${before.id}` });
  }
  if (isSame) return;
  const after = await getMergeRequest(tx, project, before.iid);
  await emitOutcome(tx, pusher, project, { before, after }, outcome);
  const runner = pusherId ?? after.author_id;
  if ((isFirst || isPushed) && head !== null && runner !== null && project.builds_access_level !== 'disabled') {
    enqueuePipelineOfHead(tx, { id: before.id, user_id: runner, head });
  }
  if (isPushed && autoMergeOf(after)?.sha !== head)
    await endAutoMerge(tx, project, after, 'the source branch was updated');
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

/** For `catch`: returns null if the merge request was deleted meanwhile. */
export const unlessDeleted = (error: unknown): null => {
  if (error instanceof DomainError && error.code === 'not_found') return null;
  throw error;
};

const insertVersion = async (tx: Tx, merge_request_id: number, version: Version): Promise<void> => {
  const { head, base, start, commits, commitsCount, diff } = version;
  const { versions } = await tx.db
    .selectFrom('merge_request_diffs')
    .select(({ fn }) => fn.countAll<number>().as('versions'))
    .where('merge_request_id', '=', merge_request_id)
    .executeTakeFirstOrThrow();
  if (versions >= MAX_VERSIONS) return;
  await tx.db
    .updateTable('merge_request_diffs')
    .set({ is_latest: false })
    .where('merge_request_id', '=', merge_request_id)
    .execute();
  const { id: diff_id } = await tx.db
    .insertInto('merge_request_diffs')
    .values({
      merge_request_id,
      state: commitsCount === 0 ? 'empty' : diff?.overflow ? 'overflow' : 'collected',
      base_commit_sha: base,
      head_commit_sha: head,
      start_commit_sha: start,
      // `+` says that a limit has cut the list.
      real_size: diff ? `${diff.total}${diff.overflow ? '+' : ''}` : '0',
      files_count: diff?.files.length ?? 0,
      commits_count: commitsCount,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const commitRows = commits.map(
    (commit, relative_order): Insertable<MergeRequestDiffCommits> => ({
      diff_id,
      relative_order,
      sha: commit.id,
      message: commit.message,
      author_name: commit.author_name,
      author_email: commit.author_email,
      authored_date: commit.authored_date,
      committer_name: commit.committer_name,
      committer_email: commit.committer_email,
      committed_date: commit.committed_date,
      trailers: JSON.stringify(commit.trailers),
    }),
  );
  for (let at = 0; at < commitRows.length; at += ROWS_AT_ONCE) {
    await tx.db
      .insertInto('merge_request_diff_commits')
      .values(commitRows.slice(at, at + ROWS_AT_ONCE))
      .execute();
  }
  const fileRows = (diff?.files ?? []).map(
    (file, relative_order): Insertable<MergeRequestDiffFiles> => ({
      diff_id,
      relative_order,
      old_path: file.old_path,
      new_path: file.new_path,
      a_mode: file.a_mode,
      b_mode: file.b_mode,
      new_file: file.new_file,
      renamed_file: file.renamed_file,
      deleted_file: file.deleted_file,
      generated_file: isGenerated(file.new_path),
      collapsed: diff?.collapsed[relative_order] ?? false,
      too_large: file.too_large,
      is_binary: file.diff.startsWith('Binary files '),
      // Files may hold any bytes, and texts of the database may not hold all characters.
      diff: file.diff.replaceAll('\0', '\uFFFD'),
    }),
  );
  for (let at = 0; at < fileRows.length; at += ROWS_AT_ONCE) {
    await tx.db
      .insertInto('merge_request_diff_files')
      .values(fileRows.slice(at, at + ROWS_AT_ONCE))
      .execute();
  }
};
