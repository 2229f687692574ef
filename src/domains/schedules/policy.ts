import { MAINTAINER } from '#domains/access/model.ts';
import { mayRunOn, maySetVariables } from '#domains/ci/policy.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { type ScheduleRow, type ScheduleVariable, shortRef } from './model.ts';

type Owned = Pick<ScheduleRow, 'owner_id' | 'ref'>;

/** Whether the caller may change the schedule and see its variables: only the owner, because it runs with their rights. */
export const mayChange = (ctx: Context, project: ProjectRow, { owner_id }: Pick<ScheduleRow, 'owner_id'>): boolean =>
  can(ctx, project, 'create_pipeline') && (ctx.actor.isSystem || (owner_id !== null && owner_id === ctx.actor.userId));

/** @throws DomainError as `requireAbility(create_pipeline)`, `forbidden` */
export const requireChange = (ctx: Context, project: ProjectRow, schedule: Owned): void => {
  requireAbility(ctx, project, 'create_pipeline');
  if (!mayChange(ctx, project, schedule)) throw forbidden();
};

/** @throws DomainError `forbidden` if the caller may not give variables to pipelines. They may remove variables. */
export const requireVariables = (
  ctx: Context,
  project: ProjectRow,
  variables: readonly Pick<ScheduleVariable, 'destroy'>[],
): void => {
  if (variables.some(({ destroy }) => !destroy) && !maySetVariables(ctx, project)) throw forbidden();
};

/** The owner and maintainers. @throws DomainError as `requireAbility(create_pipeline)`, `forbidden` */
export const requireDelete = (ctx: Context, project: ProjectRow, schedule: Owned): void => {
  requireAbility(ctx, project, 'create_pipeline');
  if (!mayChange(ctx, project, schedule)) requireMaintainer(project);
};

/** @throws DomainError as `requireAbility(create_pipeline)`, `forbidden` below Maintainer */
export const requireTakeOver = (ctx: Context, project: ProjectRow): void => {
  requireAbility(ctx, project, 'create_pipeline');
  requireMaintainer(project);
};

/** @throws DomainError as `requireAbility(create_pipeline)`, `forbidden` if the caller may not run jobs on the ref */
export const requireRunOn = async (ctx: Context, project: ProjectRow, ref: string): Promise<void> => {
  requireAbility(ctx, project, 'create_pipeline');
  const { name, tag } = shortRef(ref);
  if (!(await mayRunOn(ctx, project, { ref: name, tag }))) throw forbidden();
};

const requireMaintainer = ({ access_level }: ProjectRow): void => {
  if (access_level < MAINTAINER) throw forbidden();
};
