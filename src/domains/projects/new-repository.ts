import type { Context, Tx } from '#platform/context.ts';
import { isUnavailable } from '#platform/event-log/unavailable.ts';

/** Makes an empty repository whose HEAD names the branch. */
type Init = (diskPath: string, defaultBranch: string) => Promise<void>;

/** Runs the transaction that makes a project with a repository. The repositories of attempts that came to nothing go again. */
export const withNewRepository = async <Project extends { readonly disk_path: string }>(
  ctx: Context,
  make: (tx: Tx, init: Init) => Promise<Project>,
): Promise<Project> => {
  const { git } = ctx.services;
  const made: string[] = [];
  const init: Init = async (diskPath, defaultBranch) => {
    made.push(diskPath);
    await git.init(diskPath, defaultBranch);
  };
  try {
    const project = await ctx.transaction((tx) => make(tx, init));
    made.splice(made.indexOf(project.disk_path), 1);
    return project;
  } catch (error) {
    // It may have committed before its connection was lost. What belongs to no project then, the sweep removes.
    if (isUnavailable(error)) made.length = 0;
    throw error;
  } finally {
    for (const diskPath of made) await git.remove(diskPath);
  }
};
