import type { ProjectRow } from '#domains/projects/queries.ts';
import { cherryPick, revert } from '#domains/repositories/picking.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import type { Commit } from '#platform/git/objects.ts';
import type { MergeRequestRow } from '../queries.ts';
import { listDiffCommits } from '../versions/queries.ts';

interface Pick {
  /** The branch that gets the new commit. */
  readonly branch: string;
  readonly message?: string | undefined;
}

/** Takes back on a branch what a merged merge request has changed. @throws as `revert`, and `bad_request` */
export const revertMergeRequest = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  pick: Pick,
): Promise<Commit | null> => revert(ctx, project, await landedCommit(ctx, row), pick);

/** Repeats on a branch what a merged merge request has changed. @throws as `cherryPick`, and `bad_request` */
export const cherryPickMergeRequest = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  pick: Pick,
): Promise<Commit | null> => cherryPick(ctx, project, await landedCommit(ctx, row), pick);

/** Returns the merge commit, else the squashed commit, else the only commit (reference: merge-requests §4). */
const landedCommit = async (ctx: Context, row: MergeRequestRow): Promise<string> => {
  if (row.state !== 'merged') throw badRequest('The merge request is not merged');
  const made = row.merge_commit_sha ?? row.squash_commit_sha;
  if (made !== null) return made;
  const commits = await listDiffCommits(ctx, row).rows({ limit: 2 });
  const [only] = commits;
  if (!only || commits.length > 1)
    throw badRequest('The merge request has no single commit. Pick its commits one by one');
  return only.sha;
};
