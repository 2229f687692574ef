import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import {
  type Container,
  type ContainerAddress,
  getContainer,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import { projectScope } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';

/**
 * Returns the group or project if the caller may administer its push rule: owners of a group, maintainers of a project.
 *
 * @throws `not_found` (Group, Project), `forbidden`, `unauthenticated`
 */
export const getPushRuleContainer = async (ctx: Context, { kind, id }: ContainerAddress): Promise<Container> => {
  const container = await getContainer(ctx, kind, id);
  requireContainerAbility(ctx, container, 'admin_push_rule');
  return container;
};

/** Events of push rules are only for those who administer the rules. */
export const pushRuleScope = (container: Container, ruleId: number) => ({
  subject: { type: 'PushRule', id: ruleId },
  ...(container.kind === 'group' ? { namespace_ids: container.group.traversal_ids } : projectScope(container.project)),
  min_access_level: container.kind === 'group' ? OWNER : MAINTAINER,
});
