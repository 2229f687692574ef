import { sql } from 'kysely';
import { issueIsVisible, issueIsVisibleIn } from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import type { DiscussionCounts, IssueDetails, IssueEffort, IssueRow } from './model.ts';

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

const EFFORT = sql`
  array(select a.user_id from issue_assignees a where a.issue_id = i.id order by a.user_id) as assignee_ids,
  (select coalesce(sum(t.time_spent), 0) from timelogs t where t.issue_id = i.id)::int as total_time_spent`;

/** Returns who works on the issues and for how long, by id. The caller checks access. */
export const issueEffortsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, IssueEffort>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<IssueEffort>`
    select i.id, ${EFFORT} from issues i where i.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns what other tables store about the issues, by id. The caller checks access. */
export const issueDetailsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, IssueDetails>> => {
  if (ids.length === 0) return new Map();
  const { rows } = await sql<IssueDetails>`
    select i.id, ${EFFORT}, n.open_notes_count, n.internal_notes_count, e.upvotes, e.downvotes
    from issues i
    cross join lateral (
      select count(*) filter (where not n.confidential) as open_notes_count,
        count(*) filter (where n.confidential) as internal_notes_count
      from notes n where n.issue_id = i.id and not n.system) n
    cross join lateral (
      select count(*) filter (where e.name = 'thumbsup') as upvotes, count(*) filter (where e.name = 'thumbsdown') as downvotes
      from award_emoji e where e.issue_id = i.id) e
    where i.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Counts the discussions of the issues, by id. Reads all comments, unlike the counts of comments. */
export const discussionCountsByIssueIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, DiscussionCounts>> => {
  const { rows } = await sql<DiscussionCounts>`
    select n.issue_id as id, count(distinct n.discussion_id) filter (where not n.confidential) as open,
      count(distinct n.discussion_id) filter (where n.confidential) as internal
    from notes n where n.issue_id = any (${ids}::bigint[]) and not n.system group by n.issue_id`.execute(ctx.db);
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

const issuesIn = (ctx: Context, scope: { readonly project: ProjectRow } | 'everywhere') => {
  const issues = ctx.db.selectFrom('issues').selectAll('issues');
  if (scope !== 'everywhere')
    return issues.where('issues.project_id', '=', scope.project.id).where(issueIsVisibleIn(ctx, scope.project));
  return issues.where(sql<boolean>`exists (
    select 1 from projects where projects.id = issues.project_id and ${issueIsVisible(ctx.actor)})`);
};
