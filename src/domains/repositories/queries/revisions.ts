import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { BRANCHES, branchRef, TAGS } from '../model.ts';

type Place = Pick<ProjectRow, 'disk_path' | 'default_branch'>;

/**
 * The commit that somebody means by a branch, tag or commit id, by a full ref name, or by `HEAD` or nothing: the default
 * branch. Null when there is none.
 */
export const resolveRevision = async (
  { services: { git } }: Pick<Context, 'services'>,
  { disk_path, default_branch }: Place,
  revision: string | undefined,
): Promise<string | null> => {
  if (revision === undefined || revision === '' || revision === 'HEAD') {
    return default_branch === null ? null : git.resolve(disk_path, branchRef(default_branch));
  }
  if (!revision.startsWith(BRANCHES) && !revision.startsWith(TAGS)) return git.resolveCommit(disk_path, revision);
  const oid = await git.resolve(disk_path, revision);
  const [commit] = oid === null ? [] : await git.readCommits(disk_path, [oid]);
  return commit?.id ?? null;
};

/** The same. @throws DomainError `not_found` (`what`) */
export const requireRevision = async (
  ctx: Pick<Context, 'services'>,
  place: Place,
  revision: string | undefined,
  what: string,
): Promise<string> => {
  const oid = await resolveRevision(ctx, place, revision);
  if (oid === null) throw notFound(what);
  return oid;
};
