import { type JudgedProject, requireAbility } from '#domains/projects/policy.ts';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Context } from '#platform/context.ts';
import { compareBytes, type List, listOfRows } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { Ref } from '#platform/git/refs.ts';
import { onlyBranches } from '../collaboration.ts';
import { BRANCHES, type Branch, branchName, branchRef, matchesPattern, type RepositoryProject } from '../model.ts';
import { mayPushTo } from '../policy.ts';
import { developersMay, matching, type ReadProtections, readProtections } from '../protections.ts';
import { filterNames, regexTest, searchTest } from './names.ts';

export interface BranchFilter {
  /** Part of the name, case-insensitive. `^term` matches at the start, `term$` at the end. */
  readonly search?: string | undefined;
  /** An RE2 regular expression that matches part of the name. */
  readonly regex?: string | undefined;
  /** Defaults to the order of names. */
  readonly sort?: (typeof BRANCH_SORTS)[number] | undefined;
}

/** `updated_*` sorts by the time of the newest commit. */
export const BRANCH_SORTS = ['name_asc', 'updated_asc', 'updated_desc'] as const;

/**
 * Returns branches in the byte order of their names, or by their last change. Rows are bare refs: complete those of a
 * page with `completeBranches`.
 *
 * @throws DomainError as `requireAbility(read_code)`, `parameters` for an invalid RE2 expression
 */
export const listBranches = async (
  ctx: Context,
  project: RepositoryProject,
  filter: BranchFilter,
): Promise<List<Ref>> => {
  requireAbility(ctx, project, 'read_code');
  const tests = [searchTest(filter.search), regexTest(filter.regex)].filter((test) => test !== null);
  const order = filter.sort === undefined || filter.sort === 'name_asc' ? 'name' : filter.sort;
  const refs = await ctx.services.git.listRefs(project.disk_path, { prefix: BRANCHES, order, signal: ctx.signal });
  const found =
    tests.length === 0 ? refs : await filterNames(refs, BRANCHES.length, (name) => tests.every((test) => test(name)));
  return listOfRows(found, (ref) => ref.name.slice(BRANCHES.length), order === 'name' ? compareBytes : undefined);
};

/** How the rights to push are read: alone, or batched with other projects. */
interface ReadPushRights {
  readonly protectionsOf?: ReadProtections;
  readonly onlyBranchesOf?: typeof onlyBranches;
}

/** Reads the commits and details of branches, in one pass for a whole page. */
export const completeBranches = async (
  ctx: Context,
  project: RepositoryProject,
  refs: readonly Ref[],
  { protectionsOf = readProtections, onlyBranchesOf = onlyBranches }: ReadPushRights = {},
): Promise<Branch[]> => {
  if (refs.length === 0) return [];
  const { git } = ctx.services;
  const head = project.default_branch === null ? null : branchRef(project.default_branch);
  const [headOid, commits, protections, only] = await Promise.all([
    refs.find((ref) => ref.name === head)?.oid ?? (head && git.resolve(project.disk_path, head)),
    git.readCommits(
      project.disk_path,
      refs.map((ref) => ref.oid),
    ),
    protectionsOf(ctx, project.id),
    onlyBranchesOf(ctx, project),
  ]);
  const tips = commits.map(({ id }) => id);
  const merged = headOid ? await git.containedIn(project.disk_path, headOid, tips) : new Set<string>();
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
        // A branch at the same commit never had anything to merge.
        merged: ref.oid !== headOid && merged.has(ref.oid),
        protected: rules.length > 0,
        default: ref.name === head,
        developers_can_push: developersMay(rules, 'push'),
        developers_can_merge: developersMay(rules, 'merge'),
        can_push: mayPushTo(ctx, project, { protections, only }, name),
      },
    ];
  });
};

/** @throws DomainError `not_found` (Branch) */
export const getBranch = async (
  ctx: Context,
  project: RepositoryProject,
  name: string,
  reads?: ReadPushRights,
): Promise<Branch> => {
  requireAbility(ctx, project, 'read_code');
  const branch = await findBranch(ctx, project, name, reads);
  if (!branch) throw notFound('Branch');
  return branch;
};

/** Returns the current branch, or null. The caller must be allowed to read the code. */
const findBranch = async (
  ctx: Context,
  project: RepositoryProject,
  name: string,
  reads?: ReadPushRights,
): Promise<Branch | null> => {
  const ref = branchRef(name);
  const oid = await ctx.services.git.resolve(project.disk_path, ref);
  if (oid === null) return null;
  const found = [{ name: ref, oid, peeledOid: oid, message: null }];
  const [branch = null] = await completeBranches(ctx, project, found, reads);
  return branch;
};

/** Returns the names of branches that match a pattern with `*`. */
export const listBranchNames = async (
  ctx: Context,
  project: RepositoryProject,
  { pattern, offset, limit }: { readonly pattern: string; readonly offset: number; readonly limit: number },
): Promise<string[]> => {
  requireAbility(ctx, project, 'read_code');
  const refs = await ctx.services.git.listRefs(project.disk_path, {
    prefix: BRANCHES,
    match: (name) => matchesPattern(pattern, name),
  });
  return refs.slice(offset, offset + limit).flatMap((ref) => branchName(ref.name) ?? []);
};

const REPOSITORIES_AT_ONCE = 4;

type ReadableProject = Pick<RepositoryProject, keyof JudgedProject | 'disk_path'>;

/** Returns the names of all branches of each project. @throws DomainError as `requireAbility(read_code)` */
export const branchNamesOf = async (
  ctx: Context,
  projects: readonly ReadableProject[],
): Promise<ReadonlyMap<ReadableProject, readonly string[]>> =>
  new Map(
    await mapLimit(projects, REPOSITORIES_AT_ONCE, async (project) => {
      requireAbility(ctx, project, 'read_code');
      const refs = await ctx.services.git.listRefs(project.disk_path, { prefix: BRANCHES, signal: ctx.signal });
      return [project, refs.map(({ name }) => name.slice(BRANCHES.length))] as const;
    }),
  );
