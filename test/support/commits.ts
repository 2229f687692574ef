import { cpSync, existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
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

/**
 * Pushes branches and tags of a work tree, as `git push` would: `main`, `v1`, `main:other`, or `HEAD` for the current
 * branch. Copies the objects and moves the refs, which costs a fraction of a push over HTTP with its ten processes of git.
 * For setup only: neither git nor the hub checks these pushes.
 */
export const pushTree = async (
  app: TestApp,
  { id }: { readonly id: number },
  user: TestUser,
  tree: string,
  ...refspecs: readonly string[]
): Promise<void> => {
  const ctx = app.context(user);
  const { git, config } = ctx.services;
  const project = await findProject(ctx, { id });
  if (!project) throw new Error('the user cannot read the project');
  const wanted = await Promise.all(
    refspecs.map(async (refspec) => {
      const [name = '', to] = refspec.split(':');
      const { ref, oid } = await readRef(join(tree, '.git'), name);
      return { ref: to === undefined ? ref : `refs/heads/${to}`, newOid: oid };
    }),
  );
  const before = await git.refValues(
    project.disk_path,
    wanted.map(({ ref }) => ref),
  );
  cpSync(join(tree, '.git/objects'), join(config.dataDir, 'repositories', project.disk_path, 'objects'), {
    recursive: true,
    force: false,
  });
  await moveRefs(
    ctx,
    project,
    wanted.map((each) => ({ ...each, oldOid: before.get(each.ref) ?? null })),
  );
};

/** Reads a branch or a tag of this name, or the current branch, without a process. */
const readRef = async (directory: string, name: string): Promise<{ readonly ref: string; readonly oid: string }> => {
  const [branch, tag] = [`refs/heads/${name}`, `refs/tags/${name}`];
  const read = async (file: string) => (await readFile(join(directory, file), 'utf8')).trim();
  const ref =
    name === 'HEAD' ? (await read(name)).replace('ref: ', '') : existsSync(join(directory, branch)) ? branch : tag;
  return { ref, oid: await read(ref) };
};
