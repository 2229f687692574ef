import { can } from '#domains/projects/policy.ts';
import { findProjectWith } from '#domains/projects/queries.ts';
import { REPOSITORY_PARTS, type RepositoryProject } from '#domains/repositories/model.ts';
import type { Context } from '#platform/context.ts';
import { ConfigError } from './config-error.ts';

export const MAX_FILE_BYTES = 2 * 1024 * 1024;
/** More files are not listed. */
const MAX_LISTED = 50_001;

/** A commit of a project that files are read from. */
export interface RepositoryView {
  readonly project: RepositoryProject;
  readonly sha: string;
  /** Returns the text of a file, or null if there is none. @throws ConfigError if it is too large */
  read(path: string): Promise<string | null>;
  has(path: string): Promise<boolean>;
  /** Returns the paths of all files, at most 50,001. */
  paths(): Promise<readonly string[]>;
}

export const viewOf = (ctx: Context, project: RepositoryProject, sha: string): RepositoryView => {
  const { git } = ctx.services;
  let listed: Promise<readonly string[]> | null = null;
  const list = async () => {
    const paths: string[] = [];
    for await (const { path } of git.allFiles(project.disk_path, sha, { signal: ctx.signal })) {
      paths.push(path);
      if (paths.length === MAX_LISTED) break;
    }
    return paths;
  };
  return {
    project,
    sha,
    async read(path) {
      const entry = await git.findFile(project.disk_path, sha, path);
      if (entry?.type !== 'blob') return null;
      if ((entry.size ?? 0) > MAX_FILE_BYTES) throw new ConfigError('The parsed YAML is too big');
      const content = await git.readBytes(project.disk_path, entry.oid, MAX_FILE_BYTES, { signal: ctx.signal });
      return content?.toString('utf8').replace(/^\uFEFF/, '') ?? null;
    },
    async has(path) {
      return (await git.findFile(project.disk_path, sha, path))?.type === 'blob';
    },
    paths: () => (listed ??= list()),
  };
};

/**
 * Returns a commit of another project, if the caller can read its code. `ref` is a branch, tag or commit id; null means
 * the default branch.
 */
export const otherView = async (
  ctx: Context,
  path: string,
  ref: string | null,
): Promise<RepositoryView | 'no_project' | 'no_ref'> => {
  const project = await findProjectWith(ctx, { path }, REPOSITORY_PARTS);
  if (!project || !can(ctx, project, 'read_code')) return 'no_project';
  const sha = await commitOf(ctx, project, ref ?? project.default_branch ?? '');
  return sha === null ? 'no_ref' : viewOf(ctx, project, sha);
};

/** Returns the commit of a branch, tag or commit id, or null. */
export const commitOf = (ctx: Context, project: RepositoryProject, ref: string): Promise<string | null> =>
  ctx.services.git.resolveCommit(project.disk_path, ref);
