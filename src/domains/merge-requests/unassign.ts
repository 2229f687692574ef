import { type RawBuilder, type Selectable, sql } from 'kysely';
import { PRIVATE, REPORTER } from '#domains/access/model.ts';
import { type Changes, differences } from '#domains/planning/changes.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import { systemActor, type Tx } from '#platform/context.ts';
import type { MergeRequests } from '#platform/db/tables.ts';
import { mergeRequestUpdated } from './events.ts';
import { mergeRequestStatsByIds } from './queries.ts';

/** How many merge requests are read and written at once. */
const AT_ONCE = 500;

type Row = Pick<
  Selectable<MergeRequests>,
  'id' | 'iid' | 'project_id' | 'title' | 'state' | 'author_id' | 'updated_at' | 'updated_by_id'
>;
const COLUMNS = sql`r.id, r.iid, r.project_id, r.title, r.state, r.author_id, r.updated_at, r.updated_by_id`;

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
      select ${COLUMNS} from merge_requests r
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
  const { rows: changed } = await sql<Row>`
    update merge_requests r set updated_at = now(), updated_by_id = ${tx.actor.userId}
    where r.id = any (${ids}::bigint[]) returning ${COLUMNS}`.execute(tx.db);
  const after = new Map(changed.map((row) => [row.id, row]));
  const people = await userSummariesByIds(tx, [
    ...new Set([...stats.values()].flatMap((each) => [...each.assignee_ids, ...each.reviewer_ids])),
  ]);
  const told = (userIds: readonly number[]) =>
    userIds.flatMap((id) => {
      const person = people.get(id);
      return person ? [hookUser(tx, person)] : [];
    });
  const projectIds = [...new Set(before.map(({ project_id }) => project_id))];
  const projects = await projectsByIds({ ...tx, actor: systemActor }, projectIds, ROW);
  for (const { id, iid, project_id, title, state, author_id, updated_at, updated_by_id } of before) {
    const [row, people, project] = [after.get(id), stats.get(id), projects.get(project_id)];
    if (!row || !people || !project) continue;
    const changes: Changes = differences(
      { updated_at, updated_by_id },
      { updated_at: row.updated_at, updated_by_id: row.updated_by_id },
    );
    const without = (name: 'assignees' | 'reviewers', previous: readonly number[]): number[] => {
      const current = previous.filter((each) => each !== userId);
      if (current.length < previous.length) changes[name] = { previous: told(previous), current: told(current) };
      return current;
    };
    const assignee_ids = without('assignees', people.assignee_ids);
    const reviewer_ids = without('reviewers', people.reviewer_ids);
    tx.emit(mergeRequestUpdated, {
      ...projectScope(project),
      min_access_level: audienceOf(project),
      subject: { type: 'MergeRequest', id },
      payload: { merge_request: { id, iid, project_id, title, state, author_id, assignee_ids, reviewer_ids }, changes },
    });
  }
};

/** Returns the lowest role that sees merge requests; null if everyone who can see the project does. */
const audienceOf = (project: ProjectRow): number | null => {
  if (project.visibility_level === PRIVATE) return REPORTER;
  const { merge_requests_access_level, repository_access_level } = project;
  return merge_requests_access_level === 'enabled' && repository_access_level === 'enabled' ? null : REPORTER;
};
