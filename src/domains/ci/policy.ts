import { DEVELOPER, MAINTAINER, OWNER } from '#domains/access/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { isGranted, matching, type ReadProtections, readProtections } from '#domains/repositories/protections.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { isMergeRequestRef } from './model.ts';

/** The branch or tag of a pipeline or job. */
interface PipelineRef {
  readonly ref: string | null;
  readonly tag: boolean;
}

/**
 * Returns whether the caller may run jobs on the branch or tag. On a protected one that needs the right to push to it,
 * to merge into it, or to create the tag.
 */
export const mayRunOn = async (
  ctx: Context,
  project: ProjectRow,
  { ref, tag }: PipelineRef,
  protectionsOf: ReadProtections = readProtections,
): Promise<boolean> => {
  if (!can(ctx, project, 'create_pipeline')) return false;
  if (ctx.actor.isSystem || ref === null || isMergeRequestRef(ref)) return true;
  const { branches, tags, callersGroups } = await protectionsOf(ctx, project.id);
  const rules = matching(tag ? tags : branches, ref);
  if (rules.length === 0) return true;
  const grants = (action: 'push' | 'merge' | 'create') =>
    isGranted(ctx, project.access_level, rules, action, callersGroups);
  return tag ? grants('create') : grants('push') || grants('merge');
};

/** @throws as `requireAbility(admin_pipeline)`, and `forbidden` if the caller may not run jobs on the branch or tag */
export const requireRun = async (ctx: Context, project: ProjectRow, on: PipelineRef): Promise<void> => {
  requireAbility(ctx, project, 'admin_pipeline');
  if (!(await mayRunOn(ctx, project, on))) throw forbidden();
};

/** Returns whether the caller may cancel pipelines and jobs of the project. */
export const mayCancel = (ctx: Context, project: ProjectRow): boolean => {
  if (!can(ctx, project, 'admin_pipeline')) return false;
  const role = project.ci_restrict_pipeline_cancellation_role;
  if (role === 'no_one') return ctx.actor.isSystem;
  return project.access_level >= (role === 'maintainer' ? MAINTAINER : DEVELOPER) || ctx.actor.isSystem;
};

/** @throws as `requireAbility(admin_pipeline)`, and `forbidden` if the project's setting excludes the caller */
export const requireCancel = (ctx: Context, project: ProjectRow): void => {
  requireAbility(ctx, project, 'admin_pipeline');
  if (!mayCancel(ctx, project)) throw forbidden();
};

/** Returns whether the caller may give variables to pipelines and to jobs that they play. */
export const maySetVariables = (ctx: Context, project: ProjectRow): boolean => {
  if (ctx.actor.isSystem) return true;
  const role = project.ci_pipeline_variables_minimum_override_role;
  if (role === 'no_one_allowed') return false;
  if (!project.restrict_user_defined_variables) return project.access_level >= DEVELOPER;
  return project.access_level >= (role === 'owner' ? OWNER : role === 'maintainer' ? MAINTAINER : DEVELOPER);
};
