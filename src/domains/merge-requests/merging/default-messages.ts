import type { ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { callerIdentity } from '#domains/repositories/writing.ts';
import type { Context } from '#platform/context.ts';
import type { MergeRequestRow } from '../queries.ts';
import { factsOf, MAX_COMMITS, oldestOf } from './message-facts.ts';
import { mergeMessage, squashMessage } from './messages.ts';

/** Returns the messages that a merge by the caller would write now. Null if there is nothing to merge. */
export const defaultMessages = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
): Promise<{ readonly merge: string; readonly squash: string } | null> => {
  const { git } = ctx.services;
  const start = await git.resolve(project.disk_path, branchRef(row.target_branch));
  const head = row.diff_head_sha;
  if (start === null || head === null || ctx.actor.userId === null) return null;
  // The commits of a fork arrive with the first version. Those of an archive may never.
  if ((await git.readCommits(project.disk_path, [head])).length === 0) return null;
  const range = { from: head, not: [start] };
  const commits = await git.listCommits(project.disk_path, { ...range, limit: MAX_COMMITS });
  const oldest = await oldestOf(ctx, project, range, commits);
  const facts = await factsOf(ctx, project, row, await callerIdentity(ctx), commits, oldest);
  return {
    merge: mergeMessage(project.merge_commit_template, facts),
    squash: squashMessage(project.squash_commit_template, facts),
  };
};
