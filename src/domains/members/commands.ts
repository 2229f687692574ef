import { type RawBuilder, sql } from 'kysely';
import { lockOwners } from '#domains/access/commands.ts';
import { checkExpiry } from '#domains/access/expiry.ts';
import { OWNER } from '#domains/access/model.ts';
import { actingOwners } from '#domains/access/roles.ts';
import { unassignFromIssues } from '#domains/issues/unassign.ts';
import { unassignFromMergeRequests } from '#domains/merge-requests/unassign.ts';
import type { Context, Tx } from '#platform/context.ts';
import { forbidden, notFound, requireUnchanged } from '#platform/errors.ts';
import { memberRemoved, memberUpdated } from './events.ts';
import {
  checkInherited,
  checkLevel,
  type EventSource,
  eventAt,
  eventOf,
  eventUser,
  findRow,
  joinSource,
  lockManaged,
  lockSource,
  type MemberTableRow,
  refresh,
} from './joining.ts';
import type { MemberSource } from './model.ts';
import { requireAdminMembers, requireLevel } from './policy.ts';
import { getMember, type MemberRow } from './queries.ts';

export interface NewMember {
  readonly user_id: number;
  readonly access_level: number;
  readonly expires_at?: string | null | undefined;
}

export interface MemberChanges {
  readonly access_level?: number | undefined;
  /** Null removes the expiry. */
  readonly expires_at?: string | null | undefined;
}

export interface RemovalOptions {
  /** Keeps memberships in the groups and projects below a group. */
  readonly skipSubresources?: boolean | undefined;
  /** Unassigns the member from the issues and merge requests of the group or project. */
  readonly unassignIssuables?: boolean | undefined;
  /** Keeps a membership that has changed after this time. */
  readonly unchangedSince?: Date | null | undefined;
}

/**
 * Adds a member (reference: neighbours B). Requires an Owner of the group or a Maintainer of the project, who can grant
 * at most their own level.
 *
 * @throws DomainError `forbidden`, `not_found` (User), `conflict` if they are already a member, `parameters`, `invalid`
 */
export const addMember = async (ctx: Context, given: MemberSource, input: NewMember): Promise<MemberRow> => {
  requireAdminMembers(ctx, given);
  checkLevel(given, input.access_level);
  requireLevel(ctx, given, input.access_level);
  checkExpiry(ctx, input.expires_at);
  const { user_id, access_level, expires_at = null } = input;
  return ctx.transaction(async (tx) => {
    const source = await lockManaged(tx, given);
    requireLevel(tx, source, access_level);
    await joinSource(tx, source, { user_id, access_level, expires_at, created_by_id: ctx.actor.userId });
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
  given: MemberSource,
  userId: number,
  changes: MemberChanges,
): Promise<MemberRow> => {
  requireAdminMembers(ctx, given);
  if (changes.access_level !== undefined) checkLevel(given, changes.access_level);
  checkExpiry(ctx, changes.expires_at);
  return ctx.transaction(async (tx) => {
    const source = await lockManaged(tx, given);
    const before = await findRow(tx, source, userId);
    if (!before) throw notFound();
    const { access_level = before.access_level, expires_at = before.expires_at } = changes;
    requireLevel(tx, source, before.access_level, access_level);
    if (access_level !== before.access_level) await checkInherited(tx, source, userId, access_level);
    if (access_level < OWNER) await requireAnotherOwner(tx, source, before);
    const row = await tx.db
      .updateTable('members')
      .set({
        access_level,
        expires_at,
        updated_at: sql`now()`,
        // A role from a directory that was changed by hand is an override. The next sync keeps it.
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
 * Ends a membership. For a group, also ends those in groups and projects below it. Members can always remove
 * themselves.
 *
 * @throws DomainError `forbidden` (also for the last Owner of a group), `not_found`, `modified`
 */
export const removeMember = async (
  ctx: Context,
  given: MemberSource,
  userId: number,
  options: RemovalOptions = {},
): Promise<void> => {
  const leaves = ctx.actor.userId === userId;
  if (!leaves) requireAdminMembers(ctx, given);
  await ctx.transaction(async (tx) => {
    if (leaves) await lockSource(tx, given);
    const source = leaves ? given : await lockManaged(tx, given);
    const row = await findRow(tx, source, userId);
    if (!row) throw notFound();
    if (!leaves) requireLevel(tx, source, row.access_level);
    await requireAnotherOwner(tx, source, row);
    requireUnchanged(row, options.unchangedSince);
    await tx.db.deleteFrom('members').where('id', '=', row.id).execute();
    const below =
      source.kind === 'group' && !options.skipSubresources
        ? await deleteMemberships(tx, userId, isBelow(source.group.id))
        : [];
    await refresh(tx, source, [userId]);
    if (options.unassignIssuables) await unassign(tx, source, userId);
    tx.emit(memberRemoved, await eventOf(tx, source, row));
    await emitRemoved(tx, userId, below);
  });
};

/**
 * Removes all memberships of a user whose account is about to be deleted, with an event for each. The account takes its
 * access along.
 */
export const endMemberships = async (tx: Tx, userId: number): Promise<void> =>
  emitRemoved(tx, userId, await deleteMemberships(tx, userId, sql<boolean>`true`));

/** A group must keep an Owner, its own or one of a group above it. */
const requireAnotherOwner = async (tx: Tx, source: MemberSource, member: MemberTableRow): Promise<void> => {
  if (await isLastOwner(tx, source, member)) {
    throw forbidden('The last owner of a group cannot leave it or be given another role');
  }
};

/** Returns true if the group would be left without an Owner. Nobody else can take one away until the transaction ends. */
export const isLastOwner = async (tx: Tx, source: MemberSource, member: MemberTableRow): Promise<boolean> => {
  if (source.kind !== 'group' || member.access_level < OWNER) return false;
  await lockOwners(tx, source.group.traversal_ids.slice(0, 1));
  const { rows } = await sql`
    ${actingOwners(sql`${source.group.traversal_ids}::bigint[]`)} and o.id <> ${member.id} limit 1`.execute(tx.db);
  return rows.length === 0;
};

interface RemovedMembership {
  readonly source: EventSource;
  readonly row: MemberTableRow;
}

const emitRemoved = async (tx: Tx, userId: number, removed: readonly RemovedMembership[]): Promise<void> => {
  if (removed.length === 0) return;
  const user = await eventUser(tx, userId);
  for (const { source, row } of removed) tx.emit(memberRemoved, eventAt(source, user, row));
};

/** The membership `m` is in a group or project below the group, or in the group itself. */
const isBelow = (groupId: number) => {
  const tree = sql`select id from namespaces where traversal_ids @> array[${groupId}::bigint]`;
  return sql<boolean>`(m.namespace_id in (${tree})
    or m.project_id in (select p.id from projects p where p.namespace_id in (${tree})))`;
};

/** Deletes those memberships `m` of the user that meet the condition, and returns each with its place. */
const deleteMemberships = async (
  tx: Tx,
  userId: number,
  condition: RawBuilder<boolean>,
): Promise<RemovedMembership[]> => {
  const { rows } = await sql<MemberTableRow & EventSource['container'] & { traversal_ids: number[] }>`
    with gone as (delete from members m where m.user_id = ${userId} and ${condition} returning m.*)
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
    return { row, source: { container: { ...place, name, path, full_path }, scope } };
  });
};

/**
 * Removes the user from the assignees and reviewers of all issues and merge requests in the project, or in all projects
 * below the group.
 */
const unassign = async (tx: Tx, source: MemberSource, userId: number): Promise<void> => {
  const projects =
    source.kind === 'project'
      ? sql`select ${source.project.id}::bigint`
      : sql`select p.id from projects p join namespaces n on n.id = p.namespace_id
          where n.traversal_ids @> array[${source.group.id}::bigint]`;
  await unassignFromIssues(tx, userId, projects);
  await unassignFromMergeRequests(tx, userId, projects);
};
