import { setImmediate as nextTurn } from 'node:timers/promises';
import { RE2JS } from 're2js';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOfRows } from '#platform/db/list.ts';
import { badParameters, badRequest, notFound } from '#platform/errors.ts';
import type { Ref } from '#platform/git/types.ts';
import {
  BRANCHES,
  type Branch,
  branchName,
  branchRef,
  type Commit,
  matchesPattern,
  TAGS,
  type Tag,
  tagRef,
} from './model.ts';
import { mayPushTo } from './policy.ts';
import { developersMay, matching, readProtections } from './protections.ts';

export interface BranchFilter {
  /** Part of the name; `^term` begins, `term$` ends with it. Whatever the case. */
  readonly search?: string | undefined;
  /** An RE2 expression found in the name. */
  readonly regex?: string | undefined;
}

/**
 * Branches by name. Rows are refs alone: complete those of a page with `completeBranches`.
 *
 * @throws DomainError as `requireAbility(read_code)`, `parameters` for an expression RE2 does not take
 */
export const listBranches = async (ctx: Context, project: ProjectRow, filter: BranchFilter): Promise<List<Ref>> => {
  requireAbility(ctx, project, 'read_code');
  const tests = [searchTest(filter.search), regexTest(filter.regex)].filter((test) => test !== null);
  const refs = await ctx.services.git.listRefs(project.disk_path, { prefix: BRANCHES, signal: ctx.signal });
  const found = await filterNames(refs, BRANCHES.length, (name) => tests.every((test) => test(name)));
  return listOfRows(found, (ref) => ref.name);
};

/** The branches with their commits and all that is told of them: one pass for the page, however many they are. */
export const completeBranches = async (ctx: Context, project: ProjectRow, refs: readonly Ref[]): Promise<Branch[]> => {
  if (refs.length === 0) return [];
  const { git } = ctx.services;
  const head = project.default_branch === null ? null : branchRef(project.default_branch);
  const headOid = refs.find((ref) => ref.name === head)?.oid ?? (head && (await git.resolve(project.disk_path, head)));
  const names = refs.map((ref) => ref.name);
  const [commits, merged, protections] = await Promise.all([
    git.readCommits(
      project.disk_path,
      refs.map((ref) => ref.oid),
    ),
    headOid ? git.mergedInto(project.disk_path, headOid, names) : new Set<string>(),
    readProtections(ctx, project.id),
  ]);
  const commitById = new Map(commits.map((commit) => [commit.id, commit]));
  return refs.flatMap((ref): Branch[] => {
    const commit = commitById.get(ref.oid);
    const name = branchName(ref.name);
    if (!commit || name === null) return [];
    const rules = matching(protections.branches, name);
    return [
      {
        name,
        commit,
        merged: ref.name !== head && merged.has(ref.name),
        protected: rules.length > 0,
        default: ref.name === head,
        developers_can_push: developersMay(rules, 'push'),
        developers_can_merge: developersMay(rules, 'merge'),
        can_push: mayPushTo(ctx, project, protections, name),
      },
    ];
  });
};

/** @throws DomainError `not_found` (Branch) */
export const getBranch = async (ctx: Context, project: ProjectRow, name: string): Promise<Branch> => {
  requireAbility(ctx, project, 'read_code');
  const branch = await findBranch(ctx, project, name);
  if (!branch) throw notFound('Branch');
  return branch;
};

/** The branch as it is now, or null; the caller may read the code. */
const findBranch = async (ctx: Context, project: ProjectRow, name: string): Promise<Branch | null> => {
  const ref = branchRef(name);
  const oid = await ctx.services.git.resolve(project.disk_path, ref);
  if (oid === null) return null;
  const [branch = null] = await completeBranches(ctx, project, [{ name: ref, oid, peeledOid: oid, message: null }]);
  return branch;
};

/** Names of branches that match a pattern with `*`. */
export const listBranchNames = async (
  ctx: Context,
  project: ProjectRow,
  { pattern, offset, limit }: { readonly pattern: string; readonly offset: number; readonly limit: number },
): Promise<string[]> => {
  requireAbility(ctx, project, 'read_code');
  const refs = await ctx.services.git.listRefs(project.disk_path, {
    prefix: BRANCHES,
    match: (name) => matchesPattern(pattern, name),
  });
  return refs.slice(offset, offset + limit).flatMap((ref) => branchName(ref.name) ?? []);
};

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

export interface TagFilter {
  readonly search?: string | undefined;
  readonly order_by?: 'name' | 'updated' | undefined;
  readonly sort?: 'asc' | 'desc' | undefined;
}

/** Tags, by default the newest first. Rows are refs alone: `completeTags` for a page. */
export const listTags = async (ctx: Context, project: ProjectRow, filter: TagFilter): Promise<List<Ref>> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const refs = await git.listRefs(project.disk_path, { prefix: TAGS, signal: ctx.signal });
  const test = searchTest(filter.search);
  const found = test ? await filterNames(refs, TAGS.length, test) : [...refs];
  if (filter.order_by !== 'name') {
    const commits = await git.readCommits(
      project.disk_path,
      found.map((ref) => ref.peeledOid),
    );
    const times = new Map(commits.map((commit) => [commit.id, Date.parse(commit.committed_date)]));
    found.sort((a, b) => (times.get(a.peeledOid) ?? 0) - (times.get(b.peeledOid) ?? 0));
  }
  return listOfRows(filter.sort === 'asc' ? found : found.toReversed(), (ref) => ref.name);
};

export const completeTags = async (ctx: Context, project: ProjectRow, refs: readonly Ref[]): Promise<Tag[]> => {
  if (refs.length === 0) return [];
  const names = refs.map((ref) => ref.name.slice(TAGS.length));
  const [commits, protections, releases] = await Promise.all([
    ctx.services.git.readCommits(
      project.disk_path,
      refs.map((ref) => ref.peeledOid),
    ),
    readProtections(ctx, project.id),
    can(ctx, project, 'read_release')
      ? ctx.db
          .selectFrom('releases')
          .select(['tag as tag_name', 'description'])
          .where('project_id', '=', project.id)
          .where('tag', 'in', names)
          .execute()
      : [],
  ]);
  const commitById = new Map(commits.map((commit) => [commit.id, commit]));
  const releaseByTag = new Map(releases.map((release) => [release.tag_name, release]));
  return refs.map((ref, at) => {
    const name = names[at] ?? '';
    return {
      name,
      target: ref.oid,
      message: ref.message ?? '',
      protected: matching(protections.tags, name).length > 0,
      commit: commitById.get(ref.peeledOid) ?? null,
      release: releaseByTag.get(name) ?? null,
    };
  });
};

/** @throws DomainError `not_found` (Tag) */
export const getTag = async (ctx: Context, project: ProjectRow, name: string): Promise<Tag> => {
  requireAbility(ctx, project, 'read_code');
  const refs = await ctx.services.git.listRefs(project.disk_path, {
    prefix: TAGS,
    match: (each) => tagRef(each) === tagRef(name),
  });
  const [tag] = await completeTags(ctx, project, refs);
  if (!tag) throw notFound('Tag');
  return tag;
};

type Test = (name: string) => boolean;

const searchTest = (search: string | undefined): Test | null => {
  if (search === undefined || search === '') return null;
  const fromStart = search.startsWith('^');
  const toEnd = search.endsWith('$') && search.length > 1;
  const term = search.slice(fromStart ? 1 : 0, toEnd ? -1 : undefined).toLowerCase();
  return (given) => {
    const name = given.toLowerCase();
    if (fromStart && toEnd) return name === term;
    return fromStart ? name.startsWith(term) : toEnd ? name.endsWith(term) : name.includes(term);
  };
};

/** RE2 takes time linear in name and expression, whatever somebody thinks up. */
const regexTest = (regex: string | undefined): Test | null => {
  if (regex === undefined || regex === '') return null;
  try {
    const compiled = RE2JS.compile(regex);
    return (name) => compiled.test(name);
  } catch {
    throw badParameters('regex is invalid');
  }
};

const TURN_MS = 20;

/** Others get their turn while a long list is searched. */
const filterNames = async (refs: readonly Ref[], prefixLength: number, test: Test): Promise<Ref[]> => {
  const found: Ref[] = [];
  let since = performance.now();
  for (const ref of refs) {
    if (test(ref.name.slice(prefixLength))) found.push(ref);
    if (performance.now() - since < TURN_MS) continue;
    await nextTurn();
    since = performance.now();
  }
  return found;
};
