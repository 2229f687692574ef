import { sql } from 'kysely';
import { MINIMAL, OWNER } from '#domains/access/model.ts';
import type { GroupRow } from '#domains/groups/queries.ts';
import type { Tx } from '#platform/context.ts';
import { isLastOwner } from './commands.ts';
import { memberAdded, memberRemoved, memberUpdated } from './events.ts';
import { eventOf, findRow, lockSource, type MemberTableRow, refresh } from './joining.ts';
import { groupSource } from './model.ts';

/** External sources of roles in groups. */
export type RoleSource = 'saml' | 'ldap';

/** The result for a membership. `kept`: it belongs to another source, or must stay. */
export type SyncOutcome = 'added' | 'changed' | 'removed' | 'kept';

/** Returns true if the membership (undefined if none) already matches the source. See `syncMember`. */
export const isInLine = (
  member: Pick<MemberTableRow, 'access_level' | 'source' | 'override'> | undefined,
  level: number | null,
  source: RoleSource,
): boolean => {
  if (!member) return level === null;
  return member.source !== source || (level !== null && (member.override || member.access_level === level));
};

/**
 * Updates a user's membership of the group to the role that a directory or SAML provider gives; null removes it. Keeps
 * memberships that were added by hand or by the other source. A role that was changed by hand is kept too, but is
 * removed with the membership. A group keeps its last Owner.
 */
export const syncMember = async (
  tx: Tx,
  group: GroupRow,
  userId: number,
  level: number | null,
  source: RoleSource,
): Promise<SyncOutcome> => {
  const place = groupSource(group);
  await lockSource(tx, place);
  const before = await findRow(tx, place, userId);
  if (isInLine(before, level, source)) return 'kept';
  if (!before) return add(tx, group, userId, level ?? MINIMAL, source);
  if ((level ?? 0) < OWNER && (await isLastOwner(tx, place, before))) {
    tx.log.warn({ group_id: group.id, user_id: userId, source }, 'kept the role of the last owner of a group');
    return 'kept';
  }
  if (level === null) {
    await tx.db.deleteFrom('members').where('id', '=', before.id).execute();
    await refresh(tx, place, [userId]);
    tx.emit(memberRemoved, await eventOf(tx, place, before));
    return 'removed';
  }
  const row = await tx.db
    .updateTable('members')
    .set({ access_level: level, updated_at: sql`now()` })
    .where('id', '=', before.id)
    .returningAll()
    .executeTakeFirstOrThrow();
  await refresh(tx, place, [userId]);
  const event = await eventOf(tx, place, row);
  const changes = { access_level: { previous: before.access_level, current: level } };
  tx.emit(memberUpdated, { ...event, payload: { ...event.payload, changes } });
  return 'changed';
};

const add = async (
  tx: Tx,
  group: GroupRow,
  userId: number,
  level: number,
  source: RoleSource,
): Promise<SyncOutcome> => {
  const place = groupSource(group);
  // An expired membership no longer counts.
  await tx.db
    .deleteFrom('members')
    .where('namespace_id', '=', group.id)
    .where('user_id', '=', userId)
    .where(sql<boolean>`expires_at <= current_date`)
    .execute();
  const row = await tx.db
    .insertInto('members')
    .values({ namespace_id: group.id, user_id: userId, access_level: level, source })
    .returningAll()
    .executeTakeFirstOrThrow();
  await refresh(tx, place, [userId]);
  tx.emit(memberAdded, await eventOf(tx, place, row));
  return 'added';
};
