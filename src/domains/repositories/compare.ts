import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, DomainError, notFound } from '#platform/errors.ts';
import type { Author } from '#platform/git/history.ts';
import type { Diff } from '#platform/git/reading.ts';
import type { SortDirection } from '#platform/paging.ts';
import { diffBounds } from './diff-bounds.ts';
import type { Commit, RepositoryProject } from './model.ts';
import { requireRevision, resolveRevision } from './queries/revisions.ts';

/** The most commits in one comparison. */
const MAX_COMMITS = 1_000;

export interface CompareInput {
  readonly from: string;
  readonly to: string;
  /** Compares the two revisions directly. Otherwise compares `to` with the merge base. */
  readonly straight: boolean;
  /** The project that contains `from`, such as a fork. Defaults to the project itself. */
  readonly from_project_id?: number | undefined;
}

export interface Comparison {
  /** The newest commit. Null if there are no commits. */
  readonly commit: Commit | null;
  /** Oldest first. */
  readonly commits: readonly Commit[];
  readonly diff: Diff;
  /** Whether commits or files were left out. */
  readonly overflow: boolean;
  readonly same: boolean;
}

/**
 * @throws DomainError `not_found` (Ref) if a revision is missing, (Project) if the caller may not know of the other
 * project
 */
export const compare = async (ctx: Context, project: RepositoryProject, input: CompareInput): Promise<Comparison> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const source = await sourceOf(ctx, project, input.from_project_id);
  const [from, to] = await Promise.all([
    requireRevision(ctx, source, input.from, 'Ref'),
    requireRevision(ctx, project, input.to, 'Ref'),
  ]);
  const { disk_path } = project;
  const foreign = {
    withObjectsOf: source.disk_path === disk_path ? undefined : source.disk_path,
    signal: ctx.signal,
  };
  const base = input.straight ? from : ((await git.mergeBase(disk_path, [from, to], foreign)) ?? from);
  const bounds = await diffBounds(ctx);
  const [newest, diff] = await Promise.all([
    git.listCommits(disk_path, { from: to, not: [from], limit: MAX_COMMITS + 1, ...foreign }),
    git.diff(disk_path, base, to, { ...bounds, ...foreign }),
  ]);
  const commits = newest.slice(0, MAX_COMMITS).toReversed();
  return {
    commit: commits.at(-1) ?? null,
    commits,
    diff,
    overflow: newest.length > MAX_COMMITS || diff.overflow,
    same: from === to,
  };
};

const sourceOf = async (
  ctx: Context,
  project: RepositoryProject,
  id: number | undefined,
): Promise<RepositoryProject> => {
  if (id === undefined || id === project.id) return project;
  const source = await getProject(ctx, { id });
  requireAbility(ctx, source, 'read_code');
  return source;
};

/**
 * @throws DomainError `bad_request` for fewer than two refs or a missing one, `not_found` (Merge Base) without a common
 * ancestor
 */
export const mergeBaseOf = async (
  ctx: Context,
  project: RepositoryProject,
  refs: readonly string[],
): Promise<Commit> => {
  requireAbility(ctx, project, 'read_code');
  if (refs.length < 2) throw new DomainError('bad_request', 'Provide at least 2 refs');
  const { git } = ctx.services;
  const oids = await Promise.all(
    refs.map(async (ref) => {
      const oid = await resolveRevision(ctx, project, ref);
      if (oid === null) throw badRequest(`Could not find ref: ${ref.toWellFormed()}`);
      return oid;
    }),
  );
  const base = await git.mergeBase(project.disk_path, oids, { signal: ctx.signal });
  const [commit] = base === null ? [] : await git.readCommits(project.disk_path, [base]);
  if (!commit) throw notFound('Merge Base');
  return commit;
};

export const CONTRIBUTOR_ORDERS = ['name', 'email', 'commits'] as const;

export interface ContributorFilter {
  /** Defaults to the default branch. */
  readonly ref?: string | undefined;
  readonly order_by: (typeof CONTRIBUTOR_ORDERS)[number];
  readonly sort: SortDirection;
}

/** Returns the authors of all commits except merges, once per address. Empty for an empty repository. */
export const contributorsOf = async (
  ctx: Context,
  project: RepositoryProject,
  filter: ContributorFilter,
): Promise<Author[]> => {
  requireAbility(ctx, project, 'read_code');
  const from = await resolveRevision(ctx, project, filter.ref);
  if (from === null) {
    if (filter.ref === undefined || filter.ref === '') return [];
    throw notFound('Reference');
  }
  const authors = await ctx.services.git.authors(project.disk_path, { from, signal: ctx.signal });
  const byEmail = new Map<string, Author>();
  // Authors come ordered by their number of commits, so a person gets the name that most of their commits have.
  for (const author of authors) {
    const known = byEmail.get(author.email);
    byEmail.set(author.email, known ? { ...known, commits: known.commits + author.commits } : author);
  }
  const { order_by } = filter;
  const sorted = [...byEmail.values()].sort((a, b) =>
    order_by === 'commits' ? a.commits - b.commits : compareText(a[order_by], b[order_by]),
  );
  return filter.sort === 'asc' ? sorted : sorted.toReversed();
};

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
