import { type RawBuilder, type Selectable, sql } from 'kysely';
import { GUEST } from '#domains/access/model.ts';
import { holdersOfProject } from '#domains/access/roles.ts';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { mergeRequestIsVisible } from '#domains/planning/visibility.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { compare } from '#domains/repositories/compare.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type {
  MergeRequestDiffCommits,
  MergeRequestDiffFiles,
  MergeRequestDiffs,
  MergeRequests,
} from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { Diff } from '#platform/git/reading.ts';
import { conditions, type MergeRequestFilter, sortKeys } from './filter.ts';

export type { MergeRequestFilter } from './filter.ts';

export interface MergeRequestRow extends Selectable<MergeRequests> {
  /** The full path of its target project. */
  readonly project_path: string;
}

/** What other tables store about a merge request. */
export interface MergeRequestStats {
  readonly id: number;
  readonly assignee_ids: readonly number[];
  readonly reviewer_ids: readonly number[];
  readonly approver_ids: readonly number[];
  readonly upvotes: number;
  readonly downvotes: number;
  readonly user_notes_count: number;
  readonly user_discussions_count: number;
  readonly unresolved_discussions: number;
  readonly total_time_spent: number;
  /** The newest version has no commits, or its branch does not exist. */
  readonly is_empty: boolean;
}

export type MergeRequestDiffRow = Selectable<MergeRequestDiffs>;
export type DiffFileRow = Selectable<MergeRequestDiffFiles>;
export type DiffCommitRow = Selectable<MergeRequestDiffCommits>;

export interface DiffStat {
  readonly diff_id: number;
  readonly path: string;
  readonly additions: number;
  readonly deletions: number;
}

type StoredColumn = keyof MergeRequests;
export type MergeRequestColumn = keyof MergeRequestRow;
const STORED: readonly StoredColumn[] = [
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
const ALL_COLUMNS: readonly MergeRequestColumn[] = [...STORED, 'project_path'];

/** Lists the merge requests of the project. @throws as `requireAbility` if the caller cannot see them */
export const listMergeRequests = (
  ctx: Context,
  project: ProjectRow,
  filter: MergeRequestFilter = {},
): List<MergeRequestRow> => {
  requireAbility(ctx, project, 'read_merge_request');
  const query = matching(ctx, filter, ALL_COLUMNS).where('merge_requests.project_id', '=', project.id);
  return listOf(ctx.db, query, sortKeys(filter), filter.sort ?? 'desc');
};

/** Lists the merge requests that the caller can see, in all projects or in all projects below a group. */
export const listVisibleMergeRequests = (
  ctx: Context,
  filter: MergeRequestFilter & {
    readonly group_id?: number | undefined;
    readonly non_archived?: boolean | undefined;
  } = {},
): List<MergeRequestRow> => {
  let query = visible(ctx, matching(ctx, filter, ALL_COLUMNS));
  if (filter.group_id !== undefined) query = query.where(isBelowGroup(sql`${filter.group_id}::bigint`, true));
  if (filter.non_archived) query = query.where('projects.archived', '=', false);
  return listOf(ctx.db, query, sortKeys(filter), filter.sort ?? 'desc');
};

/**
 * Lists merge requests below many parents at once. For projects the caller checks `read_merge_request`. For groups and
 * users only visible merge requests are listed. With `wanted`, only these columns of each row are read and may be used.
 */
export const listMergeRequestsBelow = (
  ctx: Context,
  kind: 'project' | 'group' | 'subgroups' | 'author' | 'assignee' | 'reviewer',
  filter: MergeRequestFilter,
  wanted: readonly MergeRequestColumn[] = ALL_COLUMNS,
): BatchedList<MergeRequestRow> => {
  const keys = sortKeys(filter);
  // Cursors contain the sort keys.
  const columns = [...wanted, 'id', filter.order_by ?? 'created_at'] as const;
  const query = matching(ctx, filter, columns);
  const below = (parentId: RawBuilder<number>) => {
    switch (kind) {
      case 'project':
        return query.where('merge_requests.project_id', '=', parentId);
      case 'group':
      case 'subgroups':
        return visible(ctx, query).where(isBelowGroup(parentId, kind === 'subgroups'));
      case 'author':
        return visible(ctx, query).where('merge_requests.author_id', '=', parentId);
      default:
        return visible(ctx, query).where(sql<boolean>`merge_requests.id in (select held.merge_request_id
          from ${sql.table(`merge_request_${kind}s`)} held where held.user_id = ${parentId})`);
    }
  };
  // The most common list: all merge requests of a project, without values from this request.
  const isPlain =
    kind === 'project' && Object.entries(filter).every(([name, value]) => value == null || ORDER.has(name));
  const shape = `merge_requests|${filter.order_by}|${columns.join()}`;
  return batchedListOf(ctx.db, below, keys, filter.sort ?? 'desc', isPlain ? { ctx, shape } : undefined);
};

const ORDER: ReadonlySet<string> = new Set<keyof MergeRequestFilter>(['order_by', 'sort']);

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

/** Returns users, votes, notes and time of these merge requests. */
export const mergeRequestStatsByIds = async (
  ctx: Pick<Context, 'db'>,
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
      n.user_notes_count, n.user_discussions_count, n.unresolved_discussions,
      (select coalesce(sum(l.time_spent), 0)::bigint from timelogs l where l.merge_request_id = mr.id) as total_time_spent,
      exists (select from merge_request_diffs d
        where d.merge_request_id = mr.id and d.is_latest and d.state = 'empty') as is_empty
    from merge_requests mr cross join lateral (
      select count(*) filter (where not notes.system) as user_notes_count,
        count(distinct notes.discussion_id) filter (where not notes.system) as user_discussions_count,
        count(distinct notes.discussion_id) filter (where not notes.system
          and notes.type in ('DiffNote', 'DiscussionNote') and notes.resolved_at is null) as unresolved_discussions
      from notes where notes.merge_request_id = mr.id) n
    where mr.id = any (${ids}::bigint[])`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns the newest diff version of each merge request, by id. */
export const diffsByMergeRequestIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, MergeRequestDiffRow>> => {
  const rows = await ctx.db
    .selectFrom('merge_request_diffs')
    .selectAll()
    .where(sql<boolean>`merge_request_id = any (${ids}::bigint[])`)
    .where('is_latest', '=', true)
    .execute();
  return new Map(rows.map((row) => [row.merge_request_id, row]));
};

/** Lists the versions of a merge request, newest first. `getMergeRequest` has checked access. */
export const listVersions = (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestRow, 'id'>,
): List<MergeRequestDiffRow> =>
  listOf(
    ctx.db,
    ctx.db.selectFrom('merge_request_diffs').selectAll().where('merge_request_id', '=', id),
    BY_VERSION,
    'desc',
  );

/** Returns a version of the merge request. @throws DomainError `not_found` */
export const getVersion = async (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestRow, 'id'>,
  versionId: number,
): Promise<MergeRequestDiffRow> => {
  const row = await ctx.db
    .selectFrom('merge_request_diffs')
    .selectAll()
    .where('id', '=', versionId)
    .where('merge_request_id', '=', id)
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

export const listVersionFiles = (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestDiffRow, 'id'>,
): List<DiffFileRow> =>
  listOf(
    ctx.db,
    ctx.db.selectFrom('merge_request_diff_files').selectAll().where('diff_id', '=', id),
    FILE_ORDER,
    'asc',
  );

export const listVersionCommits = (
  ctx: Pick<Context, 'db'>,
  { id }: Pick<MergeRequestDiffRow, 'id'>,
): List<DiffCommitRow> =>
  listOf(
    ctx.db,
    ctx.db.selectFrom('merge_request_diff_commits').selectAll().where('diff_id', '=', id),
    COMMIT_ORDER,
    'asc',
  );

/** Lists the changed files in the order of the diff. `getMergeRequest` has checked access. */
export const listDiffFiles = (ctx: Pick<Context, 'db'>, { id }: Pick<MergeRequestRow, 'id'>): List<DiffFileRow> =>
  listOf(ctx.db, ctx.db.selectFrom('merge_request_diff_files').selectAll().where(diffOf(id)), FILE_ORDER, 'asc');

/**
 * Computes the changes between two commits of a merge request from the repository. Returns null if one of them is not
 * there, as for an imported merge request whose branches were deleted. @throws DomainError as `requireAbility(read_code)`
 */
export const findRawDiff = async (
  ctx: Context,
  project: ProjectRow,
  { base_sha, head_sha }: { readonly base_sha: string | null; readonly head_sha: string | null },
): Promise<Diff | null> => {
  if (base_sha === null || head_sha === null) return null;
  const { git } = ctx.services;
  for (const sha of [base_sha, head_sha]) if ((await git.resolveCommit(project.disk_path, sha)) === null) return null;
  return (await compare(ctx, project, { from: base_sha, to: head_sha, straight: true })).diff;
};

/** Lists the commits to be merged, newest first. */
export const listDiffCommits = (ctx: Pick<Context, 'db'>, { id }: Pick<MergeRequestRow, 'id'>): List<DiffCommitRow> =>
  listOf(ctx.db, ctx.db.selectFrom('merge_request_diff_commits').selectAll().where(diffOf(id)), COMMIT_ORDER, 'asc');

/** The same for many merge requests at once. */
export const listDiffCommitsBelow = (ctx: Pick<Context, 'db'>): BatchedList<DiffCommitRow> =>
  batchedListOf(
    ctx.db,
    (id) => ctx.db.selectFrom('merge_request_diff_commits').selectAll().where(diffOf(id)),
    COMMIT_ORDER,
    'asc',
  );

/** Returns the number of added and removed lines per file of these diffs, by diff id. */
export const diffStatsByDiffIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, DiffStat[]>> => {
  // Some diffs start with two lines that name the files.
  const { rows } = await sql<DiffStat>`
    select f.diff_id, f.new_path as path,
      regexp_count(body, '^\\+', 1, 'n') as additions, regexp_count(body, '^-', 1, 'n') as deletions
    from merge_request_diff_files f
      cross join lateral regexp_replace(f.diff, '^--- [^\\n]*\\n\\+\\+\\+ [^\\n]*\\n', '') as body
    where f.diff_id = any (${ids}::bigint[]) order by f.diff_id, f.relative_order`.execute(ctx.db);
  return Map.groupBy(rows, (row) => row.diff_id);
};

/**
 * Lists the pipelines of a merge request, newest first: those created for it, and those of its branch for its commits.
 * The caller checks `read_pipeline`.
 */
export const listMergeRequestPipelines = (ctx: Context, row: Pick<MergeRequestRow, 'id'>): List<PipelineRow> =>
  listOf(ctx.db, pipelinesOf(ctx, sql`${row.id}::bigint`), BY_PIPELINE, 'desc');

export const listPipelinesBelowMergeRequests = (ctx: Context): BatchedList<PipelineRow> =>
  batchedListOf(ctx.db, (id) => pipelinesOf(ctx, id), BY_PIPELINE, 'desc');

/** Returns the newest pipeline for the head of each merge request, by id. */
export const headPipelinesByIds = async (ctx: Context, ids: readonly number[]): Promise<Map<number, PipelineRow>> => {
  const rows = await listPipelinesBelowMergeRequests(ctx).rows(ids, { limit: 1 });
  return new Map([...rows].flatMap(([id, [first]]) => (first ? [[id, first] as const] : [])));
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

const FILE_ORDER: readonly SortKey<DiffFileRow>[] = [
  { by: sql.ref('merge_request_diff_files.relative_order'), of: (row) => row.relative_order },
];
const COMMIT_ORDER: readonly SortKey<DiffCommitRow>[] = [
  { by: sql.ref('merge_request_diff_commits.relative_order'), of: (row) => row.relative_order },
];
const BY_VERSION: readonly SortKey<MergeRequestDiffRow>[] = [
  { by: sql.ref('merge_request_diffs.id'), of: (row) => row.id },
];
const BY_PIPELINE: readonly SortKey<PipelineRow>[] = [{ by: sql.ref('pipelines.id'), of: (row) => row.id }];

const diffOf = (mergeRequestId: number | RawBuilder<number>): RawBuilder<boolean> =>
  sql<boolean>`diff_id = (select d.id from merge_request_diffs d where d.merge_request_id = ${mergeRequestId} and d.is_latest)`;

const pipelinesOf = (ctx: Context, id: RawBuilder<number>) =>
  ctx.db
    .selectFrom('pipelines')
    .selectAll('pipelines')
    .select(sql<string>`(select p.full_path from projects p where p.id = pipelines.project_id)`.as('project_path'))
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

const PROJECT_PATH = sql<string>`(select p.full_path from projects p where p.id = merge_requests.project_id)`;

const matching = (ctx: Context, filter: MergeRequestFilter, columns: readonly MergeRequestColumn[]) => {
  let query = ctx.db
    .selectFrom('merge_requests')
    .select(STORED.filter((column) => columns.includes(column)).map((column) => `merge_requests.${column}` as const))
    .select((columns.includes('project_path') ? PROJECT_PATH : sql<string>`''`).as('project_path'));
  for (const condition of conditions(ctx.actor, filter)) query = query.where(condition);
  return query;
};

const visible = (ctx: Context, query: ReturnType<typeof matching>) =>
  query.innerJoin('projects', 'projects.id', 'merge_requests.project_id').where(mergeRequestIsVisible(ctx.actor));

const isBelowGroup = (groupId: RawBuilder<number>, includeSubgroups: boolean): RawBuilder<boolean> =>
  includeSubgroups
    ? sql<boolean>`projects.namespace_id in (select n.id from namespaces n where n.traversal_ids @> array[${groupId}])`
    : sql<boolean>`projects.namespace_id = ${groupId}`;
