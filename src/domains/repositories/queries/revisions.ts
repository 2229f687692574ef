import type { Context, Services } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { BRANCHES, branchRef, type RepositoryProject, TAGS } from '../model.ts';
import { splitRevision } from './revision-steps.ts';

type Repository = Pick<RepositoryProject, 'disk_path' | 'default_branch'>;

/**
 * Returns the commit id of a branch, tag, commit id or full ref name. `HEAD`, `@` and an empty revision mean the
 * default branch. Steps back may follow: `main~2`, `HEAD^2`, `v1.0^{commit}`. Returns null if there is no such commit.
 *
 * @throws DomainError `bad_request` for an expression of another kind
 */
export const resolveRevision = async (
  { services }: Pick<Context, 'services'>,
  repository: Repository,
  revision = '',
): Promise<string | null> => {
  const stepped = splitRevision(revision);
  if (stepped === null) return resolveStart(services, repository, revision);
  const start = await resolveStart(services, repository, stepped.start);
  return start === null ? null : services.git.commitBefore(repository.disk_path, start, stepped.steps);
};

const resolveStart = async (
  { git }: Pick<Services, 'git'>,
  { disk_path, default_branch }: Repository,
  name: string,
): Promise<string | null> => {
  if (name === '' || name === 'HEAD' || name === '@') {
    return default_branch === null ? null : git.resolve(disk_path, branchRef(default_branch));
  }
  if (!name.startsWith(BRANCHES) && !name.startsWith(TAGS)) return git.resolveCommit(disk_path, name);
  const oid = await git.resolve(disk_path, name);
  const [commit] = oid === null ? [] : await git.readCommits(disk_path, [oid]);
  return commit?.id ?? null;
};

/** Returns the same. @throws DomainError `not_found` (`what`) */
export const requireRevision = async (
  ctx: Pick<Context, 'services'>,
  repository: Repository,
  revision: string | undefined,
  what: string,
): Promise<string> => {
  const oid = await resolveRevision(ctx, repository, revision);
  if (oid === null) throw notFound(what);
  return oid;
};
