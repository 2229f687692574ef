import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';

/**
 * Returns the branches of a fork that the caller may push to although they may not push to the fork: those of open merge
 * requests with `allow_collaboration` that the caller could merge. Implemented in merge-requests.
 */
export const collaborationBranches = definePort<Context, [fork: ProjectRow], Promise<ReadonlySet<string>>>(
  'repositories.collaborationBranches',
);

/** Returns the only branches that the caller may push to; null if nothing but protection restricts them. */
export const onlyBranches = async (ctx: Context, project: ProjectRow): Promise<ReadonlySet<string> | null> =>
  can(ctx, project, 'push_code') ? null : collaborationBranches(ctx, project);

/**
 * Lets those pass who may push to some branch. Which one it is, `judgePush` decides.
 *
 * @throws DomainError as `requireAbility`
 */
export const requirePush = async (ctx: Context, project: ProjectRow): Promise<void> => {
  if ((await onlyBranches(ctx, project))?.size === 0) requireAbility(ctx, project, 'push_code');
};
