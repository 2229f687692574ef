import type { ProjectRow } from '#domains/projects/model.ts';
import { branchName, branchRef, tagName, tagRef } from '#domains/repositories/model.ts';
import { isProtectedRef } from '#domains/repositories/protections.ts';
import type { Context } from '#platform/context.ts';
import type { Commit } from '#platform/git/objects.ts';

/** The branch, tag or merge request that a pipeline runs for. */
export interface Target {
  /** The value of `pipelines.ref`: a branch, a tag, or the ref of a merge request. */
  readonly ref: string;
  /** The branch or tag. For a merge request, the source branch. */
  readonly name: string;
  readonly tag: boolean;
  readonly protected: boolean;
  readonly commit: Commit;
  /** Null for pipelines of branches and tags. */
  readonly merge_request: MergeRequestTarget | null;
}

export interface MergeRequestTarget {
  readonly id: number;
  readonly source_sha: string;
  /** The tip of the target branch that is part of a merged result. Null for pipelines of the head. */
  readonly target_sha: string | null;
  /** Where the changes of the merge request start. */
  readonly base_sha: string | null;
}

/**
 * Finds the branch or tag, given by its name or its full ref, and its commit. `sha` names an older commit of it.
 * Branches win over tags of the same name. Null if there is none.
 */
export const findTarget = async (
  ctx: Context,
  project: ProjectRow,
  { ref, sha }: { readonly ref: string; readonly sha?: string | undefined },
): Promise<Target | null> => {
  const { git } = ctx.services;
  const branch = branchName(ref);
  const tagged = tagName(ref);
  const candidates = [
    ...(tagged === null ? [{ name: branch ?? ref, full: branchRef(branch ?? ref), tag: false }] : []),
    ...(branch === null ? [{ name: tagged ?? ref, full: tagRef(tagged ?? ref), tag: true }] : []),
  ];
  const values = await git.refValues(
    project.disk_path,
    candidates.map(({ full }) => full),
  );
  const found = candidates.find(({ full }) => values.has(full));
  const tip = found && values.get(found.full);
  // A deleted branch still gets the pipeline of its last push, whose commit is named.
  const oid = sha ?? (tip && (await git.commitBefore(project.disk_path, tip, [])));
  const [commit] = oid ? await git.readCommits(project.disk_path, [oid]) : [];
  if (!found || !commit) return null;
  return {
    ref: found.name,
    name: found.name,
    tag: found.tag,
    protected: await isProtectedRef(ctx, project, found),
    commit,
    merge_request: null,
  };
};
