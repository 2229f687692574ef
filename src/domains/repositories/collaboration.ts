import type { ProjectRow } from '#domains/projects/model.ts';
import { can, type JudgedProject, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';

/**
 * Returns for each fork the branches that the caller may push to although they may not push to the fork: those of open
 * merge requests with `allow_collaboration` that the caller could merge. Forks without such branches are absent.
 * Implemented in merge-requests.
 */
export const collaborationBranches = definePort<
  Context,
  [forkIds: readonly number[]],
  Promise<ReadonlyMap<number, ReadonlySet<string>>>
>('repositories.collaborationBranches');

const NONE: ReadonlySet<string> = new Set();

/** Returns the only branches that the caller may push to; null if nothing but protection restricts them. */
export const onlyBranches = async (
  ctx: Context,
  project: JudgedProject & Pick<ProjectRow, 'id'>,
  branchesOf: typeof collaborationBranch = collaborationBranch,
): Promise<ReadonlySet<string> | null> =>
  can(ctx, project, 'push_code') ? null : ((await branchesOf(ctx, project.id)) ?? NONE);

const collaborationBranch = async (ctx: Context, forkId: number): Promise<ReadonlySet<string> | null> =>
  (await collaborationBranches(ctx, [forkId])).get(forkId) ?? null;

/**
 * Lets those pass who may push to some branch. Which one it is, `judgePush` decides.
 *
 * @throws DomainError as `requireAbility`
 */
export const requirePush = async (ctx: Context, project: ProjectRow): Promise<void> => {
  if ((await onlyBranches(ctx, project))?.size === 0) requireAbility(ctx, project, 'push_code');
};
