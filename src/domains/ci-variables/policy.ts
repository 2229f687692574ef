import { sql } from 'kysely';
import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import {
  type ContainerOrInstance,
  getContainer,
  lockContainer,
  type OwnerAddress,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import { projectScope } from '#domains/projects/model.ts';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Tx } from '#platform/context.ts';

/**
 * Returns the owner if the caller may read and change its variables: maintainers of a project, owners of a group, and
 * administrators for the instance.
 *
 * @throws DomainError `not_found` (Group, Project), `unauthenticated`, `forbidden`
 */
export const getVariableOwner = async (ctx: Context, place: OwnerAddress): Promise<ContainerOrInstance> => {
  if (place.kind === 'instance') {
    requireAdministrator(ctx);
    return place;
  }
  const container = await getContainer(ctx, place.kind, place.id);
  requireContainerAbility(ctx, container, 'admin_cicd_variables');
  return container;
};

/** Locks the owner until the transaction ends, so that its variables change one after the other. @throws as above */
export const lockVariableOwner = async (tx: Tx, owner: ContainerOrInstance): Promise<ContainerOrInstance> => {
  if (owner.kind !== 'instance') return lockContainer(tx, owner, 'admin_cicd_variables');
  requireAdministrator(tx);
  await sql`select pg_advisory_xact_lock(hashtextextended('millrace:instance-variables', 0))`.execute(tx.db);
  return owner;
};

/** Events of variables are only for those who administer the variables. */
export const variableScope = (owner: ContainerOrInstance, id: number) => ({
  subject: { type: 'CiVariable', id },
  ...(owner.kind === 'instance'
    ? {}
    : owner.kind === 'group'
      ? { namespace_ids: owner.group.traversal_ids }
      : projectScope(owner.project)),
  min_access_level: owner.kind === 'project' ? MAINTAINER : OWNER,
});
