import { type Selectable, sql } from 'kysely';
import { refreshAccess } from '#domains/access/commands.ts';
import { GUEST, MINIMAL, ROLES, roleName } from '#domains/access/model.ts';
import { isUnexpired } from '#domains/access/roles.ts';
import { lockAncestry } from '#domains/groups/locks.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { lockProjectRow } from '#domains/projects/locks.ts';
import { getProject } from '#domains/projects/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Tx } from '#platform/context.ts';
import type { Members } from '#platform/db/tables.ts';
import { badParameters, conflict, invalid, notFound } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { type MemberPayload, memberAdded } from './events.ts';
import { ancestorIds, groupSource, type MemberSource, projectSource, scopeOf, sourcePayload } from './model.ts';
import { requireAdminMembers } from './policy.ts';

// Shared by all ways to join: added by an Owner or Maintainer, by an approved request, or by invitation.

/**
 * Adds a member, in a transaction that holds the lock on the place (`lockSource`). The caller checks permissions. An
 * open access request of the user is closed.
 *
 * @throws DomainError `not_found` (User), `conflict` if they are already a member, `invalid` for a level below an
 *   inherited one
 */
export const joinSource = async (
  tx: Tx,
  source: MemberSource,
  { user_id, access_level, expires_at, created_by_id }: Joining,
): Promise<void> => {
  await requireUser(tx, user_id);
  await checkInherited(tx, source, user_id, access_level);
  // An expired membership no longer counts.
  await tx.db
    .deleteFrom('members')
    .where(isMember(source, user_id))
    .where(sql<boolean>`expires_at <= current_date`)
    .execute();
  const row = await tx.db
    .insertInto('members')
    .values({ ...placed(source), user_id, access_level, expires_at, created_by_id })
    .onConflict((on) => on.doNothing())
    .returningAll()
    .executeTakeFirst();
  if (!row) throw conflict('Member already exists');
  await tx.db.deleteFrom('access_requests').where(isMember(source, user_id)).execute();
  await refresh(tx, source, [user_id]);
  tx.emit(memberAdded, await eventOf(tx, source, row));
};

export interface Joining {
  readonly user_id: number;
  readonly access_level: number;
  readonly expires_at: string | null;
  readonly created_by_id: number | null;
}

export type MemberTableRow = Selectable<Members>;

export const placed = (source: MemberSource) =>
  source.kind === 'group' ? { namespace_id: source.group.id } : { project_id: source.project.id };

/** Requires that the row is of the group or project. */
export const isOfSource = (source: MemberSource) =>
  source.kind === 'group'
    ? sql<boolean>`namespace_id = ${source.group.id}`
    : sql<boolean>`project_id = ${source.project.id}`;

export const isMember = (source: MemberSource, userId: number) =>
  sql<boolean>`${isOfSource(source)} and user_id = ${userId}`;

/** Returns the direct membership, unless it has expired. */
export const findRow = async (tx: Tx, source: MemberSource, userId: number): Promise<MemberTableRow | undefined> =>
  tx.db
    .selectFrom('members')
    .selectAll()
    .where(isMember(source, userId))
    .where(isUnexpired('members'))
    .executeTakeFirst();

/** Locks the place, so that two concurrent changes cannot remove the last Owner together. */
export const lockSource = async (tx: Tx, source: MemberSource): Promise<void> => {
  if (source.kind === 'project') await lockProjectRow(tx, source.project.id);
  else if (!(await lockAncestry(tx, source.group))) throw notFound('Group');
};

/**
 * Locks the group or project whose members the caller is about to change, and returns its current row: they may have
 * lost their role since it was read.
 *
 * @throws DomainError `not_found`, `forbidden`
 */
export const lockManaged = async (tx: Tx, given: MemberSource): Promise<MemberSource> => {
  await lockSource(tx, given);
  const source =
    given.kind === 'group'
      ? groupSource(await getGroup(tx, { id: given.group.id }))
      : projectSource(await getProject(tx, { id: given.project.id }));
  requireAdminMembers(tx, source);
  return source;
};

/** Access to groups is precomputed and must be refreshed. Access to projects is read from the memberships. */
export const refresh = async (tx: Tx, source: MemberSource, userIds: readonly number[]): Promise<void> => {
  if (source.kind === 'group') await refreshAccess(tx, [source.group.id], userIds);
};

const requireUser = async (tx: Tx, id: number): Promise<void> => {
  const user = await tx.db.selectFrom('users').select('user_type').where('id', '=', id).executeTakeFirst();
  if (!user || user.user_type === 'ghost') throw notFound('User');
};

/** Minimal access is only available in groups. */
export const checkLevel = (source: MemberSource, level: number): void => {
  const allowed = ROLES.filter((role) => source.kind === 'group' || role !== MINIMAL);
  if (!allowed.some((role) => role === level)) {
    throw badParameters(`access_level does not have a valid value (allowed: ${allowed.join(', ')})`);
  }
};

/** Refuses a level below an inherited one. It would have no effect, as the highest level applies. */
export const checkInherited = async (tx: Tx, source: MemberSource, userId: number, level: number): Promise<void> => {
  const inherited = await tx.db
    .selectFrom('members')
    .innerJoin('namespaces', 'namespaces.id', 'members.namespace_id')
    .select(['members.access_level', 'namespaces.name'])
    .where(sql<boolean>`members.namespace_id = any (${ancestorIds(source)}::bigint[])`)
    .where('members.user_id', '=', userId)
    .where('members.access_level', '>=', GUEST)
    .where(isUnexpired('members'))
    .orderBy('members.access_level', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!inherited || inherited.access_level <= level) return;
  throw invalid({
    access_level: [
      `should be greater than or equal to ${roleName(inherited.access_level)} inherited membership from group ${inherited.name}`,
    ],
  });
};

/** A group or project as events describe it. */
export interface EventSource {
  readonly container: MemberPayload['source'];
  readonly scope: { readonly project_id?: number | null; readonly namespace_ids: readonly number[] };
}

/** Returns the payload and scope of a membership's events. */
export const eventOf = async (tx: Tx, source: MemberSource, row: MemberTableRow) =>
  eventAt({ container: sourcePayload(source), scope: scopeOf(source) }, await eventUser(tx, row.user_id ?? 0), row);

/** Returns a user as events of their memberships describe them. */
export const eventUser = async (tx: Tx, userId: number): Promise<MemberPayload['user']> => {
  const user = (await userSummariesByIds(tx, [userId])).get(userId);
  if (!user) throw notFound('User');
  const { id, name, username, email } = hookUser(tx, user);
  return { id, name, username, email };
};

/** The same as `eventOf`, for many memberships of one user. */
export const eventAt = ({ container, scope }: EventSource, user: MemberPayload['user'], row: MemberTableRow) => {
  const payload: MemberPayload = {
    id: row.id,
    user,
    source: container,
    access_level: row.access_level,
    expires_at: row.expires_at,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
  };
  return {
    ...scope,
    subject: { type: container.type === 'Group' ? 'GroupMember' : 'ProjectMember', id: row.id },
    // Like the list of members, these events are not for everyone who can see a public project.
    min_access_level: GUEST,
    user_ids: [user.id],
    payload,
  };
};
