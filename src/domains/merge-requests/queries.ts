import { type RawBuilder, type Selectable, sql } from 'kysely';
import { GUEST } from '#domains/access/model.ts';
import { holdersOfProject } from '#domains/access/roles.ts';
import { DANGLING_SOURCES } from '#domains/ci/model.ts';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { mergeRequestIsVisible, noteIsVisible } from '#domains/planning/visibility.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { MergeRequests } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import { conditions, type MergeRequestFilter } from './lists/filter.ts';

export type { MergeRequestFilter } from './lists/filter.ts';

export interface MergeRequestRow extends Selectable<MergeRequests> {
  /** The full path of its target project. */
  readonly project_path: string;
}

/** The facts about a merge request in other tables. */
export interface MergeRequestStats {
  readonly id: number;
  readonly assignee_ids: readonly number[];
  readonly reviewer_ids: readonly number[];
  readonly approver_ids: readonly number[];
  readonly upvotes: number;
  readonly downvotes: number;
  readonly user_notes_count: number;
  readonly total_time_spent: number;
}

type StoredColumn = keyof MergeRequests;
export type MergeRequestColumn = keyof MergeRequestRow;
export const STORED: readonly StoredColumn[] = [
  'id',
  'project_id',
  'source_project_id',
  'iid',
  'title',
  'description',
  'state',
  'source_branch',
  'target_branch',
  'author_id',
  'milestone_id',
  'draft',
  'squash',
  'discussion_locked',
  'allow_collaboration',
  'should_remove_source_branch',
  'force_remove_source_branch',
  'merge_when_pipeline_succeeds',
  'merge_params',
  'merge_after',
  'needs_rebase',
  'branch_missing',
  'rebasing',
  'merge_status',
  'merge_error',
  'merge_user_id',
  'merge_commit_sha',
  'squash_commit_sha',
  'rebase_commit_sha',
  'diff_head_sha',
  'time_estimate',
  'approvals_before_merge',
  'imported',
  'prepared_at',
  'merged_at',
  'closed_at',
  'closed_by_id',
  'updated_by_id',
  'last_edited_at',
  'last_edited_by_id',
  'created_at',
  'updated_at',
];
export const ALL_COLUMNS: readonly MergeRequestColumn[] = [...STORED, 'project_path'];

/**
 * Returns the merge request of the project with this number.
 *
 * @throws DomainError `not_found` if there is none, and as `requireAbility` if merge requests are hidden
 */
export const getMergeRequest = async (ctx: Context, project: ProjectRow, iid: number): Promise<MergeRequestRow> => {
  requireAbility(ctx, project, 'read_merge_request');
  const row = await matching(ctx, { iids: [iid] }, ALL_COLUMNS)
    .where('merge_requests.project_id', '=', project.id)
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

/** Locks the merge request until the transaction ends, and returns its current row. @throws as `getMergeRequest` */
export const lockMergeRequest = async (
  tx: Tx,
  project: ProjectRow,
  { id, iid }: Pick<MergeRequestRow, 'id' | 'iid'>,
): Promise<MergeRequestRow> => {
  await tx.db.selectFrom('merge_requests').select('id').where('id', '=', id).forUpdate().execute();
  return getMergeRequest(tx, project, iid);
};

/** Returns those merge requests that the caller can see, by id. */
export const mergeRequestsByIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<Map<number, MergeRequestRow>> => {
  const rows = await visible(ctx, matching(ctx, {}, ALL_COLUMNS))
    .where(sql<boolean>`merge_requests.id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
};

const PROJECT_ID = sql.ref('mr.project_id');

/** Counts the discussions of these merge requests that the caller can read, by id. Reads all comments. */
export const discussionCountsByMergeRequestIds = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<Map<number, number>> => {
  const { rows } = await sql<{ id: number; count: number }>`
    select n.merge_request_id as id, count(distinct n.discussion_id) as count
    from notes n join merge_requests mr on mr.id = n.merge_request_id
    where mr.id = any (${ids}::bigint[]) and not n.system and ${noteIsVisible(ctx.actor, 'n', PROJECT_ID)} group by 1`.execute(
    ctx.db,
  );
  return new Map(rows.map(({ id, count }) => [id, count]));
};

/** Returns users, votes and time of these merge requests, and how many comments the caller can read. */
export const mergeRequestStatsByIds = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  ids: readonly number[],
): Promise<Map<number, MergeRequestStats>> => {
  const people = (table: string) =>
    sql`array(select held.user_id from ${sql.table(table)} held where held.merge_request_id = mr.id order by held.user_id)`;
  const votes = (name: string) =>
    sql`(select count(*) from award_emoji e where e.merge_request_id = mr.id and e.name = ${sql.lit(name)})`;
  const { rows } = await sql<MergeRequestStats>`
    select mr.id, ${people('merge_request_assignees')} as assignee_ids,
      ${people('merge_request_reviewers')} as reviewer_ids, ${people('merge_request_approvals')} as approver_ids,
      ${votes('thumbsup')} as upvotes, ${votes('thumbsdown')} as downvotes,
      n.user_notes_count,
      (select coalesce(sum(l.time_spent), 0)::bigint from timelogs l where l.merge_request_id = mr.id) as total_time_spent
    from merge_requests mr cross join lateral (
      select count(*) filter (
        where not notes.system and ${noteIsVisible(ctx.actor, 'notes', PROJECT_ID)}) as user_notes_count
      from notes where notes.merge_request_id = mr.id) n
    where mr.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/**
 * Lists the pipelines of a merge request: those created for it, and then those of its branch for its commits. The newest
 * come first.
 *
 * @throws DomainError as `requireAbility` if the caller may not read pipelines
 */
export const listMergeRequestPipelines = (
  ctx: Context,
  project: ProjectRow,
  { id }: Pick<MergeRequestRow, 'id'>,
): List<PipelineRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  return listOf(ctx.db, pipelinesOf(ctx, sql`${id}::bigint`), BY_PIPELINE, 'desc');
};

/** Lists the same for many merge requests. The caller checks `read_pipeline`. */
export const listPipelinesBelowMergeRequests = (ctx: Context): BatchedList<PipelineRow> =>
  batchedListOf(ctx.db, (id) => pipelinesOf(ctx, id), BY_PIPELINE, 'desc');

/**
 * Returns the pipeline that counts for each merge request, by id: the first of its list for its head. Without one, the
 * first of all.
 */
export const headPipelinesByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, PipelineRow>> => {
  const first = pipelinesOf(ctx, sql.ref('opened.id'))
    .orderBy(sql`coalesce(opened.diff_head_sha in (pipelines.sha, pipelines.source_sha), false)`, 'desc')
    .orderBy(OF_MERGE_REQUEST, 'desc')
    .orderBy('pipelines.id', 'desc')
    .limit(1);
  const { rows } = await sql<PipelineRow & { readonly for_id: number }>`
    select opened.id as for_id, first.* from merge_requests opened cross join lateral (${first}) first
    where opened.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.for_id, row]));
};

/** Returns those merge requests whose author had nothing merged in the project before, and holds no role above Guest. */
export const firstContributionsAmong = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlySet<number>> => {
  const { rows } = await sql<{ id: number }>`
    select mr.id from merge_requests mr join projects p on p.id = mr.project_id
    where mr.id = any (${ids}::bigint[]) and mr.author_id is not null
      and not exists (${holdersOfProject('p', { user: sql.ref('mr.author_id'), least: GUEST + 1 })})
      and not exists (
        select from merge_requests other where other.project_id = mr.project_id and other.author_id = mr.author_id
          and other.state = 'merged' and other.id <> mr.id)`.execute(ctx.db);
  return new Set(rows.map(({ id }) => id));
};

/** Counts the commits by which the target branch is ahead of the source; 0 if either is missing in the repository. */
export const countDivergedCommits = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
): Promise<number> => {
  const { git } = ctx.services;
  const find = (branch: string) => git.resolve(project.disk_path, `refs/heads/${branch}`);
  const [target, source] = await Promise.all([
    find(row.target_branch),
    row.source_project_id === project.id ? find(row.source_branch) : null,
  ]);
  if (target === null || source === null) return 0;
  return git.countCommits(project.disk_path, { from: target, not: [source], signal: ctx.signal });
};

/** 1 for pipelines that were created for a merge request. */
const OF_MERGE_REQUEST = sql<number>`(pipelines.merge_request_id is not null)::integer`;
const BY_PIPELINE: readonly SortKey<PipelineRow>[] = [
  { by: OF_MERGE_REQUEST, of: (row) => Number(row.merge_request_id !== null) },
  { by: sql.ref('pipelines.id'), of: (row) => row.id },
];

const pipelinesOf = (ctx: Context, id: RawBuilder<number>) =>
  ctx.db
    .selectFrom('pipelines')
    .selectAll('pipelines')
    .select(sql<string>`(select p.full_path from projects p where p.id = pipelines.project_id)`.as('project_path'))
    .where('pipelines.source', 'not in', [...DANGLING_SOURCES])
    // Pipelines of a fork are only visible in the fork.
    .where(sql<boolean>`pipelines.id in (
      select own.id from pipelines own where own.merge_request_id = ${id}
        and own.project_id = (select mr.project_id from merge_requests mr where mr.id = ${id})
      union
      select branch.id from merge_requests mr join pipelines branch on branch.project_id = mr.project_id
        and mr.source_project_id = mr.project_id and branch.ref = mr.source_branch and not branch.tag
      where mr.id = ${id} and (branch.sha = mr.diff_head_sha or branch.sha in (
        select c.sha from merge_request_diffs d join merge_request_diff_commits c on c.diff_id = d.id
        where d.merge_request_id = mr.id)))`);

export const PROJECT_PATH = sql<string>`(select p.full_path from projects p where p.id = merge_requests.project_id)`;

/** Selects these columns of the merge requests that match, without access rights. */
export const matching = (ctx: Context, filter: MergeRequestFilter, columns: readonly MergeRequestColumn[]) => {
  let query = ctx.db
    .selectFrom('merge_requests')
    .select(STORED.filter((column) => columns.includes(column)).map((column) => `merge_requests.${column}` as const))
    .select((columns.includes('project_path') ? PROJECT_PATH : sql<string>`''`).as('project_path'));
  for (const condition of conditions(ctx.actor, filter)) query = query.where(condition);
  return query;
};

/** Adds that the caller can see them. */
export const visible = (ctx: Context, query: ReturnType<typeof matching>) =>
  query.innerJoin('projects', 'projects.id', 'merge_requests.project_id').where(mergeRequestIsVisible(ctx.actor));
