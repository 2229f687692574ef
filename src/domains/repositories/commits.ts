import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { CommitStats, RevisionRange, SignatureKind } from '#platform/git/history.ts';
import type { Diff } from '#platform/git/reading.ts';
import { diffBounds } from './diff-bounds.ts';
import { BRANCHES, branchName, type Commit, type RepositoryProject, TAGS, tagName } from './model.ts';
import { requireRevision, resolveRevision } from './queries/revisions.ts';

export const COMMIT_ORDERS = ['default', 'topo'] as const;

export interface CommitFilter {
  /** A branch, tag or commit id, or a range `a..b` or `a...b`. Defaults to the default branch. */
  readonly ref_name?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
  readonly path?: string | undefined;
  readonly author?: string | undefined;
  readonly first_parent?: boolean | undefined;
  /** Includes the commits of every branch and tag. `ref_name` is ignored then. */
  readonly all?: boolean | undefined;
  readonly order?: (typeof COMMIT_ORDERS)[number] | undefined;
}

export interface PipelineOfCommit {
  readonly id: number;
  readonly iid: number;
  readonly project_id: number;
  readonly sha: string;
  readonly ref: string | null;
  readonly status: string;
  readonly source: string;
  readonly created_at: string;
  readonly updated_at: string;
}

/** Returns commits, newest first. Does not count them, because that would cost more than the page. */
export const listCommits = async (
  ctx: Context,
  project: RepositoryProject,
  filter: CommitFilter,
  { limit, offset }: { readonly limit: number; readonly offset: number },
): Promise<Commit[]> => {
  const range = await rangeOf(ctx, project, filter);
  return range === null ? [] : ctx.services.git.listCommits(project.disk_path, { ...range, limit, skip: offset });
};

/** Counts the matching commits. */
export const countCommits = async (ctx: Context, project: RepositoryProject, filter: CommitFilter): Promise<number> => {
  const range = await rangeOf(ctx, project, filter);
  return range === null ? 0 : ctx.services.git.countCommits(project.disk_path, range);
};

/** Returns null for an empty repository, which has no commits. That is not an error. */
const rangeOf = async (ctx: Context, project: RepositoryProject, filter: CommitFilter) => {
  requireAbility(ctx, project, 'read_code');
  const ends = filter.all ? { from: [], all: true } : await endsOf(ctx, project, filter.ref_name);
  return (
    ends && {
      ...ends,
      since: filter.since === undefined ? undefined : new Date(filter.since),
      until: filter.until === undefined ? undefined : new Date(filter.until),
      path: pathWithin(filter.path),
      author: filter.author,
      firstParent: filter.first_parent,
      topological: filter.order === 'topo',
      signal: ctx.signal,
    }
  );
};

// Names of branches and tags cannot contain two dots.
const RANGE = /^(.*?)(\.{2,3})(?!\.)(.*)$/s;

const endsOf = async (
  ctx: Context,
  project: RepositoryProject,
  name: string | undefined,
): Promise<Pick<RevisionRange, 'from' | 'not'> | null> => {
  const [, left = '', dots, right = ''] = RANGE.exec(name ?? '') ?? [];
  if (dots === undefined) {
    const oid = await resolveRevision(ctx, project, name);
    if (oid !== null) return { from: oid };
    if (name === undefined || name === '' || name === 'HEAD') return null;
    throw notFound('Reference');
  }
  const [from, to] = await Promise.all([
    requireRevision(ctx, project, left, 'Reference'),
    requireRevision(ctx, project, right, 'Reference'),
  ]);
  if (dots === '..') return { from: to, not: [from] };
  const base = await ctx.services.git.mergeBase(project.disk_path, [from, to], { signal: ctx.signal });
  return { from: [from, to], not: base === null ? [] : [base] };
};

/** Returns the path for git. A path that leaves the repository would be a fatal error in git. */
const pathWithin = (path: string | undefined): string | undefined => {
  if (path === undefined || path === '') return undefined;
  if (path.startsWith('/') || path.split('/').includes('..')) throw badRequest('path is invalid');
  return path;
};

/** Returns the commit of a branch, tag or commit id, or null. */
export const findCommit = async (
  ctx: Context,
  project: RepositoryProject,
  ref: string | undefined,
): Promise<Commit | null> => {
  requireAbility(ctx, project, 'read_code');
  const oid = await resolveRevision(ctx, project, ref);
  const [commit = null] = oid === null ? [] : await ctx.services.git.readCommits(project.disk_path, [oid]);
  return commit;
};

/** @throws DomainError `not_found` (Commit) */
export const getCommit = async (ctx: Context, project: RepositoryProject, ref: string): Promise<Commit> => {
  const commit = await findCommit(ctx, project, ref);
  if (!commit) throw notFound('Commit');
  return commit;
};

/** Returns the added and removed lines of each commit, in one pass of git. */
export const statsOfCommits = (
  ctx: Context,
  project: RepositoryProject,
  commits: readonly Commit[],
): Promise<ReadonlyMap<string, CommitStats>> =>
  ctx.services.git.commitStats(
    project.disk_path,
    commits.map(({ id }) => id),
    { signal: ctx.signal },
  );

/** Returns the latest pipeline of the commit. Null if there is none or the caller may not see it. */
export const pipelineOfCommit = async (
  ctx: Context,
  project: RepositoryProject,
  { id }: Pick<Commit, 'id'>,
): Promise<PipelineOfCommit | null> => {
  if (!can(ctx, project, 'read_pipeline')) return null;
  const row = await ctx.db
    .selectFrom('pipelines')
    .select(['id', 'iid', 'project_id', 'ref', 'status', 'source', 'created_at', 'updated_at'])
    .where('project_id', '=', project.id)
    .where('sha', '=', id)
    // Those of child pipelines count in their parent.
    .where('source', 'not in', ['webide', 'parent_pipeline'])
    .orderBy('id', 'desc')
    .executeTakeFirst();
  return row ? { ...row, sha: id } : null;
};

/** Returns the changes of a commit against its first parent, one page of files. */
export const diffOfCommit = async (
  ctx: Context,
  project: RepositoryProject,
  ref: string,
  page: { readonly skip?: number; readonly limit?: number },
): Promise<Diff> => {
  const commit = await getCommit(ctx, project, ref);
  const [parent = null] = commit.parent_ids;
  const bounds = await diffBounds(ctx);
  return ctx.services.git.diff(project.disk_path, parent, commit.id, { ...page, ...bounds, signal: ctx.signal });
};

export interface RefOfCommit {
  readonly type: 'branch' | 'tag';
  readonly name: string;
}

/** Returns the branches and tags that contain the commit, by name. */
export const refsOfCommit = async (
  ctx: Context,
  project: RepositoryProject,
  ref: string,
  type: 'branch' | 'tag' | 'all',
): Promise<RefOfCommit[]> => {
  const { id } = await getCommit(ctx, project, ref);
  const holding = (prefix: typeof BRANCHES | typeof TAGS) =>
    ctx.services.git.refsContaining(project.disk_path, id, prefix, { signal: ctx.signal });
  const [branches, tags] = await Promise.all([
    type === 'tag' ? [] : holding(BRANCHES),
    type === 'branch' ? [] : holding(TAGS),
  ]);
  return [
    ...branches.map((name) => ({ type: 'branch' as const, name: branchName(name) ?? name })),
    ...tags.map((name) => ({ type: 'tag' as const, name: tagName(name) ?? name })),
  ];
};

/** Returns the number of commits up to and including this one. */
export const sequenceOfCommit = async (
  ctx: Context,
  project: RepositoryProject,
  ref: string,
  firstParent: boolean,
): Promise<number> => {
  const { id } = await getCommit(ctx, project, ref);
  return ctx.services.git.countCommits(project.disk_path, { from: id, firstParent, signal: ctx.signal });
};

/** @throws DomainError `not_found` (Signature) if there is none */
export const signatureOfCommit = async (
  ctx: Context,
  project: RepositoryProject,
  ref: string,
): Promise<SignatureKind> => {
  const { id } = await getCommit(ctx, project, ref);
  const kind = await ctx.services.git.signatureOf(project.disk_path, id);
  if (kind === null) throw notFound('Signature');
  return kind;
};
