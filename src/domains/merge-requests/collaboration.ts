import { can } from '#domains/projects/policy.ts';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { protectionsByProjects, type ReadProtections, readProtections } from '#domains/repositories/protections.ts';
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
    return fork !== undefined && !fork.archived && fork.marked_for_deletion_on === null && can(ctx, fork, 'read_code');
  };
  const found = new Map<number, Set<string>>();
  for (const { source_project_id: fork, project_id, source_branch, target_branch } of rows) {
    const target = projects.get(project_id);
    if (fork === null || !target || found.get(fork)?.has(source_branch) || !takesPushes(fork)) continue;
    if (!(await mayMerge(ctx, target, target_branch, protectionsOf))) continue;
    found.set(fork, (found.get(fork) ?? new Set()).add(source_branch));
  }
  return found;
};
