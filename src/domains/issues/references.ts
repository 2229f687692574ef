import { sql } from 'kysely';
import type { Reference } from '#domains/planning/closing-references.ts';
import { isNumbered, type Numbered } from '#domains/planning/numbers.ts';
import { issueIsVisible, mergeRequestIsVisible } from '#domains/planning/visibility.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { IssueRow } from './model.ts';

/** An issue that a text refers to. */
export interface ReferencedIssue {
  readonly issue: IssueRow;
  /** The full path of its project. */
  readonly project_path: string;
  /** The text closes it, and its project lets texts close issues (`autoclose_referenced_issues`). */
  readonly closes: boolean;
}

/**
 * Returns those issues that the caller can see, in the order of the references. Paths are case-insensitive.
 *
 * @param home The project of the text
 */
export const referencedIssues = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  home: Pick<ProjectRow, 'full_path'>,
  references: readonly Reference[],
): Promise<ReferencedIssue[]> => {
  const wanted = references.filter(({ kind }) => kind === 'issue');
  if (wanted.length === 0) return [];
  const pathOf = ({ project }: Reference) => (project ?? home.full_path).toLowerCase();
  const rows = await ctx.db
    .selectFrom('issues')
    .innerJoin('projects', 'projects.id', 'issues.project_id')
    .selectAll('issues')
    .select(['projects.full_path as project_path', 'projects.autoclose_referenced_issues as may_close'])
    .where(
      sql<boolean>`(lower(projects.full_path), issues.iid) in (
        select * from unnest(${wanted.map(pathOf)}::text[], ${wanted.map(({ iid }) => iid)}::bigint[]))`,
    )
    .where(issueIsVisible(ctx.actor))
    .execute();
  const found = new Map(rows.map((row) => [`${row.project_path.toLowerCase()}#${row.iid}`, row]));
  const byId = new Map<number, ReferencedIssue>();
  for (const reference of wanted) {
    const row = found.get(`${pathOf(reference)}#${reference.iid}`);
    if (!row) continue;
    const { project_path, may_close, ...issue } = row;
    const closes = (reference.closes && may_close) || byId.get(issue.id)?.closes === true;
    byId.set(issue.id, { issue, project_path, closes });
  }
  return [...byId.values()];
};

/** Returns the issues with these numbers in these projects that the caller can see. */
export const issuesByNumbers = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  wanted: readonly Numbered[],
): Promise<Pick<IssueRow, 'id' | 'project_id' | 'iid' | 'title' | 'issue_type'>[]> => {
  if (wanted.length === 0) return [];
  return ctx.db
    .selectFrom('issues')
    .innerJoin('projects', 'projects.id', 'issues.project_id')
    .select(['issues.id', 'issues.project_id', 'issues.iid', 'issues.title', 'issues.issue_type'])
    .where(isNumbered('issues', wanted))
    .where(issueIsVisible(ctx.actor))
    .execute();
};

/** Counts the merge requests that the caller can see and that close the issue when they are merged, by issue. */
export const closingMergeRequestCounts = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<Map<number, number>> => {
  const { rows } = await sql<{ id: number; count: number }>`
    select c.to_issue_id as id, count(*)::int as count
    from cross_references c join merge_requests on merge_requests.id = c.from_merge_request_id
      join projects on projects.id = merge_requests.project_id
    where c.to_issue_id = any (${ids}::bigint[]) and c.closes and ${mergeRequestIsVisible(ctx.actor)}
    group by 1`.execute(ctx.db);
  return new Map(rows.map(({ id, count }) => [id, count]));
};
