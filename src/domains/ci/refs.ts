import type { Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';

/** The ref that keeps the commit of a pipeline until the pipeline ends. Runners fetch it. */
export const pipelineRef = (id: number): string => `refs/pipelines/${id}`;

/** Removes the refs of these pipelines. Those that are gone already are fine. */
export const removePipelineRefs = async (
  { services: { git } }: Pick<Context, 'services'>,
  { disk_path }: { readonly disk_path: string },
  ids: readonly number[],
): Promise<void> => {
  try {
    const refs = await git.refValues(disk_path, ids.map(pipelineRef));
    if (refs.size > 0)
      await git.updateRefs(
        disk_path,
        [...refs.keys()].map((ref) => ({ ref, newOid: null })),
      );
  } catch (error) {
    if (!(error instanceof GitError && error.reason === 'missing')) throw error;
  }
};

/** Writes the ref of a pipeline that runs again, unless its commit is gone. */
export const restorePipelineRef = async (
  { services: { git } }: Pick<Context, 'services'>,
  { id, sha, disk_path }: { readonly id: number; readonly sha: string | null; readonly disk_path: string },
): Promise<void> => {
  const commits = sha === null ? [] : await git.readCommits(disk_path, [sha]);
  if (commits.length > 0) await git.updateRefs(disk_path, [{ ref: pipelineRef(id), newOid: sha }]);
};
