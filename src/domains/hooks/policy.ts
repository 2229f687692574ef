import { type RawBuilder, sql } from 'kysely';
import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import { momentIsReadable } from '#domains/events/visibility.ts';
import {
  type Container,
  type ContainerKind,
  getContainer,
  requireContainerAbility,
} from '#domains/planning/container.ts';
import { projectScope } from '#domains/projects/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/** The group or project that a hook belongs to, as callers identify it. */
export interface HookContainer {
  readonly kind: ContainerKind;
  readonly id: IdOrPath;
}

/**
 * Returns the group or project if the caller may administer its hooks: owners of a group, maintainers of a project.
 *
 * @throws `not_found` (Group, Project), `forbidden`
 */
export const getHookContainer = async (ctx: Context, { kind, id }: HookContainer): Promise<Container> => {
  const container = await getContainer(ctx, kind, id);
  requireContainerAbility(ctx, container, 'admin_hook');
  return container;
};

/** The lowest role that may administer the hooks of a group or project. */
export const LEAST_ROLES: Readonly<Record<ContainerKind, number>> = { group: OWNER, project: MAINTAINER };

/** Returns the scope of an event about a hook. Only people who administer hooks may read such events. */
export const hookScope = (container: Container, hookId: number) => ({
  subject: { type: 'Webhook', id: hookId },
  ...(container.kind === 'group' ? { namespace_ids: container.group.traversal_ids } : projectScope(container.project)),
  min_access_level: LEAST_ROLES[container.kind],
});

/** Returns the addresses that hooks may reach, according to the instance settings. */
export const addressPolicy = async (ctx: Pick<Context, 'services'>): Promise<AddressPolicy> => {
  const settings = await getSettings(ctx);
  return {
    allowLocal: settings.allow_local_requests_from_web_hooks_and_services,
    allowlist: settings.outbound_local_requests_whitelist,
  };
};

/**
 * SQL: whether the caller may read the row `webhook_payloads`. Administering the hook is not enough, because its
 * project may have been in another group at the time, or that part of the project may be closed now.
 */
export const payloadIsReadable = ({ actor }: Pick<Context, 'actor'>): RawBuilder<boolean> =>
  momentIsReadable(actor, sql.ref('webhook_payloads.moment'));

/** SQL: the column if the caller may read the row `webhook_payloads`, else null. */
export const ifReadable = <T>(ctx: Pick<Context, 'actor'>, column: RawBuilder<T>): RawBuilder<T | null> =>
  sql<T | null>`case when ${payloadIsReadable(ctx)} then ${column} end`;
