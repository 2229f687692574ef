import { type Selectable, sql } from 'kysely';
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

/** So many memberships change in one transaction, which holds the group's row. */
const BATCH = 50;

/** Another sync of the group has begun. */
class Superseded extends Error {}

/**
 * Brings the members of a group in line with what the directories say now. It reads the directories anew whenever it
 * runs, and changes only what differs: one that died is simply run again. Where a directory cannot be asked nothing
 * changes, and the sync has failed.
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
        // First: the row is what two syncs of one group meet on.
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
    ctx.log.warn({ err: error, group_id: groupId }, 'the members of a group could not be synced');
    const reason = known ? error.message : 'The sync was given up after several attempts.';
    const failed = sql`state = 'failed', finished_at = now(), error = ${reason}`;
    await note(ctx, group, run, failed, ldapSyncFailed).catch((other: unknown) => {
      if (!(other instanceof Superseded)) throw other;
    });
  }
};

/** The roles that people are to have, and whose membership has to be looked at. */
const differences = async (ctx: Context, group: GroupRow) => {
  const { roles, unknownProviders } = await rolesInDirectories(ctx, group);
  const members = await ctx.db
    .selectFrom('members')
    .select(['user_id', 'access_level', 'source', 'override'])
    .where('namespace_id', '=', group.id)
    .where('user_id', 'is not', null)
    .where(sql<boolean>`(expires_at is null or expires_at > current_date)`)
    .execute();
  const present = new Map(members.map((member) => [member.user_id ?? 0, member]));
  const changes: number[] = [];
  // A directory that is missing may have given any of the present roles: nobody loses one before it can be asked.
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
  `Not configured: ${providers.join(', ')}. Links to it were left out, and nobody's role was taken.`;

const checkIsLatest = async (tx: Tx, group: GroupRow, run: number): Promise<void> => {
  const { rows } = await sql`
    select from ldap_syncs where namespace_id = ${group.id} and run = ${run} for update`.execute(tx.db);
  if (rows.length === 0) throw new Superseded();
};

/** Writes down how far it is and tells it. @throws Superseded */
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
