import { type Selectable, sql } from 'kysely';
import { isUnexpired } from '#domains/access/roles.ts';
import { findGroup, type GroupRow } from '#domains/groups/queries.ts';
import { isInLine, syncMember } from '#domains/members/synced.ts';
import type { Context, Tx } from '#platform/context.ts';
import type { LdapSyncs } from '#platform/db/tables.ts';
import type { EventDefinition } from '#platform/events.ts';
import { LdapError } from '#platform/ldap/client.ts';
import { rolesInDirectories } from './directories.ts';
import {
  type LdapSyncPayload,
  ldapSyncFailed,
  ldapSyncFinished,
  ldapSyncProgressed,
  ldapSyncStarted,
} from './events.ts';
import { ldapScope } from './policy.ts';

type SyncRow = Selectable<LdapSyncs>;

/** The number of memberships that change in one transaction, which locks the group's row. */
const BATCH = 50;

/** A newer sync of the group has started. */
class Superseded extends Error {}

/**
 * Syncs the members of a group with the current state of the directories. It queries the directories on every run and
 * changes only what differs, so a failed run can simply be repeated. If a directory cannot be queried, the sync fails
 * and changes nothing.
 */
export const runSync = async (ctx: Context, groupId: number, run: number, lastAttempt: boolean): Promise<void> => {
  const group = await findGroup(ctx, { id: groupId });
  if (!group) return;
  try {
    await note(ctx, group, run, sql`state = 'running', started_at = coalesce(started_at, now())`, ldapSyncStarted);
    const { roles, changes, unknownProviders } = await differences(ctx, group);
    await note(
      ctx,
      group,
      run,
      sql`total = ${roles.size + changes.filter((id) => !roles.has(id)).length},
      processed = ${roles.size - changes.filter((id) => roles.has(id)).length}`,
    );
    for (let start = 0; start < changes.length; start += BATCH) {
      ctx.signal.throwIfAborted();
      const batch = changes.slice(start, start + BATCH);
      await ctx.transaction(async (tx) => {
        const counts = { added: 0, changed: 0, removed: 0, kept: 0 };
        // Comes first, because two syncs of a group serialise on this row.
        await checkIsLatest(tx, group, run);
        for (const userId of batch) counts[await syncMember(tx, group, userId, roles.get(userId) ?? null, 'ldap')]++;
        const { added, changed, removed } = counts;
        const counted = sql`processed = processed + ${batch.length}, added = added + ${added},
          changed = changed + ${changed}, removed = removed + ${removed}`;
        await note(tx, group, run, counted, ldapSyncProgressed);
      });
    }
    const leftOut = unknownProviders.length === 0 ? null : leftOutSentence(unknownProviders);
    await note(ctx, group, run, sql`state = 'finished', finished_at = now(), error = ${leftOut}`, ldapSyncFinished);
  } catch (error) {
    if (error instanceof Superseded) return;
    const known = error instanceof LdapError;
    if (!known && !lastAttempt) throw error;
    ctx.log.warn({ err: error, group_id: groupId }, 'Could not sync the members of a group');
    const reason = known ? error.message : 'The sync failed after several attempts.';
    const failed = sql`state = 'failed', finished_at = now(), error = ${reason}`;
    await note(ctx, group, run, failed, ldapSyncFailed).catch((other: unknown) => {
      if (!(other instanceof Superseded)) throw other;
    });
  }
};

/** Returns the wanted roles, and the users whose membership needs checking. */
const differences = async (ctx: Context, group: GroupRow) => {
  const { roles, unknownProviders } = await rolesInDirectories(ctx, group);
  const members = await ctx.db
    .selectFrom('members')
    .select(['user_id', 'access_level', 'source', 'override'])
    .where('namespace_id', '=', group.id)
    .where('user_id', 'is not', null)
    .where(isUnexpired('members'))
    .execute();
  const present = new Map(members.map((member) => [member.user_id ?? 0, member]));
  const changes: number[] = [];
  // An unconfigured provider may have given any of the current roles, so no role is removed until it is configured
  // again.
  const mayTake = unknownProviders.length === 0;
  for (const [userId, level] of roles) {
    const member = present.get(userId);
    const keepsMore = !mayTake && member?.source === 'ldap' && member.access_level > level;
    if (!keepsMore && !isInLine(member, level, 'ldap')) changes.push(userId);
  }
  if (mayTake) {
    for (const [userId, { source }] of present) if (source === 'ldap' && !roles.has(userId)) changes.push(userId);
  }
  return { roles, changes, unknownProviders };
};

const leftOutSentence = (providers: readonly string[]): string =>
  `Not configured: ${providers.join(', ')}. Their links were skipped, and no role was removed.`;

const checkIsLatest = async (tx: Tx, group: GroupRow, run: number): Promise<void> => {
  const { rows } = await sql`
    select from ldap_syncs where namespace_id = ${group.id} and run = ${run} for update`.execute(tx.db);
  if (rows.length === 0) throw new Superseded();
};

/** Stores the progress and emits an event if one is given. @throws Superseded */
const note = (
  ctx: Context,
  group: GroupRow,
  run: number,
  changes: ReturnType<typeof sql>,
  definition?: EventDefinition<LdapSyncPayload>,
): Promise<void> =>
  ctx.transaction(async (tx) => {
    const { rows } = await sql<SyncRow>`
      update ldap_syncs set ${changes} where namespace_id = ${group.id} and run = ${run} returning *`.execute(tx.db);
    const [row] = rows;
    if (!row) throw new Superseded();
    if (!definition) return;
    const { total, processed, added, changed, removed, error } = row;
    tx.emit(definition, {
      ...ldapScope(group),
      subject: { type: 'Group', id: group.id },
      payload: {
        group: { id: group.id, full_path: group.full_path },
        run,
        total,
        processed,
        added,
        changed,
        removed,
        error,
      },
    });
  });
