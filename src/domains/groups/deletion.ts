import { sql } from 'kysely';
import { refreshAccess } from '#domains/access/commands.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { removeAvatar } from '#domains/users/avatar.ts';
import { dismissProjects } from '#domains/users/leaving-projects.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { describedGroup, groupScope } from './described.ts';
import { type GroupPayload, groupDeleted, groupMarkedForDeletion, groupRestored } from './events.ts';
import { requireGroupAbility } from './policy.ts';
import { type GroupRow, getGroup } from './queries.ts';
import { inheritMarks, lockPlace, lockTree } from './tree.ts';

export interface DeletionOptions {
  /** Removes a group that is marked already, at once. */
  readonly permanentlyRemove?: boolean | undefined;
  /** The group's own path, said again: who removes for good has to mean it. A wrong one is refused in any case. */
  readonly fullPath?: string | undefined;
}

/**
 * Deletes a group with all groups and projects below it. Where the setting `deletion_adjourned_period` gives time it is
 * marked first, can be restored, and goes by itself when the days are over; else its rows go at once. Repositories follow
 * in the background.
 *
 * @throws DomainError `not_found`, `forbidden`, `bad_request` when it is marked already, or is to be removed for good and
 * is not marked or the path is another
 */
export const deleteGroup = async (ctx: Context, id: IdOrPath, options: DeletionOptions = {}): Promise<void> => {
  const found = await getGroup(ctx, id);
  requireGroupAbility(ctx, found, 'remove_group');
  const { deletion_adjourned_period: days } = await getSettings(ctx);
  await ctx.transaction(async (tx) => {
    const group = await lockMark(tx, found);
    const isMarked = group.marked_for_deletion_on !== null;
    if (options.permanentlyRemove && !isMarked) throw badRequest('Group must be marked for deletion first.');
    if ((options.permanentlyRemove || options.fullPath !== undefined) && options.fullPath !== group.full_path) {
      throw badRequest('`full_path` is incorrect. You must enter the complete path for the group.');
    }
    if (options.permanentlyRemove) return removeTree(tx, group);
    if (days === 0) return removeTree(tx, group);
    if (isMarked) throw badRequest('Group has been already marked for deletion');
    await setMark(tx, group, true);
  });
};

/**
 * Takes a mark for deletion back.
 *
 * @throws DomainError `not_found`, `forbidden`, `bad_request` when the group is not marked
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

/** Removes a group at once, whatever the settings say. @throws DomainError `not_found`, `forbidden` */
export const removeGroup = async (ctx: Context, id: IdOrPath): Promise<void> => {
  const group = await getGroup(ctx, id);
  requireGroupAbility(ctx, group, 'remove_group');
  await ctx.transaction(async (tx) => removeTree(tx, await lockMark(tx, group)));
};

/** Removes the groups whose days are over, each in a transaction of its own. For the job. */
export const removeDueGroups = async (ctx: Context): Promise<void> => {
  const { deletion_adjourned_period: days } = await getSettings(ctx);
  const isDue = sql<boolean>`marked_for_deletion_on + ${days}::int <= current_date`;
  const due = await ctx.db.selectFrom('namespaces').select('id').where(isDue).orderBy('id').execute();
  // One that cannot be removed keeps the others waiting no longer than itself.
  const failures: unknown[] = [];
  for (const { id } of due) {
    ctx.signal.throwIfAborted();
    const removal = ctx.transaction(async (tx) => {
      // It may have been restored, or gone with the group above.
      const group = await tx.db
        .selectFrom('namespaces')
        .select(['id', 'parent_id'])
        .where('id', '=', id)
        .where(isDue)
        .forUpdate()
        .executeTakeFirst();
      if (group) await removeTree(tx, group);
    });
    await removal.catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0)
    throw new AggregateError(failures, `${failures.length} groups could not be removed; they are tried again`);
};

/** The group as it is now; nobody else marks, restores or removes it until the end of the transaction. */
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
  const parent = group.parent_id === null ? null : await lockPlace(tx, group.parent_id);
  const after = await getGroup(tx, { id: group.id });
  const payload = { ...describedGroup(after, parent), marked_for_deletion_on: after.marked_for_deletion_on };
  tx.emit(marked ? groupMarkedForDeletion : groupRestored, { ...groupScope(group), payload });
};

const removeTree = async (tx: Tx, found: Pick<GroupRow, 'id' | 'parent_id'>): Promise<void> => {
  const ids = await lockTree(tx, found.id);
  if (ids.length === 0) throw notFound('Group');
  const inTree = sql<boolean>`id = any (${ids}::bigint[])`;
  const groups = await tx.db.selectFrom('namespaces').selectAll().where(inTree).execute();
  const projects = await dismissProjects(tx, ids);
  // Members of the removed groups lose what was shared with these.
  const sharing = await tx.db
    .selectFrom('namespace_shares')
    .select('namespace_id')
    .distinct()
    .where(sql<boolean>`shared_with_id = any (${ids}::bigint[]) and namespace_id <> all (${ids}::bigint[])`)
    .execute();
  const parent = found.parent_id === null ? undefined : await lockPlace(tx, found.parent_id);
  await tx.db.deleteFrom('namespaces').where('id', '=', found.id).execute();
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
  // The innermost first, as if they had been removed one by one.
  for (const group of groups.toSorted((a, b) => b.traversal_ids.length - a.traversal_ids.length)) {
    const own = projectsOf.get(group.id) ?? [];
    tx.emit(groupDeleted, {
      ...groupScope(group),
      payload: { ...describedGroup(group, places.get(group.parent_id) ?? null), projects: own },
    });
  }
};
