import { type Selectable, sql } from 'kysely';
import { refreshAccess } from '#domains/access/commands.ts';
import { GUEST, MINIMAL, OWNER, ROLES, roleName } from '#domains/access/model.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import { today } from '#platform/clock.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { Members } from '#platform/db/tables.ts';
import { badParameters, conflict, forbidden, invalid, notFound } from '#platform/errors.ts';
import { isoTime } from '#platform/time.ts';
import { type MemberPayload, memberAdded, memberRemoved, memberUpdated } from './events.ts';
import { ancestorIds, describedSource, type MemberSource, scopeOf } from './model.ts';
import { requireAdminMembers, requireLevel } from './policy.ts';
import { getMember, type MemberRow } from './queries.ts';

export interface NewMember {
  readonly user_id: number;
  readonly access_level: number;
  readonly expires_at?: string | null | undefined;
}

export interface MemberChanges {
  readonly access_level?: number | undefined;
  /** Null takes the expiry away. */
  readonly expires_at?: string | null | undefined;
}

export interface RemovalOptions {
  /** Leaves memberships in the groups and projects below a group. */
  readonly skipSubresources?: boolean | undefined;
  /** Takes the member's name off the issues and merge requests of the group or project. */
  readonly unassignIssuables?: boolean | undefined;
}

/**
 * Makes someone a member (reference: neighbours B): Owners of groups, Maintainers of projects up to their own level.
 *
 * @throws DomainError `forbidden`, `not_found` (User), `conflict` when he is one already, `parameters`, `invalid`
 */
export const addMember = async (ctx: Context, source: MemberSource, input: NewMember): Promise<MemberRow> => {
  requireAdminMembers(ctx, source);
  checkLevel(source, input.access_level);
  requireLevel(ctx, source, input.access_level);
  checkExpiry(ctx, input.expires_at);
  const { user_id, access_level, expires_at = null } = input;
  return ctx.transaction(async (tx) => {
    await lockSource(tx, source);
    await requireUser(tx, user_id);
    await checkInherited(tx, source, user_id, access_level);
    // A membership that has expired is none any more.
    await tx.db
      .deleteFrom('members')
      .where(isMember(source, user_id))
      .where(sql<boolean>`expires_at <= current_date`)
      .execute();
    const row = await tx.db
      .insertInto('members')
      .values({ ...placed(source), user_id, access_level, expires_at, created_by_id: ctx.actor.userId })
      .onConflict((on) => on.doNothing())
      .returningAll()
      .executeTakeFirst();
    if (!row) throw conflict('Member already exists');
    await refresh(tx, source, [user_id]);
    tx.emit(memberAdded, await eventOf(tx, source, row));
    return getMember(tx, source, user_id);
  });
};

/**
 * Changes a member's level or expiry.
 *
 * @throws DomainError `forbidden` (also for the last Owner of a group), `not_found`, `parameters`, `invalid`
 */
export const updateMember = async (
  ctx: Context,
  source: MemberSource,
  userId: number,
  changes: MemberChanges,
): Promise<MemberRow> => {
  requireAdminMembers(ctx, source);
  if (changes.access_level !== undefined) checkLevel(source, changes.access_level);
  checkExpiry(ctx, changes.expires_at);
  return ctx.transaction(async (tx) => {
    await lockSource(tx, source);
    const before = await findRow(tx, source, userId);
    if (!before) throw notFound();
    const { access_level = before.access_level, expires_at = before.expires_at } = changes;
    requireLevel(ctx, source, before.access_level, access_level);
    if (access_level !== before.access_level) await checkInherited(tx, source, userId, access_level);
    if (access_level < OWNER) await requireAnotherOwner(tx, source, before);
    const row = await tx.db
      .updateTable('members')
      .set({
        access_level,
        expires_at,
        updated_at: sql`now()`,
        // What a directory gave and somebody changed since is theirs: the next sync leaves it.
        override: before.override || (before.source !== null && access_level !== before.access_level),
      })
      .where('id', '=', before.id)
      .returningAll()
      .executeTakeFirstOrThrow();
    await refresh(tx, source, [userId]);
    const differences: Record<string, { previous: string | number | null; current: string | number | null }> = {};
    if (row.access_level !== before.access_level) {
      differences.access_level = { previous: before.access_level, current: row.access_level };
    }
    if (row.expires_at !== before.expires_at) {
      differences.expires_at = { previous: before.expires_at, current: row.expires_at };
    }
    if (Object.keys(differences).length > 0) {
      const event = await eventOf(tx, source, row);
      tx.emit(memberUpdated, { ...event, payload: { ...event.payload, changes: differences } });
    }
    return getMember(tx, source, userId);
  });
};

/**
 * Ends a membership, and with that of a group also those in groups and projects below it. Everyone may leave.
 *
 * @throws DomainError `forbidden` (also for the last Owner of a group), `not_found`
 */
export const removeMember = async (
  ctx: Context,
  source: MemberSource,
  userId: number,
  options: RemovalOptions = {},
): Promise<void> => {
  const leaves = ctx.actor.userId === userId;
  if (!leaves) requireAdminMembers(ctx, source);
  await ctx.transaction(async (tx) => {
    await lockSource(tx, source);
    const row = await findRow(tx, source, userId);
    if (!row) throw notFound();
    if (!leaves) requireLevel(ctx, source, row.access_level);
    await requireAnotherOwner(tx, source, row);
    await tx.db.deleteFrom('members').where('id', '=', row.id).execute();
    const below =
      source.kind === 'group' && !options.skipSubresources ? await removeBelow(tx, source.group.id, userId) : [];
    if (options.unassignIssuables) await unassign(tx, source, userId);
    await refresh(tx, source, [userId]);
    tx.emit(memberRemoved, await eventOf(tx, source, row));
    for (const each of below) tx.emit(memberRemoved, await eventOf(tx, each.source, each.row));
  });
};

export type MemberTableRow = Selectable<Members>;

const placed = (source: MemberSource) =>
  source.kind === 'group' ? { namespace_id: source.group.id } : { project_id: source.project.id };

const isMember = (source: MemberSource, userId: number) =>
  source.kind === 'group'
    ? sql<boolean>`namespace_id = ${source.group.id} and user_id = ${userId}`
    : sql<boolean>`project_id = ${source.project.id} and user_id = ${userId}`;

/** The membership of its own, unless it has expired. */
export const findRow = async (tx: Tx, source: MemberSource, userId: number): Promise<MemberTableRow | undefined> =>
  tx.db
    .selectFrom('members')
    .selectAll()
    .where(isMember(source, userId))
    .where(sql<boolean>`(expires_at is null or expires_at > current_date)`)
    .executeTakeFirst();

/** Two who change members of a group, or of one above it, at once must not both remove the last Owner but themselves. */
export const lockSource = async (tx: Tx, source: MemberSource): Promise<void> => {
  const table = source.kind === 'group' ? 'namespaces' : 'projects';
  const ids = source.kind === 'group' ? source.group.traversal_ids : [source.project.id];
  const { rows } = await sql`
    select 1 from ${sql.table(table)} where id = any (${ids}::bigint[]) order by id for no key update`.execute(tx.db);
  if (rows.length < ids.length) throw notFound(source.kind === 'group' ? 'Group' : 'Project');
};

/** Memberships of projects are read where they are; those of groups are kept worked out. */
export const refresh = async (tx: Tx, source: MemberSource, userIds: readonly number[]): Promise<void> => {
  if (source.kind === 'group') await refreshAccess(tx, [source.group.id], userIds);
};

const requireUser = async (tx: Tx, id: number): Promise<void> => {
  const user = await tx.db.selectFrom('users').select('user_type').where('id', '=', id).executeTakeFirst();
  if (!user || user.user_type === 'ghost') throw notFound('User');
};

/** Minimal access is for groups alone. */
const checkLevel = (source: MemberSource, level: number): void => {
  const isRole = ROLES.some((role) => role === level) && (source.kind === 'group' || level !== MINIMAL);
  if (!isRole) throw badParameters('access_level does not have a valid value');
};

const checkExpiry = (ctx: Context, expiresAt: string | null | undefined): void => {
  if (expiresAt && expiresAt < today(ctx.clock)) throw invalid({ expires_at: ['cannot be a date in the past'] });
};

/** A membership below one in a group above would say nothing: levels add up to the highest. */
const checkInherited = async (tx: Tx, source: MemberSource, userId: number, level: number): Promise<void> => {
  const inherited = await tx.db
    .selectFrom('members')
    .innerJoin('namespaces', 'namespaces.id', 'members.namespace_id')
    .select(['members.access_level', 'namespaces.name'])
    .where(sql<boolean>`members.namespace_id = any (${ancestorIds(source)}::bigint[])`)
    .where('members.user_id', '=', userId)
    .where('members.access_level', '>=', GUEST)
    .where(sql<boolean>`(members.expires_at is null or members.expires_at > current_date)`)
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

/** A group keeps an Owner, its own or one of a group above it. */
const requireAnotherOwner = async (tx: Tx, source: MemberSource, member: MemberTableRow): Promise<void> => {
  if (await isLastOwner(tx, source, member)) {
    throw forbidden('The last owner of a group cannot leave it or be given another role');
  }
};

/** Whether the group would be left without an Owner. */
export const isLastOwner = async (tx: Tx, source: MemberSource, member: MemberTableRow): Promise<boolean> => {
  if (source.kind !== 'group' || member.access_level < OWNER) return false;
  const other = await tx.db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select('members.id')
    .where(sql<boolean>`members.namespace_id = any (${source.group.traversal_ids}::bigint[])`)
    .where('members.id', '<>', member.id)
    .where('members.access_level', '=', OWNER)
    .where('users.state', '=', 'active')
    .where(sql<boolean>`(members.expires_at is null or members.expires_at > current_date)`)
    .limit(1)
    .executeTakeFirst();
  return !other;
};

/** Removes the memberships below the group, and gives each with where it was. */
const removeBelow = async (
  tx: Tx,
  groupId: number,
  userId: number,
): Promise<{ readonly source: EventSource; readonly row: MemberTableRow }[]> => {
  const { rows } = await sql<MemberTableRow & EventSource['described'] & { traversal_ids: number[] }>`
    with tree as (select id from namespaces where traversal_ids @> array[${groupId}::bigint]),
    gone as (
      delete from members m where m.user_id = ${userId} and (
        m.namespace_id in (select id from tree)
        or m.project_id in (select p.id from projects p where p.namespace_id in (select id from tree)))
      returning m.*)
    select gone.*, coalesce(p.name, n.name) as name, coalesce(p.path, n.path) as path,
      coalesce(p.full_path, n.full_path) as full_path, n.traversal_ids
    from gone left join projects p on p.id = gone.project_id
      join namespaces n on n.id = coalesce(p.namespace_id, gone.namespace_id)
    order by gone.id`.execute(tx.db);
  return rows.map((row) => {
    const { name, path, full_path, traversal_ids, project_id, namespace_id } = row;
    const place =
      project_id === null
        ? ({ type: 'Group', id: namespace_id ?? 0 } as const)
        : ({ type: 'Project', id: project_id } as const);
    const scope = { project_id, namespace_ids: traversal_ids };
    return { row, source: { described: { ...place, name, path, full_path }, scope } };
  });
};

const unassign = async (tx: Tx, source: MemberSource, userId: number): Promise<void> => {
  const projects =
    source.kind === 'project'
      ? sql`select ${source.project.id}::bigint`
      : sql`select p.id from projects p join namespaces n on n.id = p.namespace_id
          where n.traversal_ids @> array[${source.group.id}::bigint]`;
  await sql`delete from issue_assignees a using issues i
    where i.id = a.issue_id and a.user_id = ${userId} and i.project_id in (${projects})`.execute(tx.db);
  await sql`delete from merge_request_assignees a using merge_requests r
    where r.id = a.merge_request_id and a.user_id = ${userId} and r.target_project_id in (${projects})`.execute(tx.db);
};

/** A group or project as events need it. */
interface EventSource {
  readonly described: MemberPayload['source'];
  readonly scope: { readonly project_id?: number | null; readonly namespace_ids: readonly number[] };
}

/** What events of the membership hold. */
export const eventOf = async (tx: Tx, source: MemberSource | EventSource, row: MemberTableRow) => {
  const { described, scope } =
    'described' in source ? source : { described: describedSource(source), scope: scopeOf(source) };
  const userId = row.user_id ?? 0;
  const user = (await userSummariesByIds(tx, [userId])).get(userId);
  if (!user) throw notFound('User');
  const { id, name, username, email } = hookUser(tx, user);
  const payload: MemberPayload = {
    id: row.id,
    user: { id, name, username, email },
    source: described,
    access_level: row.access_level,
    expires_at: row.expires_at,
    created_at: isoTime(row.created_at),
    updated_at: isoTime(row.updated_at),
  };
  return {
    ...scope,
    subject: { type: described.type === 'Group' ? 'GroupMember' : 'ProjectMember', id: row.id },
    // As the list of members, these are not for everyone who may know of a public project.
    min_access_level: GUEST,
    user_ids: [userId],
    payload,
  };
};
