import { type Insertable, sql } from 'kysely';
import { z } from 'zod';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { diffBounds } from '#domains/repositories/diff-bounds.ts';
import { isGenerated } from '#domains/repositories/generated-files.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import type { MergeRequestDiffCommits, MergeRequestDiffFiles } from '#platform/db/tables.ts';
import { DomainError } from '#platform/errors.ts';
import type { Diff } from '#platform/git/reading.ts';
import type { Commit } from '#platform/git/types.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeRequestChecked, mergeRequestPrepared, mergeRequestUpdated } from './events.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow, mergeRequestsByIds } from './queries.ts';
import { emitMergeRequest } from './snapshot.ts';

// A version is the diff from the merge base to the head of the source branch, with its commits, as they were at one
// moment. Refs in the target project keep the commits, so a version outlives the branch, and the fork.

/** Commits listed in a version. Their number is stored beside them. */
const MAX_COMMITS = 1_000;
/** Of one merge request. Later pushes only move its head (reference: merge-requests §2). */
const MAX_VERSIONS = 1_000;
const ROWS_AT_ONCE = 500;

/** The refs of the merge request with this number in its target project. */
const headRef = (iid: number): string => `refs/merge-requests/${iid}/head`;

/**
 * The job `merge_requests.refresh`: makes a version if the head of the source branch has none yet, and finds out whether
 * it merges without conflicts. It may run twice: a version that exists is not made again.
 */
export const refreshMergeRequest = defineJob({
  name: 'merge_requests.refresh',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: (ctx, { id }) => refreshNow(ctx, id),
});

/** The same at once, for a caller who waits for the merge status. */
export const refreshNow = async (ctx: Context, id: number): Promise<void> => {
  // The caller may not see the fork.
  const asHub = { ...ctx, actor: systemActor };
  const row = (await mergeRequestsByIds(asHub, [id])).get(id);
  if (!row || (row.state !== 'opened' && row.merge_status !== 'preparing')) return;
  const project = await findProject(asHub, { id: row.project_id });
  if (!project) return;
  const version = await readVersion(asHub, project, row);
  await ctx.transaction((tx) => settle(tx, project, row, version));
};

/** The job `merge_requests.remove_refs`: removes the refs of a deleted merge request. */
export const removeRefs = defineJob({
  name: 'merge_requests.remove_refs',
  input: z.object({ project_id: z.number(), iid: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { project_id, iid }) => {
    const project = await findProject(ctx, { id: project_id });
    if (!project) return;
    const { git } = ctx.services;
    const ref = headRef(iid);
    if ((await git.resolve(project.disk_path, ref)) === null) return;
    await git.updateRefs(project.disk_path, [{ ref, newOid: null }]);
  },
});

interface Version {
  /** Null if the source branch or its project is gone. */
  readonly head: string | null;
  readonly base: string | null;
  /** The tip of the target branch, or null if there is none. */
  readonly start: string | null;
  readonly commits: readonly Commit[];
  readonly commitsCount: number;
  /** Null if the newest version has this head already. */
  readonly diff: Diff | null;
  readonly mergeStatus: 'can_be_merged' | 'cannot_be_merged';
}

/** Returns the head of the source branch, or null if the branch or its project is gone. */
const headOf = async (ctx: Context, row: MergeRequestRow): Promise<string | null> => {
  const source =
    row.source_project_id === null
      ? null
      : await findProject({ ...ctx, actor: systemActor }, { id: row.source_project_id });
  return source && ctx.services.git.resolve(source.disk_path, branchRef(row.source_branch));
};

const NOTHING = { head: null, base: null, start: null, commits: [], commitsCount: 0, diff: null } as const;

/** Reads the branches and copies what the target project lacks. */
const readVersion = async (ctx: Context, project: ProjectRow, row: MergeRequestRow): Promise<Version> => {
  const { git } = ctx.services;
  const path = project.disk_path;
  const source =
    row.source_project_id === project.id
      ? project
      : row.source_project_id === null
        ? null
        : await findProject(ctx, { id: row.source_project_id });
  const head = source && (await git.resolve(source.disk_path, branchRef(row.source_branch)));
  if (!head) return { ...NOTHING, mergeStatus: 'cannot_be_merged' };
  if (source.id !== project.id) await git.copyCommit(path, { path: source.disk_path, oid: head });
  const start = await git.resolve(path, branchRef(row.target_branch));
  const base = start && (await git.mergeBase(path, [start, head]));
  const kept = new Set(base === null ? [head] : [head, base]);
  await git.updateRefs(
    path,
    [...kept].map((oid) => ({ ref: `refs/keep-around/${oid}`, newOid: oid })),
  );
  const not = start ? [start] : [];
  const [commitsCount, clean] = await Promise.all([
    git.countCommits(path, { from: head, not }),
    start ? git.mergesCleanly({ path, oid: start }, { path, oid: head }) : false,
  ]);
  const mergeStatus = clean && commitsCount > 0 ? 'can_be_merged' : 'cannot_be_merged';
  const isNew = !(await hasVersion(ctx, row.id, { head, base }));
  const commits = isNew ? await git.listCommits(path, { from: head, not, limit: MAX_COMMITS }) : [];
  const diff = isNew ? await git.diff(path, base, head, await diffBounds(ctx)) : null;
  return { head, base, start, commits, commitsCount, diff, mergeStatus };
};

const hasVersion = async (
  { db }: Pick<Context, 'db'>,
  id: number,
  { head, base }: { readonly head: string; readonly base: string | null },
): Promise<boolean> => {
  const latest = await db
    .selectFrom('merge_request_diffs')
    .select(['head_commit_sha', 'base_commit_sha', 'state'])
    .where('merge_request_id', '=', id)
    .where('is_latest', '=', true)
    .executeTakeFirst();
  return latest !== undefined && latest.head_commit_sha === head && latest.base_commit_sha === base;
};

/** Stores the version and the merge status, and emits what changed. */
const settle = async (tx: Tx, project: ProjectRow, seen: MergeRequestRow, version: Version): Promise<void> => {
  const before = await lockMergeRequest(tx, project, seen).catch(unlessDeleted);
  if (!before || (before.state !== 'opened' && before.merge_status !== 'preparing')) return;
  const { head, diff, mergeStatus } = version;
  // Another refresh is under way or done for what has changed meanwhile; an older version must not replace a newer one.
  if (before.target_branch !== seen.target_branch || (await headOf(tx, before)) !== head) {
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
  if ((diff && !isStored) || (isFirst && head === null)) await insertVersion(tx, before.id, version);
  const oldrev = before.diff_head_sha;
  const isPushed = !isFirst && head !== null && head !== oldrev;
  if (!isFirst && !isPushed && before.merge_status === mergeStatus) return;
  await tx.db
    .updateTable('merge_requests')
    .set({
      merge_status: mergeStatus,
      ...(head === null ? {} : { diff_head_sha: head }),
      ...(isFirst ? { prepared_at: sql`now()` } : {}),
      ...(isPushed ? { merge_error: null, updated_at: sql`now()` } : {}),
    })
    .where('id', '=', before.id)
    .execute();
  const after = await getMergeRequest(tx, project, before.iid);
  if (isFirst) await emitMergeRequest(tx, mergeRequestPrepared, project, after, {});
  else if (isPushed) await emitMergeRequest(tx, mergeRequestUpdated, project, after, {}, oldrev ?? undefined);
  if (before.merge_status !== mergeStatus) await emitMergeRequest(tx, mergeRequestChecked, project, after, {});
};

const unlessDeleted = (error: unknown): null => {
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
      collapsed: file.collapsed,
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
