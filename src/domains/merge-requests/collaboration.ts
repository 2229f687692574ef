import { PRIVATE } from '#domains/access/model.ts';
import { can } from '#domains/projects/policy.ts';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import {
  matching,
  protectionsByProjects,
  type ReadProtections,
  readProtections,
} from '#domains/repositories/protections.ts';
import type { Context } from '#platform/context.ts';
import { mayMerge } from './policy.ts';

/**
 * Returns for each fork the branches that the caller may push to: those of open merge requests with
 * `allow_collaboration` into branches that the caller could merge to (reference: merge-requests §1). Forks without such
 * branches are absent. Implements `collaborationBranches`.
 */
export const branchesToCollaborateOn = async (
  ctx: Context,
  forkIds: readonly number[],
): Promise<ReadonlyMap<number, ReadonlySet<string>>> => {
  if (ctx.actor.userId === null || forkIds.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('merge_requests')
    .select(['source_project_id', 'project_id', 'source_branch', 'target_branch'])
    .where('source_project_id', 'in', forkIds)
    .whereRef('project_id', '<>', 'source_project_id')
    .where('state', '=', 'opened')
    .where('allow_collaboration', '=', true)
    .execute();
  if (rows.length === 0) return new Map();
  const targetIds = [...new Set(rows.map(({ project_id }) => project_id))];
  const [projects, protections] = await Promise.all([
    projectsByIds(ctx, [...new Set([...forkIds, ...targetIds])], ROW),
    protectionsByProjects(ctx, targetIds),
  ]);
  const protectionsOf: ReadProtections = async (of, id) => protections.get(id) ?? readProtections(of, id);
  const takesPushes = (forkId: number): boolean => {
    const fork = projects.get(forkId);
    if (!fork || fork.archived || fork.marked_for_deletion_on !== null) return false;
    return fork.visibility_level > PRIVATE && can(ctx, fork, 'read_code');
  };
  const found = new Map<number, Set<string>>();
  for (const { source_project_id: fork, project_id, source_branch, target_branch } of rows) {
    const target = projects.get(project_id);
    if (fork === null || !target || found.get(fork)?.has(source_branch) || !takesPushes(fork)) continue;
    if (target.visibility_level <= PRIVATE) continue;
    if (!(await mayMerge(ctx, target, target_branch, protectionsOf))) continue;
    found.set(fork, (found.get(fork) ?? new Set()).add(source_branch));
  }
  return found;
};

/**
 * Returns those of the merge requests whose `allow_collaboration` has an effect now. It has none while one of the
 * projects is private, the branch is protected, or the fork is gone.
 */
export const collaborativeByIds = async (ctx: Context, ids: readonly number[]): Promise<ReadonlyMap<number, true>> => {
  if (ids.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('merge_requests as m')
    .innerJoin('projects as source', 'source.id', 'm.source_project_id')
    .innerJoin('projects as target', 'target.id', 'm.project_id')
    .select(['m.id', 'source.id as source_id', 'm.source_branch'])
    .where('m.id', 'in', ids)
    .where('m.allow_collaboration', '=', true)
    .where('source.visibility_level', '>', PRIVATE)
    .where('target.visibility_level', '>', PRIVATE)
    .execute();
  if (rows.length === 0) return new Map();
  const protections = await protectionsByProjects(ctx, [...new Set(rows.map(({ source_id }) => source_id))]);
  const isOpen = ({ source_id, source_branch }: (typeof rows)[number]): boolean =>
    matching(protections.get(source_id)?.branches ?? [], source_branch).length === 0;
  return new Map(rows.filter(isOpen).map(({ id }) => [id, true]));
};
