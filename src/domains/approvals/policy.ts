import { MAINTAINER, OWNER, REPORTER } from '#domains/access/model.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import { type Container, lockContainer, requireContainerAbility } from '#domains/planning/container.ts';
import { isOpenForReview } from '#domains/planning/readers.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { can, type JudgedProject, requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { unauthenticated } from '#platform/errors.ts';
import type { RuleOwner } from './model.ts';

/** The group, project or merge request that has rules. The caller can see it. */
export type RulePlace =
  | Container
  | { readonly kind: 'merge_request'; readonly project: ProjectRow; readonly merge_request_id: number };

export const ownerOf = (place: RulePlace): RuleOwner => {
  if (place.kind === 'group') return { namespace_id: place.group.id };
  return place.kind === 'project' ? { project_id: place.project.id } : { merge_request_id: place.merge_request_id };
};

/**
 * Returns whether the caller may read the rules and settings of a project: signed-in callers who can read its merge
 * requests, and Maintainers even while merge requests are turned off.
 */
export const canReadApprovals = (ctx: Pick<Context, 'actor'>, project: JudgedProject): boolean =>
  can(ctx, project, 'read_approval_rule') || can(ctx, project, 'admin_approval_rule');

/**
 * Requires that the caller may read the rules of the group or project. Those of a group are for its Maintainers.
 *
 * @throws DomainError `not_found`, `unauthenticated`, `forbidden`
 */
export const requireReading = (ctx: Pick<Context, 'actor'>, container: Container): void => {
  if (container.kind === 'project') {
    if (!canReadApprovals(ctx, container.project)) requireAbility(ctx, container.project, 'read_approval_rule');
    return;
  }
  if (ctx.actor.userId === null) throw unauthenticated();
  requireGroupAbility(ctx, container.group, 'read_approval_rule');
};

/** Requires Maintainers of the project, Owners of the group. @throws DomainError `unauthenticated`, `forbidden` */
export const requireAdministration = (ctx: Context, container: Container): void => {
  if (ctx.actor.userId === null) throw unauthenticated();
  requireContainerAbility(ctx, container, 'admin_approval_rule');
};

/** Locks the group or project as `lockContainer`. */
export const lockForAdministration = (tx: Tx, container: Container): Promise<Container> =>
  lockContainer(tx, container, 'admin_approval_rule');

/** Returns scope and audience of events about the rules of a place. */
export const ruleAudience = (place: RulePlace) => {
  if (place.kind === 'group') return groupAudience(place.group, MAINTAINER);
  const isOpen = place.kind === 'merge_request' && isOpenForReview(place.project);
  return { ...projectScope(place.project), min_access_level: isOpen ? null : REPORTER };
};

/** Returns scope and audience of events about the settings of a place. */
export const settingsAudience = (container: Container) =>
  container.kind === 'group'
    ? groupAudience(container.group, OWNER)
    : { ...projectScope(container.project), min_access_level: REPORTER };

const groupAudience = ({ traversal_ids }: GroupRow, min_access_level: number) => ({
  namespace_ids: traversal_ids,
  min_access_level,
});
