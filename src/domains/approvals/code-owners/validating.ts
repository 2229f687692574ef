import type { ProjectRow } from '#domains/projects/model.ts';
import { type JudgedProject, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { CODE_OWNERS_PATHS, type CodeOwnersProblem, parseCodeOwners } from './parse.ts';
import { findCodeOwners, MAX_CODE_OWNERS_BYTES } from './reading.ts';

/**
 * Returns the lines of a `CODEOWNERS` file that cannot be understood, or null if there is no such file. By default the
 * file that counts on the branch. @throws DomainError as `requireAbility(read_code)`
 */
export const problemsOfCodeOwners = async (
  ctx: Context,
  project: JudgedProject & Pick<ProjectRow, 'disk_path'>,
  { ref, path }: { readonly ref: string; readonly path: string | null },
): Promise<readonly CodeOwnersProblem[] | null> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const commit = await git.resolveCommit(project.disk_path, ref);
  if (commit === null || (path !== null && !CODE_OWNERS_PATHS.some((each) => each === path))) return null;
  const file =
    path === null
      ? await findCodeOwners(ctx, project.disk_path, commit)
      : await git.findFile(project.disk_path, commit, path);
  const bytes = file?.type === 'blob' ? await git.readBytes(project.disk_path, file.oid, MAX_CODE_OWNERS_BYTES) : null;
  return bytes && parseCodeOwners(bytes.toString('utf8')).problems;
};
