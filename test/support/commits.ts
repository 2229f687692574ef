import { findProject } from '#domains/projects/queries.ts';
import { moveRefs } from '#domains/repositories/pushes.ts';
import { callerIdentity } from '#domains/repositories/writing.ts';
import type { TestApp, TestUser } from './app.ts';

/** A commit to create, on top of the newest one of its branch, or else of the branch `from`. */
export interface NewCommit {
  readonly branch: string;
  readonly from?: string;
  readonly message?: string;
  /** The text of each added or changed file. */
  readonly files: Readonly<Record<string, string>>;
}

/** The first commit of a project with a readme. */
export const README: NewCommit = { branch: 'main', message: 'Initial commit', files: { 'README.md': '# Project\n' } };

/**
 * Creates the commits and moves all branches in one push of the user, which costs a fraction of a request for each
 * commit. Returns the ids of the commits in their order.
 */
export const pushCommits = async (
  app: TestApp,
  { id }: { readonly id: number },
  user: TestUser,
  commits: readonly NewCommit[],
): Promise<string[]> => {
  const ctx = app.context(user);
  const { git } = ctx.services;
  const project = await findProject(ctx, { id });
  if (!project) throw new Error('the user cannot read the project');
  const identity = await callerIdentity(ctx);
  const refOf = (branch: string) => `refs/heads/${branch}`;
  const before = await git.refValues(
    project.disk_path,
    commits.flatMap(({ branch, from = branch }) => [refOf(branch), refOf(from)]),
  );
  const tips = new Map(before);
  const shas: string[] = [];
  /** The files that this push has added to each branch. */
  const added = new Map<string, ReadonlySet<string>>();
  for (const { branch, from = branch, message, files } of commits) {
    const parent = tips.get(refOf(branch)) ?? tips.get(refOf(from)) ?? null;
    const standing = added.get(branch) ?? added.get(from) ?? new Set<string>();
    const sha = await git.createCommit(project.disk_path, {
      parent,
      message: message ?? `Change ${Object.keys(files).join(', ')}`,
      author: identity,
      committer: identity,
      files: Object.entries(files).map(([path, content]) => ({
        action: standing.has(path) ? 'update' : 'create',
        path,
        content,
      })),
    });
    added.set(branch, new Set([...standing, ...Object.keys(files)]));
    tips.set(refOf(branch), sha);
    shas.push(sha);
  }
  const moved = [...added.keys()].map((branch) => {
    const ref = refOf(branch);
    return { ref, oldOid: before.get(ref) ?? null, newOid: tips.get(ref) ?? null };
  });
  await moveRefs(ctx, project, moved);
  return shas;
};
