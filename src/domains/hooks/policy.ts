import { type RawBuilder, sql } from 'kysely';
import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import { momentIsReadable } from '#domains/events/visibility.ts';
import {
  type Container,
  type ContainerAddress,
  type ContainerKind,
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
 * Returns the group or project if the caller may administer its hooks: owners of a group, maintainers of a project.
 *
 * @throws `not_found` (Group, Project), `forbidden`
 */
export const getHookContainer = async (ctx: Context, { kind, id }: ContainerAddress): Promise<Container> => {
  const container = await getContainer(ctx, kind, id);
  requireContainerAbility(ctx, container, 'admin_hook');
  return container;
};

/**
 * Returns the owner of the hooks if the caller may administer them. Only administrators administer those of the instance.
 *
 * @throws `not_found` (Group, Project), `forbidden`
 */
export const getHookOwner = async (ctx: Context, place: OwnerAddress): Promise<ContainerOrInstance> => {
  if (place.kind !== 'instance') return getHookContainer(ctx, place);
  requireAdministrator(ctx);
  return { kind: 'instance' };
};

/** The same under a lock until the transaction ends. */
export const lockHookOwner = async (tx: Tx, seen: ContainerOrInstance): Promise<ContainerOrInstance> => {
  if (seen.kind !== 'instance') return lockContainer(tx, seen, 'admin_hook');
  requireAdministrator(tx);
  await sql`select pg_advisory_xact_lock(hashtextextended('millrace:system-hooks', 0))`.execute(tx.db);
  return seen;
};

/** The lowest role that may administer the hooks of a group or project. */
export const LEAST_ROLES: Readonly<Record<ContainerKind, number>> = { group: OWNER, project: MAINTAINER };

/** Returns the scope of an event about a hook. Only people who administer hooks may read such events. */
export const hookScope = (owner: ContainerOrInstance, hookId: number) => ({
  subject: { type: 'Webhook', id: hookId },
  ...(owner.kind === 'group'
    ? { namespace_ids: owner.group.traversal_ids }
    : owner.kind === 'project'
      ? projectScope(owner.project)
      : { namespace_ids: [] }),
  min_access_level: LEAST_ROLES[owner.kind === 'project' ? 'project' : 'group'],
});

/**
 * SQL: whether the caller may read the row `webhook_payloads`. Administering the hook is not enough, because its
 * project may have been in another group at the time, or that part of the project may be closed now.
 */
export const payloadIsReadable = ({ actor }: Pick<Context, 'actor'>): RawBuilder<boolean> =>
  momentIsReadable(actor, sql.ref('webhook_payloads.moment'));

/** SQL: the column if the caller may read the row `webhook_payloads`, else null. */
export const ifReadable = <T>(ctx: Pick<Context, 'actor'>, column: RawBuilder<T>): RawBuilder<T | null> =>
  sql<T | null>`case when ${payloadIsReadable(ctx)} then ${column} end`;
