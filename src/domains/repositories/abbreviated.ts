import { can } from '#domains/projects/policy.ts';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Context } from '#platform/context.ts';
import type { Commit, RepositoryProject } from './model.ts';

export interface WantedCommit {
  readonly project: RepositoryProject;
  /** A full or abbreviated id, at least 7 characters. */
  readonly sha: string;
}

/** Further commits of one call are not looked up. */
const MAX_COMMITS = 200;
const MAX_REPOSITORIES = 10;
const PARALLEL = 4;

/**
 * Returns the commit that each id stands for, in their order, and null for one that does not exist or that the caller
 * cannot read. Reads each repository through one process that stays open.
 */
export const commitsByShas = async (ctx: Context, wanted: readonly WantedCommit[]): Promise<(Commit | null)[]> => {
  const byProject = new Map<number, { readonly project: RepositoryProject; readonly shas: Set<string> }>();
  for (const { project, sha } of wanted.slice(0, MAX_COMMITS)) {
    const known = byProject.get(project.id);
    if (known) known.shas.add(sha);
    else if (byProject.size < MAX_REPOSITORIES && can(ctx, project, 'read_code'))
      byProject.set(project.id, { project, shas: new Set([sha]) });
  }
  const commits = new Map<string, Commit>();
  await mapLimit([...byProject.values()], PARALLEL, async ({ project, shas }) => {
    for (const [sha, commit] of await read(ctx, project, [...shas])) commits.set(`${project.id} ${sha}`, commit);
  });
  return wanted.map(({ project, sha }) => commits.get(`${project.id} ${sha}`) ?? null);
};

const read = async (
  { services: { git } }: Pick<Context, 'services'>,
  { disk_path }: RepositoryProject,
  shas: readonly string[],
): Promise<(readonly [sha: string, commit: Commit])[]> => {
  const ids = await mapLimit(shas, PARALLEL, async (sha) => {
    const id = await git.resolveCommit(disk_path, sha);
    // A branch may be called like an abbreviated id.
    return id?.startsWith(sha) ? id : null;
  });
  const found = await git.readCommits(disk_path, [...new Set(ids.flatMap((id) => id ?? []))]);
  const byId = new Map(found.map((commit) => [commit.id, commit]));
  return shas.flatMap((sha, index) => {
    const commit = byId.get(ids[index] ?? '');
    return commit ? [[sha, commit] as const] : [];
  });
};
