import { DEVELOPER, MAINTAINER } from '#domains/access/model.ts';
import type { ArtifactAccess } from '#domains/ci-config/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';

const LEAST: Readonly<Record<ArtifactAccess, number>> = {
  all: 0,
  developer: DEVELOPER,
  maintainer: MAINTAINER,
  none: Number.POSITIVE_INFINITY,
};

/** Whether the caller may download artifacts of this access. Nobody downloads those for `none`, only later jobs do. */
export const canDownload = (ctx: Pick<Context, 'actor'>, project: ProjectRow, access: ArtifactAccess): boolean =>
  can(ctx, project, 'read_pipeline') && project.access_level >= LEAST[access];

/** @throws as `requireAbility(read_pipeline)`; `unauthenticated` or `forbidden` if the caller's role is too low */
export const requireDownload = (ctx: Pick<Context, 'actor'>, project: ProjectRow, access: ArtifactAccess): void => {
  requireAbility(ctx, project, 'read_pipeline');
  if (canDownload(ctx, project, access)) return;
  throw ctx.actor.userId === null ? unauthenticated() : forbidden();
};
