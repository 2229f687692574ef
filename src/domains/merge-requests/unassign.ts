import { type RawBuilder, type Selectable, sql } from 'kysely';
import { type Changes, differences } from '#domains/planning/changes.ts';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import { systemActor, type Tx } from '#platform/context.ts';
import type { MergeRequests } from '#platform/db/tables.ts';
import { mergeRequestUpdated } from './events.ts';
import { mergeRequestStatsByIds, mergeRequestsByIds } from './queries.ts';
import { emitSnapshot, snapshotsOf } from './snapshot.ts';

/** How many merge requests are read and written at once. */
const AT_ONCE = 500;

type Row = Pick<Selectable<MergeRequests>, 'id' | 'updated_at' | 'updated_by_id'>;

/**
 * Removes the user from the assignees and reviewers of all merge requests in the projects, which SQL selects by id.
 * Emits an event for each merge request. The caller checks access; they need not see the merge requests.
 */
export const unassignFromMergeRequests = async (
  tx: Tx,
  userId: number,
  projects: RawBuilder<unknown>,
): Promise<void> => {
  for (;;) {
    const { rows } = await sql<Row>`
      select r.id, r.updated_at, r.updated_by_id from merge_requests r
      where r.id in (
          select a.merge_request_id from merge_request_assignees a where a.user_id = ${userId}
          union all
          select v.merge_request_id from merge_request_reviewers v where v.user_id = ${userId})
        and r.project_id in (${projects})
      order by r.id limit ${sql.lit(AT_ONCE)} for update of r`.execute(tx.db);
    if (rows.length > 0) await unassign(tx, userId, rows);
    if (rows.length < AT_ONCE) return;
  }
};

const unassign = async (tx: Tx, userId: number, before: readonly Row[]): Promise<void> => {
  const ids = before.map(({ id }) => id);
  const stats = await mergeRequestStatsByIds(tx, ids);
  const theirs = sql`user_id = ${userId} and merge_request_id = any (${ids}::bigint[])`;
  await sql`delete from merge_request_assignees where ${theirs}`.execute(tx.db);
  await sql`delete from merge_request_reviewers where ${theirs}`.execute(tx.db);
  await sql`
    update merge_requests r set updated_at = now(), updated_by_id = ${tx.actor.userId}
    where r.id = any (${ids}::bigint[])`.execute(tx.db);
  const asHub = tx.as(systemActor);
  const rows = await mergeRequestsByIds(asHub, ids);
  const projects = await projectsByIds(
    asHub,
    [...new Set([...rows.values()].map(({ project_id }) => project_id))],
    ROW,
  );
  const placed = [...rows.values()].flatMap((row) => {
    const project = projects.get(row.project_id);
    return project ? [{ row, project }] : [];
  });
  const snapshots = new Map((await snapshotsOf(asHub, placed)).map((snapshot) => [snapshot.id, snapshot]));
  const people = await userSummariesByIds(
    tx,
    [...stats.values()].flatMap((each) => [...each.assignee_ids, ...each.reviewer_ids]),
  );
  const shown = (userIds: readonly number[]) =>
    userIds.flatMap((id) => {
      const person = people.get(id);
      return person ? [hookUser(tx, person)] : [];
    });
  for (const { id, updated_at, updated_by_id } of before) {
    const [row, people, snapshot] = [rows.get(id), stats.get(id), snapshots.get(id)];
    const project = row && projects.get(row.project_id);
    if (!row || !people || !project || !snapshot) continue;
    const changes: Changes = differences(
      { updated_at, updated_by_id },
      { updated_at: row.updated_at, updated_by_id: row.updated_by_id },
    );
    const without = (name: 'assignees' | 'reviewers', previous: readonly number[]): void => {
      const current = previous.filter((each) => each !== userId);
      if (current.length < previous.length) changes[name] = { previous: shown(previous), current: shown(current) };
    };
    without('assignees', people.assignee_ids);
    without('reviewers', people.reviewer_ids);
    emitSnapshot(tx, mergeRequestUpdated, project, snapshot, changes);
  }
};
