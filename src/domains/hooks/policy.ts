import { type RawBuilder, sql } from 'kysely';
import { MAINTAINER, OWNER } from '#domains/access/model.ts';
import { momentIsReadable } from '#domains/events/visibility.ts';
import { getPlace, type Place, type PlaceKind, requirePlaceAbility } from '#domains/planning/place.ts';
import { projectScope } from '#domains/projects/model.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import type { AddressPolicy } from '#platform/http-client/http-client.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/** The group or project that a hook belongs to, as callers identify it. */
export interface HookPlace {
  readonly kind: PlaceKind;
  readonly id: IdOrPath;
}

/**
 * Returns the group or project if the caller may administer its hooks: owners of a group, maintainers of a project.
 *
 * @throws `not_found` (Group, Project), `forbidden`
 */
export const getHookPlace = async (ctx: Context, { kind, id }: HookPlace): Promise<Place> => {
  const place = await getPlace(ctx, kind, id);
  requirePlaceAbility(ctx, place, 'admin_hook');
  return place;
};

/** The lowest role that may administer the hooks of a group or project. */
export const LEAST_ROLES: Readonly<Record<PlaceKind, number>> = { group: OWNER, project: MAINTAINER };

/** Returns the scope of an event about a hook. Only people who administer hooks may read such events. */
export const hookScope = (place: Place, hookId: number) => ({
  subject: { type: 'Webhook', id: hookId },
  ...(place.kind === 'group' ? { namespace_ids: place.group.traversal_ids } : projectScope(place.project)),
  min_access_level: LEAST_ROLES[place.kind],
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
