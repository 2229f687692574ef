import { sql } from 'kysely';
import { refreshAccess } from '#domains/access/commands.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { unsetRecords } from '#domains/settings/removed-records.ts';
import { removeAvatar } from '#domains/users/avatar.ts';
import { beforeProjectsAreDeleted } from '#domains/users/removal.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, notFound, requireUnchanged } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { type GroupPayload, groupDeleted, groupMarkedForDeletion, groupRestored } from './events.ts';
import { groupPayload, groupScope } from './payload.ts';
import { requireGroupAbility } from './policy.ts';
import { type GroupRow, getGroup } from './queries.ts';
import { inheritMarks, lockNamespace, lockTree } from './tree.ts';

export interface DeletionOptions {
  /** Removes a group at once that is already marked for deletion. */
  readonly permanentlyRemove?: boolean | undefined;
  /** The group's own path, as confirmation of a permanent removal. A wrong path is always refused. */
  readonly fullPath?: string | undefined;
  /** Keeps a group that has changed after this time. */
  readonly unchangedSince?: Date | null | undefined;
}

/**
 * Deletes a group with all groups and projects below it. If the setting `deletion_adjourned_period` gives a delay, the
 * group is marked first: it can be restored, and is removed when the delay has passed. Otherwise its rows are deleted
 * at once. Repositories are removed in the background.
 *
 * @throws DomainError `not_found`; `forbidden`; `bad_request` if it is already marked, or if a permanent removal is
 *   requested and the group is not marked or the path does not match; `modified`
 */
export const deleteGroup = async (ctx: Context, id: IdOrPath, options: DeletionOptions = {}): Promise<void> => {
  const found = await getGroup(ctx, id);
  requireGroupAbility(ctx, found, 'remove_group');
  const { deletion_adjourned_period: days } = await getSettings(ctx);
  await ctx.transaction(async (tx) => {
    const group = await lockMark(tx, found);
    requireUnchanged(group, options.unchangedSince);
    const isMarked = group.marked_for_deletion_on !== null;
    if (options.permanentlyRemove && !isMarked) throw badRequest('Group must be marked for deletion first.');
    if ((options.permanentlyRemove || options.fullPath !== undefined) && options.fullPath !== group.full_path) {
      throw badRequest('`full_path` is incorrect. You must enter the complete path for the group.');
    }
    if (options.permanentlyRemove) return removeTree(tx, group.id);
    if (days === 0) return removeTree(tx, group.id);
    if (isMarked) throw badRequest('Group has been already marked for deletion');
    await setMark(tx, group, true);
  });
};

/**
 * Removes the deletion mark.
 *
 * @throws DomainError `not_found`, `forbidden`, `bad_request` if the group is not marked
 */
export const restoreGroup = async (ctx: Context, id: IdOrPath): Promise<GroupRow> => {
  const found = await getGroup(ctx, id);
  requireGroupAbility(ctx, found, 'remove_group');
  return ctx.transaction(async (tx) => {
    const group = await lockMark(tx, found);
    if (group.marked_for_deletion_on === null) throw badRequest('Group has not been marked for deletion');
    await setMark(tx, group, false);
    return getGroup(tx, { id: group.id });
  });
};

/**
 * Removes a group at once, regardless of the settings. The caller of this function decides that the group goes.
 *
 * @throws DomainError `not_found`
 */
export const removeGroup = (ctx: Context, id: number): Promise<void> => ctx.transaction((tx) => removeTree(tx, id));

/** Removes the groups whose delay has passed, each in its own transaction. For the job. */
export const removeDueGroups = async (ctx: Context): Promise<void> => {
  const { deletion_adjourned_period: days } = await getSettings(ctx);
  const isDue = sql<boolean>`marked_for_deletion_on + ${days}::int <= current_date`;
  const due = await ctx.db.selectFrom('namespaces').select('id').where(isDue).orderBy('id').execute();
  // One failing group must not block the others.
  const failures: unknown[] = [];
  for (const { id } of due) {
    ctx.signal.throwIfAborted();
    const removal = ctx.transaction(async (tx) => {
      // It may have been restored, or deleted with a group above it.
      const group = await tx.db
        .selectFrom('namespaces')
        .select('id')
        .where('id', '=', id)
        .where(isDue)
        .forUpdate()
        .executeTakeFirst();
      if (group) await removeTree(tx, group.id);
    });
    await removal.catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0)
    throw new AggregateError(failures, `${failures.length} groups could not be removed; they will be retried`);
};

/**
 * Locks the group against other marks, restores and removals until the transaction ends, and returns its current row.
 */
const lockMark = async (tx: Tx, { id }: GroupRow): Promise<GroupRow> => {
  await tx.db.selectFrom('namespaces').select('id').where('id', '=', id).forUpdate().execute();
  const group = await getGroup(tx, { id });
  requireGroupAbility(tx, group, 'remove_group');
  return group;
};

const setMark = async (tx: Tx, group: GroupRow, marked: boolean): Promise<void> => {
  await lockTree(tx, group.id);
  await tx.db
    .updateTable('namespaces')
    .set({
      marked_for_deletion_on: marked ? sql`current_date` : null,
      marked_for_deletion_by_id: marked ? tx.actor.userId : null,
      updated_at: sql`now()`,
    })
    .where('id', '=', group.id)
    .execute();
  await inheritMarks(tx, group.id);
  const parent = group.parent_id === null ? null : await lockNamespace(tx, group.parent_id);
  const after = await getGroup(tx, { id: group.id });
  const payload = { ...groupPayload(after, parent), marked_for_deletion_on: after.marked_for_deletion_on };
  tx.emit(marked ? groupMarkedForDeletion : groupRestored, { ...groupScope(group), payload });
};

const removeTree = async (tx: Tx, id: number): Promise<void> => {
  const ids = await lockTree(tx, id);
  const inTree = sql<boolean>`id = any (${ids}::bigint[])`;
  const groups = await tx.db.selectFrom('namespaces').selectAll().where(inTree).execute();
  const removed = groups.find((group) => group.id === id);
  if (!removed) throw notFound('Group');
  const projects = await beforeProjectsAreDeleted(tx, ids);
  await unsetRecords(tx, 'group', ids);
  // Members of the removed groups lose access to everything that was shared with these groups.
  const sharing = await tx.db
    .selectFrom('namespace_shares')
    .select('namespace_id')
    .distinct()
    .where(sql<boolean>`shared_with_id = any (${ids}::bigint[]) and namespace_id <> all (${ids}::bigint[])`)
    .execute();
  const parent = removed.parent_id === null ? undefined : await lockNamespace(tx, removed.parent_id);
  await tx.db.deleteFrom('namespaces').where('id', '=', id).execute();
  for (const { avatar_key } of groups) removeAvatar(tx, avatar_key);
  if (sharing.length > 0) {
    await refreshAccess(
      tx,
      sharing.map((row) => row.namespace_id),
    );
  }
  const places = new Map<number | null, NonNullable<GroupPayload['parent']>>(groups.map((group) => [group.id, group]));
  if (parent) places.set(parent.id, parent);
  const projectsOf = Map.groupBy(projects, (project) => project.namespace_id);
  // Innermost first, as if they were removed one by one.
  for (const group of groups.toSorted((a, b) => b.traversal_ids.length - a.traversal_ids.length)) {
    const own = projectsOf.get(group.id) ?? [];
    tx.emit(groupDeleted, {
      ...groupScope(group),
      payload: { ...groupPayload(group, places.get(group.parent_id) ?? null), projects: own },
    });
  }
};
