import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { diffBounds } from '#domains/repositories/diff-bounds.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { type Context, systemActor } from '#platform/context.ts';
import type { Commit, PlacedCommit } from '#platform/git/objects.ts';
import type { Diff } from '#platform/git/reading.ts';
import { findMerge, refreshMergeRef } from '../merging/merge-ref.ts';
import type { MergeRequestRow } from '../queries.ts';
import { collapsedFiles } from './collapsing.ts';

// A version is the diff from the merge base to the head of the source branch, with its commits, as they were at one
// moment. Refs in the target project keep the commits, so a version outlives the branch, and the fork.

/** Commits listed in a version. Their number is stored beside them. */
const MAX_COMMITS = 1_000;
/** Characters of the messages of a version. One message may have a megabyte. */
const MESSAGES = { each: 64 * 1024, total: 4 * 1024 * 1024 };

export interface Version {
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

/** Reads the branches as they are now, and copies the commits that the target project lacks. */
export const readVersion = async (ctx: Context, project: ProjectRow, row: MergeRequestRow): Promise<Version> => {
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

/** Returns true if the newest version has this head and this base. */
export const hasVersion = async (
  ctx: Pick<Context, 'db'>,
  id: number,
  { head, base }: { readonly head: string; readonly base: string | null },
): Promise<boolean> => {
  const latest = await findLatest(ctx, id);
  return latest !== undefined && latest.head_commit_sha === head && latest.base_commit_sha === base;
};
