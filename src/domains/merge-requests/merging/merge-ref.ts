import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { MergeRequestRow } from '../queries.ts';
import { mergeRef } from '../refs.ts';

interface Tips {
  /** The tip of the target branch. */
  readonly start: string;
  readonly head: string;
}

/** Returns the commit of the merge ref if it merges these tips, otherwise null. */
export const findMerge = async (
  ctx: Context,
  { disk_path }: Pick<ProjectRow, 'disk_path'>,
  { iid }: Pick<MergeRequestRow, 'iid'>,
  tips: Tips,
): Promise<string | null> => {
  const present = await ctx.services.git.resolve(disk_path, mergeRef(iid));
  return present !== null && (await isMergeOf(ctx, disk_path, present, tips)) ? present : null;
};

const isMergeOf = async ({ services: { git } }: Context, path: string, oid: string, { start, head }: Tips) => {
  const [commit] = await git.readCommits(path, [oid]);
  return commit !== undefined && String(commit.parent_ids) === String([start, head]);
};

/**
 * Brings the merge ref up to date: a merge of `head` into `start`, the tip of the target branch. Returns its commit, or
 * null if the branches conflict. Both commits must be in the target project.
 */
export const refreshMergeRef = async (
  ctx: Context,
  { disk_path: path }: ProjectRow,
  { iid, source_branch, target_branch }: Pick<MergeRequestRow, 'iid' | 'source_branch' | 'target_branch'>,
  { start, head }: Tips,
): Promise<string | null> => {
  const { git } = ctx.services;
  const ref = mergeRef(iid);
  const present = await git.resolve(path, ref);
  if (present !== null && (await isMergeOf(ctx, path, present, { start, head }))) return present;
  const hub = {
    name: 'Millrace',
    email: `noreply@${new URL(ctx.services.urls.base).hostname}`,
    date: ctx.clock.now(),
  };
  const message = `Merge branch '${source_branch}' into '${target_branch}'`;
  const merge = { message, author: hub, committer: hub };
  const merged = await git.mergeCommits(path, { ours: start, theirs: head, merge });
  const newOid = 'failed' in merged ? null : merged.oid;
  if (newOid !== present) await git.updateRefs(path, [{ ref, newOid }]);
  return newOid;
};
