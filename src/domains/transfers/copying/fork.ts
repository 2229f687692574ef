import { z } from 'zod';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Actor, Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';
import { type ImportRow, TransferError } from '../model.ts';
import { finishCopy } from './finish.ts';

/** The `override_params` of a fork's row. */
const forkOptions = z.object({ branch: z.string().nullable().default(null) });

/** Copies the source project's repository in its current state, if the importer may still fork it. */
export const copyFork = async (ctx: Context, importer: Actor, row: ImportRow, project: ProjectRow): Promise<void> => {
  const source =
    project.forked_from_id === null
      ? null
      : await findProject({ ...ctx, actor: importer }, { id: project.forked_from_id });
  if (!source) throw new TransferError('The project that was forked is gone.');
  if (!can({ actor: importer }, source, 'fork_project'))
    throw new TransferError('The user who forked the project may no longer fork it.');
  const { branch } = forkOptions.parse(row.override_params);
  const defaultBranch = branch ?? source.default_branch ?? project.default_branch ?? 'main';
  try {
    const { branches } = await ctx.services.git.copyRepository(source.disk_path, project.disk_path, {
      branch,
      defaultBranch,
      signal: ctx.signal,
    });
    await finishCopy(ctx, row, project, { branches, defaultBranch });
  } catch (error) {
    if (error instanceof GitError && error.reason === 'missing')
      throw new TransferError(`The ${branch === null ? 'repository' : 'branch'} to fork is gone.`);
    // Git rejected objects that it had accepted in the source. A retry would fail in the same way.
    if (error instanceof GitError && error.reason === 'invalid')
      throw new TransferError(`The repository could not be forked: ${error.message}.`);
    throw error;
  }
};
