import { can } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { isGranted, matching, type ReadProtections, readProtections } from '#domains/repositories/protections.ts';
import type { Context } from '#platform/context.ts';

/** Returns true if the caller may push or merge to the branch. */
export const mayMerge = async (
  ctx: Context,
  project: ProjectRow,
  branch: string,
  protectionsOf: ReadProtections = readProtections,
): Promise<boolean> => {
  if (!can(ctx, project, 'admin_merge_request')) return false;
  const { branches, callersGroups } = await protectionsOf(ctx, project.id);
  const rules = matching(branches, branch);
  if (rules.length === 0) return true;
  return (['merge', 'push'] as const).some((action) =>
    isGranted(ctx, project.access_level, rules, action, callersGroups),
  );
};
