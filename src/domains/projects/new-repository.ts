import type { Context, Tx } from '#platform/context.ts';
import { isDatabaseAway } from '#platform/db/failures.ts';
import { definePort } from '#platform/port.ts';
import type { ProjectRow } from './model.ts';

/** Adds a first commit with a readme to the new repository. Repositories implement it. */
export const commitReadme = definePort<Tx, [project: ProjectRow], Promise<void>>('projects.commit_readme');

/** Creates an empty repository whose HEAD names the branch. */
type Init = (diskPath: string, defaultBranch: string) => Promise<void>;

/** Runs the transaction that creates a project with a repository. Removes the repositories of failed attempts. */
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
    // The transaction may have committed before the connection was lost. The sweep removes repositories without a
    // project.
    if (isDatabaseAway(error)) made.length = 0;
    throw error;
  } finally {
    for (const diskPath of made) await git.remove(diskPath);
  }
};
