import { getGroup } from '#domains/groups/queries.ts';
import { getProject } from '#domains/projects/queries.ts';
import { systemActor, type Tx } from '#platform/context.ts';
import { memberRemoved } from './events.ts';
import { eventOf } from './joining.ts';
import { groupSource, projectSource } from './model.ts';

/**
 * Removes all memberships of a user whose account is about to be deleted, with an event for each. The account takes its
 * access along.
 */
export const endMemberships = async (tx: Tx, userId: number): Promise<void> => {
  const rows = await tx.db.deleteFrom('members').where('user_id', '=', userId).returningAll().execute();
  // Whoever deletes the account may not see all of these.
  const hub = tx.as(systemActor);
  for (const row of rows.toSorted((a, b) => a.id - b.id)) {
    const source =
      row.namespace_id === null
        ? projectSource(await getProject(hub, { id: row.project_id ?? 0 }))
        : groupSource(await getGroup(hub, { id: row.namespace_id }));
    tx.emit(memberRemoved, await eventOf(hub, source, row));
  }
};
