import { type RawBuilder, sql } from 'kysely';
import { differences } from '#domains/planning/changes.ts';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import { systemActor, type Tx } from '#platform/context.ts';
import { issueReaders } from './assignment.ts';
import { issueUpdated } from './events.ts';
import type { IssueRow } from './model.ts';
import { issueEffortsByIds } from './queries.ts';
import { audienceOf, concernedBy, snapshotsOf } from './snapshot.ts';

/** How many issues are read and written at once. */
const AT_ONCE = 500;

/**
 * Removes the user from the assignees of all issues in the projects, which SQL selects by id. Emits the events that a
 * change of the assignees by hand emits. The caller checks access; they need not see the issues.
 */
export const unassignFromIssues = async (tx: Tx, userId: number, projects: RawBuilder<unknown>): Promise<void> => {
  for (;;) {
    const { rows } = await sql<IssueRow>`
      select i.* from issue_assignees a join issues i on i.id = a.issue_id
      where a.user_id = ${userId} and i.project_id in (${projects})
      order by i.id limit ${sql.lit(AT_ONCE)} for update of i`.execute(tx.db);
    if (rows.length > 0) await unassign(tx, userId, rows);
    if (rows.length < AT_ONCE) return;
  }
};

const unassign = async (tx: Tx, userId: number, before: readonly IssueRow[]): Promise<void> => {
  const ids = before.map(({ id }) => id);
  const assignees = new Map([...(await issueEffortsByIds(tx, ids))].map(([id, each]) => [id, each.assignee_ids]));
  await sql`delete from issue_assignees where user_id = ${userId} and issue_id = any (${ids}::bigint[])`.execute(tx.db);
  const changed = await tx.db
    .updateTable('issues')
    .set({ updated_at: sql`now()`, updated_by_id: tx.actor.userId })
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .returningAll()
    .execute();
  const after = new Map(changed.map((row) => [row.id, row]));
  const snapshots = await snapshotsOf(tx, changed);
  const people = await userSummariesByIds(tx, [...assignees.values()].flat());
  const peopleOf = (userIds: readonly number[]) =>
    userIds.flatMap((id) => {
      const person = people.get(id);
      return person ? [hookUser(tx, person)] : [];
    });
  const projectIds = [...new Set(before.map(({ project_id }) => project_id))];
  const projects = await projectsByIds(tx.as(systemActor), projectIds, ROW);
  const concerned = Map.groupBy(
    [...snapshots.values()].filter(({ confidential }) => confidential),
    ({ project_id }) => project_id,
  );
  const readers = await issueReaders(
    tx,
    [...concerned].flatMap(([id, issues]) => {
      const project = projects.get(id);
      return project ? [{ project, userIds: [...new Set(issues.flatMap(concernedBy))] }] : [];
    }),
  );
  for (const { id, project_id, updated_at, updated_by_id } of before) {
    const [row, issue, project] = [after.get(id), snapshots.get(id), projects.get(project_id)];
    if (!row || !issue || !project) continue;
    const changes = differences(
      { updated_at, updated_by_id },
      { updated_at: row.updated_at, updated_by_id: row.updated_by_id },
    );
    changes.assignees = { previous: peopleOf(assignees.get(id) ?? []), current: peopleOf(issue.assignee_ids) };
    tx.emit(issueUpdated, {
      ...audienceOf(project, issue, readers.get(project_id) ?? new Set()),
      subject: { type: 'Issue', id },
      payload: { issue, changes },
    });
  }
};
