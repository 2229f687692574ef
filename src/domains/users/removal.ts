import { sql } from 'kysely';
import { lockOwners } from '#domains/access/commands.ts';
import { groupsOwned, groupsOwnedAlone, groupsOwnedByNobodyElse } from '#domains/access/roles.ts';
import type { Tx } from '#platform/context.ts';
import { conflict, forbidden, requireUnchanged } from '#platform/errors.ts';
import { definePort } from '#platform/port.ts';
import { requireAnotherAdministrator } from './accounts/administrators.ts';
import { deleteContributions, moveContributions } from './accounts/ghost.ts';
import { lockUser, userPayload } from './accounts/write.ts';
import { removeAvatar } from './avatar.ts';
import { userDeleted } from './events.ts';
import { isInternal } from './model.ts';

/** A project that is deleted with its namespace. */
export interface RemovedProject {
  readonly id: number;
  readonly namespace_id: number;
  readonly full_path: string;
  readonly disk_path: string;
}

/** Called before the projects in namespaces are deleted with them. Returns the projects. Projects implement it. */
export const beforeProjectsAreDeleted = definePort<Tx, [namespaceIds: readonly number[]], Promise<RemovedProject[]>>(
  'users.before_projects_are_deleted',
);

/** Deletes the OAuth applications of a user. OAuth implements it. */
export const deleteApplicationsOf = definePort<Tx, [ownerId: number], Promise<void>>('users.delete_applications_of');

/** Removes all memberships of a user, with an event for each. Members implement it. */
export const removeMembershipsOf = definePort<Tx, [userId: number], Promise<void>>('users.remove_memberships_of');

/** Removes groups at once that are deleted with their only Owner. Groups implement it. */
export const removeGroups = definePort<Tx, [groupIds: readonly number[]], Promise<void>>('users.remove_groups');

export interface UserRemoval {
  /** Deletes the user's contributions, and the groups that nobody else owns, not even somebody who is blocked. */
  readonly hardDelete?: boolean;
  /** Keeps a user who has changed after this time. */
  readonly unchangedSince?: Date | null | undefined;
}

interface Removal extends UserRemoval {
  /** A group that stays despite `hardDelete`. */
  readonly keptGroupId?: number | undefined;
}

/**
 * Deletes an account with its personal namespace, the projects in it, its OAuth applications and all its tokens. The
 * user's contributions elsewhere move to the ghost user, unless they are deleted too (`hardDelete`). The caller must have
 * checked the permission.
 *
 * @throws `not_found`, `forbidden` for internal accounts, `conflict` while the user is the only owner of a group that
 * stays, `modified`
 */
export const removeAccount = async (
  tx: Tx,
  id: number,
  { hardDelete = false, keptGroupId, unchangedSince }: Removal,
): Promise<void> => {
  const user = await lockUser(tx, id);
  if (isInternal(user)) throw forbidden('Internal accounts cannot be removed');
  requireUnchanged(user, unchangedSince);
  if (user.is_admin) await requireAnotherAdministrator(tx, id);
  if (hardDelete) await removeOwnGroups(tx, id, keptGroupId);
  if (await ownsGroupAlone(tx, id)) throw conflict('User cannot be removed while is the sole-owner of a group');
  const namespace = await tx.db
    .selectFrom('namespaces')
    .select('id')
    .where('owner_id', '=', id)
    .forUpdate()
    .executeTakeFirst();
  if (namespace) {
    await beforeProjectsAreDeleted(tx, [namespace.id]);
    await tx.db.deleteFrom('namespaces').where('id', '=', namespace.id).execute();
  }
  await deleteApplicationsOf(tx, id);
  await removeMembershipsOf(tx, id);
  if (hardDelete) await deleteContributions(tx, id);
  else await moveContributions(tx, id);
  // The foreign keys delete access and tokens with it.
  await tx.db.deleteFrom('users').where('id', '=', id).execute();
  removeAvatar(tx, user.avatar_key);
  tx.emit(userDeleted, {
    subject: { type: 'User', id },
    namespace_ids: [],
    payload: { ...userPayload(user), namespace_id: namespace?.id ?? null },
  });
};

const removeOwnGroups = async (tx: Tx, userId: number, keptGroupId: number | undefined): Promise<void> => {
  await lockOwnersOfGroups(tx, userId);
  const { rows } = await sql<{ id: number }>`${groupsOwnedByNobodyElse(userId)} order by n.id`.execute(tx.db);
  await removeGroups(
    tx,
    rows.flatMap(({ id }) => (id === keptGroupId ? [] : id)),
  );
};

/**
 * Returns true if a group would be left without an Owner who can act. Nobody else can take an Owner away until the
 * transaction ends.
 */
export const ownsGroupAlone = async (tx: Tx, userId: number): Promise<boolean> => {
  await lockOwnersOfGroups(tx, userId);
  const { rows } = await sql`${groupsOwnedAlone(userId)} limit 1`.execute(tx.db);
  return rows.length > 0;
};

/** Locks the Owners of all groups that the user owns. */
const lockOwnersOfGroups = async (tx: Tx, userId: number): Promise<void> => {
  const { rows: owned } = await sql<{ id: number }>`${groupsOwned(userId)}`.execute(tx.db);
  await lockOwners(
    tx,
    owned.map(({ id }) => id),
  );
};
