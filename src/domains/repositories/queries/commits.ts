import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import { branchRef, type Commit } from '../model.ts';

export interface CommitFilter {
  /** A branch, tag or commit id; the default branch when absent. */
  readonly ref_name?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly path?: string | undefined;
  readonly author?: string | undefined;
  readonly first_parent?: boolean | undefined;
}

/** Commits newest first. Their number is not counted: it would cost more than the page. */
export const listCommits = async (
  ctx: Context,
  project: ProjectRow,
  filter: CommitFilter,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<Commit[]> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const from = await startOf(ctx, project, filter.ref_name);
  if (from === null) return [];
  return git.listCommits(project.disk_path, { ...rangeOf(filter), from, limit, skip: offset, signal: ctx.signal });
};

/** How many there are in all. */
export const countCommits = async (ctx: Context, project: ProjectRow, filter: CommitFilter): Promise<number> => {
  requireAbility(ctx, project, 'read_code');
  const from = await startOf(ctx, project, filter.ref_name);
  if (from === null) return 0;
  return ctx.services.git.countCommits(project.disk_path, { ...rangeOf(filter), from, signal: ctx.signal });
};

const rangeOf = (filter: CommitFilter) => ({
  since: filter.since === undefined ? undefined : new Date(filter.since),
  until: filter.until === undefined ? undefined : new Date(filter.until),
  path: pathWithin(filter.path),
  author: filter.author,
  firstParent: filter.first_parent,
});

/** A path git looks for in its trees; one that leads out of them would be its fatal error. */
const pathWithin = (path: string | undefined): string | undefined => {
  if (path === undefined || path === '') return undefined;
  if (path.startsWith('/') || path.split('/').includes('..')) throw badRequest('path is invalid');
  return path;
};

/** Null where there is nothing yet: an empty repository has no commits, which is no error. */
const startOf = async (ctx: Context, project: ProjectRow, ref: string | undefined): Promise<string | null> => {
  if (ref !== undefined && ref !== '' && ref !== 'HEAD') {
    const oid = await ctx.services.git.resolveCommit(project.disk_path, ref);
    if (oid === null) throw notFound('Reference');
    return oid;
  }
  return project.default_branch === null
    ? null
    : ctx.services.git.resolve(project.disk_path, branchRef(project.default_branch));
};

/** The commit behind a branch, tag or commit id, or null. */
export const findCommit = async (
  ctx: Context,
  project: ProjectRow,
  ref: string | undefined,
): Promise<Commit | null> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const oid =
    ref === undefined || ref === 'HEAD'
      ? await startOf(ctx, project, undefined)
      : await git.resolveCommit(project.disk_path, ref);
  const [commit = null] = oid === null ? [] : await git.readCommits(project.disk_path, [oid]);
  return commit;
};

/** @throws DomainError `not_found` (Commit) */
export const getCommit = async (ctx: Context, project: ProjectRow, ref: string): Promise<Commit> => {
  const commit = await findCommit(ctx, project, ref);
  if (!commit) throw notFound('Commit');
  return commit;
};
