import { sql } from 'kysely';
import { refreshAccess } from '#domains/access/commands.ts';
import { checkExpiry } from '#domains/access/expiry.ts';
import { OWNER, SHARED_ROLES } from '#domains/access/model.ts';
import { namespaceIsVisible } from '#domains/access/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badParameters, conflict, forbidden, invalid, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { groupShared, groupUnshared } from './events.ts';
import { lockGroupFor } from './locks.ts';
import { groupPayload } from './payload.ts';
import { requireGroupAbility, requireMoreThanAudit } from './policy.ts';
import { type GroupRow, getGroup } from './queries.ts';
import { lockNamespace } from './tree.ts';

export interface NewShare {
  readonly group_access: number;
  readonly expires_at?: string | null | undefined;
}

/** A group that another group or a project is shared with. */
export interface ShareRow {
  readonly namespace_id: number;
  readonly group_id: number;
  readonly group_name: string;
  readonly group_full_path: string;
  readonly group_access_level: number;
  readonly expires_at: string | null;
}

/**
 * Shares a group with the members of another group (specification 3 §4.2), up to the given level.
 *
 * @throws DomainError `not_found` for either group, `forbidden`, `conflict` if they are already shared
 */
export const shareGroup = async (ctx: Context, id: IdOrPath, withId: IdOrPath, share: NewShare): Promise<GroupRow> => {
  const given = await getGroup(ctx, id);
  requireGroupAbility(ctx, given, 'share_group');
  checkShare(ctx, share);
  const other = await getGroup(ctx, withId);
  requireMoreThanAudit(ctx, other);
  if (other.id === given.id) throw invalid({ base: ['A group cannot be shared with itself.'] });
  const { group_access: access_level, expires_at = null } = share;
  return ctx.transaction(async (tx) => {
    const group = await lockGroupFor(tx, given, 'share_group');
    if (other.traversal_ids[0] !== group.traversal_ids[0] && (await isSharingLocked(tx, group.traversal_ids))) {
      throw forbidden('Sharing with groups outside of this hierarchy is locked');
    }
    const inserted = await tx.db
      .insertInto('namespace_shares')
      .values({ namespace_id: group.id, shared_with_id: other.id, access_level, expires_at })
      .onConflict((on) => on.doNothing())
      .returning('id')
      .executeTakeFirst();
    if (!inserted) throw conflict('The group is already shared with this group');
    await shareChanged(tx, groupShared, group, { ...other, access_level, expires_at });
    return getGroup(tx, { id: group.id });
  });
};

/** Ends the sharing. @throws DomainError `not_found`, `forbidden` */
export const unshareGroup = async (ctx: Context, id: IdOrPath, withId: IdOrPath): Promise<void> => {
  const given = await getGroup(ctx, id);
  requireGroupAbility(ctx, given, 'share_group');
  await ctx.transaction(async (tx) => {
    const group = await lockGroupFor(tx, given, 'share_group');
    const removed = await tx.db
      .deleteFrom('namespace_shares')
      .using('namespaces')
      .where('namespace_shares.namespace_id', '=', group.id)
      .whereRef('namespace_shares.shared_with_id', '=', 'namespaces.id')
      .where(
        withId.path === undefined
          ? sql<boolean>`namespaces.id = ${withId.id}`
          : sql<boolean>`lower(namespaces.full_path) = lower(${withId.path})`,
      )
      .returning(['namespaces.id', 'namespaces.full_path', 'access_level', 'expires_at'])
      .executeTakeFirst();
    if (!removed) throw notFound();
    await shareChanged(tx, groupUnshared, group, removed);
  });
};

interface Share {
  /** The other group. */
  readonly id: number;
  readonly full_path: string;
  readonly access_level: number;
  readonly expires_at: string | null;
}

/** Refreshes who has access to the group, and emits the event. */
const shareChanged = async (
  tx: Tx,
  definition: typeof groupShared,
  group: GroupRow,
  { id, full_path, access_level, expires_at }: Share,
): Promise<void> => {
  await refreshAccess(tx, [group.id]);
  const parent = group.parent_id === null ? null : await lockNamespace(tx, group.parent_id);
  tx.emit(definition, {
    subject: { type: 'Group', id: group.id },
    namespace_ids: group.traversal_ids,
    // The other group may be visible to few.
    min_access_level: OWNER,
    payload: { ...groupPayload(group, parent), shared_with: { id, full_path }, access_level, expires_at },
  });
};

/** Returns the groups that each of these namespaces is shared with, if the caller can see them. */
export const sharesByNamespaceIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly ShareRow[]>> => {
  if (ids.length === 0) return new Map();
  const rows = await ctx.db
    .selectFrom('namespace_shares as s')
    .innerJoin('namespaces', 'namespaces.id', 's.shared_with_id')
    .select([
      's.namespace_id',
      'namespaces.id as group_id',
      'namespaces.name as group_name',
      'namespaces.full_path as group_full_path',
      's.access_level as group_access_level',
      's.expires_at',
    ])
    .where(sql<boolean>`s.namespace_id = any (${ids}::bigint[])`)
    .where(namespaceIsVisible(ctx.actor))
    .orderBy('s.id')
    .execute();
  return Map.groupBy(rows, (row) => row.namespace_id);
};

/** Returns true if one of these namespaces prevents itself and everything below it from being shared. */
export const isSharingLocked = async (ctx: Pick<Context, 'db'>, namespaceIds: readonly number[]): Promise<boolean> => {
  const locked = await ctx.db
    .selectFrom('namespaces')
    .select('id')
    .where(sql<boolean>`id = any (${namespaceIds}::bigint[])`)
    .where('share_with_group_lock', '=', true)
    .limit(1)
    .executeTakeFirst();
  return locked !== undefined;
};

/** Checks the inputs of a share, for groups and projects. @throws DomainError `parameters`, `invalid` */
export const checkShare = (ctx: Context, { group_access, expires_at }: NewShare): void => {
  if (!SHARED_ROLES.some((role) => role === group_access))
    throw badParameters(`group_access does not have a valid value (allowed: ${SHARED_ROLES.join(', ')})`);
  checkExpiry(ctx, expires_at);
};
