import { type RawBuilder, sql } from 'kysely';
import type { GroupRow } from '#domains/groups/queries.ts';
import { isOwnScope } from '#domains/planning/list-filter.ts';
import { issueIsVisible, issueIsVisibleIn } from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { chained } from '#platform/db/chained-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound, unauthenticated } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import { type IssueFilter, withFilter } from './filter.ts';
import type { IssueDetails, IssueRow } from './model.ts';

/** The scope of a list: one project, everything below a group, or everything that the caller can see. */
export type IssueScope =
  | { readonly project: ProjectRow }
  | { readonly group: Pick<GroupRow, 'id'>; readonly direct?: boolean | undefined }
  | 'everywhere';

/**
 * Lists the issues in the scope that the caller can see, newest first by default.
 *
 * @throws DomainError as `requireAbility` if the caller may not read issues of the project; `unauthenticated` for
 *   anonymous callers who ask for their own issues
 */
export const listIssues = (ctx: Context, scope: IssueScope, filter: IssueFilter = {}): List<IssueRow> => {
  if (scope === 'everywhere') {
    if (isOwnScope(filter.scope) && ctx.actor.userId === null) throw unauthenticated();
  } else if ('project' in scope) requireAbility(ctx, scope.project, 'read_issue');
  const direction = filter.sort ?? 'desc';
  const query = withFilter(ctx, issuesIn(ctx, scope), filter);
  const whole = listOf(ctx.db, query, sortKeys(filter), direction);
  const order = filter.order_by;
  if (order !== 'due_date' && order !== 'weight' && order !== 'relative_position') return whole;
  const value = { by: sql.ref(`issues.${order}`), of: (row: IssueRow) => row[order] };
  const first = listOf(ctx.db, query.where(`issues.${order}`, 'is not', null), [value, byId], direction);
  const second = listOf(ctx.db, query.where(`issues.${order}`, 'is', null), [byId], direction);
  const last = lastOf(order, direction);
  return chained({ first, second, whole }, (cursor) => String(cursor[0]) === String(last));
};

/** Lists the issues of many projects or groups at once. */
export const listIssuesBelow = (
  ctx: Context,
  kind: 'project' | 'group' | 'group_alone',
  filter: IssueFilter,
): BatchedList<IssueRow> =>
  batchedListOf(
    ctx.db,
    (parentId) => withFilter(ctx, issueQuery(ctx).where(isBelow(ctx, kind, parentId)), filter),
    sortKeys(filter),
    filter.sort ?? 'desc',
  );

const findIssue = async (ctx: Context, project: ProjectRow, iid: number): Promise<IssueRow | null> => {
  if (!can(ctx, project, 'read_issue')) return null;
  const row = await issuesIn(ctx, { project }).where('issues.iid', '=', iid).executeTakeFirst();
  return row ?? null;
};

/** @throws DomainError `not_found`, also if the issue is confidential and hidden from the caller */
export const getIssue = async (ctx: Context, project: ProjectRow, iid: number): Promise<IssueRow> => {
  requireAbility(ctx, project, 'read_issue');
  const issue = await findIssue(ctx, project, iid);
  if (!issue) throw notFound('Issue');
  return issue;
};

/** Returns those issues that the caller can see, by id. */
export const issuesByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, IssueRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await issuesIn(ctx, 'everywhere').where(sql<boolean>`issues.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns what other tables store about the issues, by id. The caller checks access. */
export const issueDetailsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, IssueDetails>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<IssueDetails>`
    select i.id,
      array(select a.user_id from issue_assignees a where a.issue_id = i.id order by a.user_id) as assignee_ids,
      (select coalesce(sum(t.time_spent), 0) from timelogs t where t.issue_id = i.id)::int as total_time_spent,
      n.open_notes_count, n.internal_notes_count, n.open_discussions_count, n.internal_discussions_count,
      e.upvotes, e.downvotes
    from issues i
    cross join lateral (
      select count(*) filter (where not n.confidential) as open_notes_count,
        count(*) filter (where n.confidential) as internal_notes_count,
        count(distinct n.discussion_id) filter (where not n.confidential) as open_discussions_count,
        count(distinct n.discussion_id) filter (where n.confidential) as internal_discussions_count
      from notes n where n.issue_id = i.id and not n.system) n
    cross join lateral (
      select count(*) filter (where e.name = 'thumbsup') as upvotes, count(*) filter (where e.name = 'thumbsdown') as downvotes
      from award_emoji e where e.issue_id = i.id) e
    where i.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

export interface IssueCounts {
  readonly id: number;
  readonly opened: number;
  readonly closed: number;
}

/** Counts the issues of the projects by state, if the caller can see them. */
export const issueCountsByProjectIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<Map<number, IssueCounts>> => {
  const { rows } = await sql<IssueCounts>`
    select projects.id, count(*) filter (where issues.state = 'opened') as opened,
      count(*) filter (where issues.state = 'closed') as closed
    from projects join issues on issues.project_id = projects.id
    where projects.id = any (${ids}::bigint[]) and ${issueIsVisible(ctx.actor)}
    group by projects.id`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

const issueQuery = (ctx: Pick<Context, 'db'>) => ctx.db.selectFrom('issues').selectAll('issues');

const issuesIn = (ctx: Context, scope: IssueScope) => {
  if (scope === 'everywhere') return issueQuery(ctx).where(ofProjects(ctx, sql<boolean>`true`));
  if ('project' in scope) {
    const { project } = scope;
    return issueQuery(ctx).where('issues.project_id', '=', project.id).where(issueIsVisibleIn(ctx, project));
  }
  return issueQuery(ctx).where(isBelow(ctx, scope.direct ? 'group_alone' : 'group', sql`${scope.group.id}::bigint`));
};

const isBelow = (
  ctx: Context,
  kind: 'project' | 'group' | 'group_alone',
  parentId: RawBuilder<number>,
): RawBuilder<boolean> => {
  if (kind === 'project') {
    return sql<boolean>`(issues.project_id = ${parentId} and ${ofProjects(ctx, sql<boolean>`true`)})`;
  }
  if (kind === 'group_alone') return ofProjects(ctx, sql<boolean>`projects.namespace_id = ${parentId}`);
  return ofProjects(
    ctx,
    sql<boolean>`projects.namespace_id in (select n.id from namespaces n where n.traversal_ids @> array[${parentId}])`,
  );
};

/** Requires a visible project that meets the condition. */
const ofProjects = (ctx: Context, condition: RawBuilder<boolean>): RawBuilder<boolean> => sql<boolean>`exists (
  select 1 from projects where projects.id = issues.project_id and ${condition} and ${issueIsVisible(ctx.actor)})`;

const byId: SortKey<IssueRow> = { by: sql.ref('issues.id'), of: (row) => row.id };

/** Stands for a missing value, which comes last in both directions. */
const lastOf = (order: 'due_date' | 'weight' | 'relative_position', direction: SortDirection): string | number => {
  if (order === 'due_date') return direction === 'asc' ? 'infinity' : '-infinity';
  return direction === 'asc' ? 2_147_483_647 : -2_147_483_648;
};

const sortKeys = (filter: IssueFilter): SortKey<IssueRow>[] => {
  const order = filter.order_by ?? 'created_at';
  if (order === 'created_at' || order === 'updated_at' || order === 'title') {
    return [{ by: sql.ref(`issues.${order}`), of: (row) => row[order] }, byId];
  }
  const last = lastOf(order, filter.sort ?? 'desc');
  const type = sql.raw(order === 'due_date' ? 'date' : 'integer');
  return [
    { by: sql`coalesce(${sql.ref(`issues.${order}`)}, (${sql.lit(last)})::${type})`, of: (row) => row[order] ?? last },
    byId,
  ];
};
