import { type RawBuilder, type Selectable, sql } from 'kysely';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { Jobs, Pipelines, Stages } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import type { CiStatus, JobKind, PipelineScope } from './model.ts';

export interface PipelineRow extends Selectable<Pipelines> {
  /** The full path of its project. */
  readonly project_path: string;
}

export type StageRow = Selectable<Stages>;

export interface JobRow extends Selectable<Jobs> {
  readonly project_path: string;
  /** The name of its stage. */
  readonly stage: string | null;
  readonly pipeline_iid: number;
  readonly sha: string | null;
}

export const PIPELINE_ORDERS = ['id', 'status', 'ref', 'updated_at', 'user_id'] as const;

export interface PipelineFilter {
  readonly scope?: PipelineScope | null | undefined;
  readonly status?: CiStatus | null | undefined;
  readonly source?: string | null | undefined;
  readonly ref?: string | null | undefined;
  readonly sha?: string | null | undefined;
  readonly username?: string | null | undefined;
  readonly name?: string | null | undefined;
  readonly yaml_errors?: boolean | null | undefined;
  readonly updated_after?: string | null | undefined;
  readonly updated_before?: string | null | undefined;
  readonly created_after?: string | null | undefined;
  readonly created_before?: string | null | undefined;
  readonly order_by?: (typeof PIPELINE_ORDERS)[number] | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

export interface JobFilter {
  readonly statuses?: readonly CiStatus[] | null | undefined;
  /** Defaults to builds and bridges. */
  readonly kinds?: readonly JobKind[] | null | undefined;
  /** True: only retried jobs. False: without them. Absent: both. */
  readonly retried?: boolean | null | undefined;
}

/** A summary of a pipeline's jobs. */
export interface PipelineSummary {
  readonly id: number;
  readonly total_jobs: number;
  /** Whether a job failed that was allowed to. */
  readonly has_warnings: boolean;
  readonly coverage: number | null;
}

/** Lists the pipelines of the project. @throws as `requireAbility` if the caller cannot see them */
export const listPipelines = (ctx: Context, project: ProjectRow, filter: PipelineFilter = {}): List<PipelineRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  return listOf(
    ctx.db,
    matching(ctx, filter).where('pipelines.project_id', '=', project.id),
    pipelineKeys(filter),
    filter.sort ?? 'desc',
  );
};

/** Lists the pipelines of many projects at once. The caller checks `read_pipeline`. */
export const listPipelinesBelow = (ctx: Context, filter: PipelineFilter): BatchedList<PipelineRow> =>
  batchedListOf(
    ctx.db,
    (projectId) => matching(ctx, filter).where('pipelines.project_id', '=', projectId),
    pipelineKeys(filter),
    filter.sort ?? 'desc',
  );

/** @throws DomainError `not_found` (Pipeline), and as `requireAbility` */
export const getPipeline = async (ctx: Context, project: ProjectRow, id: number): Promise<PipelineRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const row = (await pipelinesByIds(ctx, [id])).get(id);
  if (row?.project_id !== project.id) throw notFound('Pipeline');
  return row;
};

/** Returns the newest pipeline of the branch or tag, which defaults to the default branch; null if there is none. */
export const findLatestPipeline = async (
  ctx: Context,
  project: ProjectRow,
  filter: { readonly iid?: number | undefined; readonly ref?: string | undefined; readonly sha?: string | undefined },
): Promise<PipelineRow | null> => {
  requireAbility(ctx, project, 'read_pipeline');
  let query = pipelineQuery(ctx).where('pipelines.project_id', '=', project.id);
  if (filter.iid !== undefined) query = query.where('pipelines.iid', '=', filter.iid);
  if (filter.ref !== undefined) query = query.where('pipelines.ref', '=', filter.ref);
  if (filter.sha !== undefined) query = query.where('pipelines.sha', '=', filter.sha);
  return (await query.orderBy('pipelines.id', 'desc').limit(1).executeTakeFirst()) ?? null;
};

/** Returns the pipelines with these ids, without checking access. */
export const pipelinesByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, PipelineRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await pipelineQuery(ctx).where(sql<boolean>`pipelines.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

export const pipelineSummariesByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, PipelineSummary>> => {
  const { rows } = await sql<PipelineSummary>`
    select jobs.pipeline_id as id, count(*) as total_jobs, avg(jobs.coverage) as coverage,
      bool_or(jobs.status = 'failed' and jobs.allow_failure) as has_warnings
    from jobs where jobs.pipeline_id = any (${ids}::bigint[]) and not jobs.retried
    group by jobs.pipeline_id`.execute(ctx.db);
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns the stages of these pipelines by pipeline id, in execution order. */
export const stagesByPipelineIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, StageRow[]>> => {
  const rows = await ctx.db
    .selectFrom('stages')
    .selectAll()
    .where(sql<boolean>`pipeline_id = any (${ids}::bigint[])`)
    .orderBy('pipeline_id')
    .orderBy('position')
    .orderBy('id')
    .execute();
  return Map.groupBy(rows, (row) => row.pipeline_id);
};

/** Returns the stages with these ids. */
export const stagesByIds = async (ctx: Pick<Context, 'db'>, ids: readonly number[]): Promise<Map<number, StageRow>> => {
  const rows = await ctx.db.selectFrom('stages').selectAll().where(sql<boolean>`id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Lists the jobs of a project or of one of its pipelines, newest first. @throws as `requireAbility` */
export const listJobs = (
  ctx: Context,
  project: ProjectRow,
  filter: JobFilter & { readonly pipeline_id?: number | undefined } = {},
): List<JobRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  let query = matchingJobs(ctx, filter).where('jobs.project_id', '=', project.id);
  if (filter.pipeline_id !== undefined) query = query.where('jobs.pipeline_id', '=', filter.pipeline_id);
  return listOf(ctx.db, query, JOBS_BY_ID, 'desc');
};

/** Lists the jobs of many projects, pipelines or stages at once. The caller checks access. */
export const listJobsBelow = (
  ctx: Context,
  kind: 'project' | 'pipeline' | 'stage',
  filter: JobFilter,
): BatchedList<JobRow> =>
  batchedListOf(
    ctx.db,
    (parentId) => matchingJobs(ctx, filter).where(`jobs.${kind}_id`, '=', parentId),
    JOBS_BY_ID,
    // Jobs within a pipeline are listed in execution order.
    kind === 'project' ? 'desc' : 'asc',
  );

/** @throws DomainError `not_found`, and as `requireAbility` */
export const getJob = async (ctx: Context, project: ProjectRow, id: number): Promise<JobRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const row = await jobQuery(ctx)
    .where('jobs.id', '=', id)
    .where('jobs.project_id', '=', project.id)
    .where('jobs.kind', '!=', 'generic_commit_status')
    .executeTakeFirst();
  if (!row) throw notFound();
  return row;
};

/** Returns a job or reported status by id, without checking access. */
export const jobByIdIn = (ctx: Pick<Context, 'db'>, id: number): Promise<JobRow> =>
  jobQuery(ctx).where('jobs.id', '=', id).executeTakeFirstOrThrow();

/**
 * Lists the statuses of a commit, given by its id, a branch or a tag: its jobs and reported statuses. By default only
 * the newest of each name in a pipeline.
 *
 * @throws DomainError as `requireAbility`, `not_found` (Commit)
 */
export const listCommitStatuses = async (
  ctx: Context,
  project: ProjectRow,
  revision: string,
  filter: {
    readonly ref?: string | undefined;
    readonly stage?: string | undefined;
    readonly name?: string | undefined;
    readonly pipeline_id?: number | undefined;
    readonly all?: boolean | undefined;
    readonly order_by?: 'id' | 'pipeline_id' | undefined;
    readonly sort?: SortDirection | undefined;
  },
): Promise<List<JobRow>> => {
  requireAbility(ctx, project, 'read_pipeline');
  const sha = await ctx.services.git.resolveCommit(project.disk_path, revision);
  if (sha === null) throw notFound('Commit');
  let query = jobQuery(ctx).where('jobs.project_id', '=', project.id).where('pipelines.sha', '=', sha);
  if (filter.ref !== undefined) query = query.where('pipelines.ref', '=', filter.ref);
  if (filter.stage !== undefined) query = query.where('stages.name', '=', filter.stage);
  if (filter.name !== undefined) query = query.where('jobs.name', '=', filter.name);
  if (filter.pipeline_id !== undefined) query = query.where('jobs.pipeline_id', '=', filter.pipeline_id);
  if (!filter.all) query = query.where('jobs.retried', '=', false);
  const keys = filter.order_by === 'pipeline_id' ? [JOBS_BY_PIPELINE, ...JOBS_BY_ID] : JOBS_BY_ID;
  return listOf(ctx.db, query, keys, filter.sort ?? 'asc');
};

const JOBS_BY_PIPELINE: SortKey<JobRow> = { by: sql.ref('jobs.pipeline_id'), of: (row) => row.pipeline_id };
const JOBS_BY_ID: readonly SortKey<JobRow>[] = [{ by: sql.ref('jobs.id'), of: (row) => row.id }];

const pipelineKeys = ({ order_by }: PipelineFilter): readonly SortKey<PipelineRow>[] => {
  const byId: SortKey<PipelineRow> = { by: sql.ref('pipelines.id'), of: (row) => row.id };
  switch (order_by) {
    case 'status':
      return [{ by: sql.ref('pipelines.status'), of: (row) => row.status }, byId];
    case 'ref':
      return [{ by: sql`coalesce(pipelines.ref, '')`, of: (row) => row.ref ?? '' }, byId];
    case 'updated_at':
      return [{ by: sql.ref('pipelines.updated_at'), of: (row) => row.updated_at }, byId];
    case 'user_id':
      return [{ by: sql`coalesce(pipelines.user_id, 0)`, of: (row) => row.user_id ?? 0 }, byId];
    default:
      return [byId];
  }
};

const pipelineQuery = (ctx: Pick<Context, 'db'>) =>
  ctx.db
    .selectFrom('pipelines')
    .selectAll('pipelines')
    .select(sql<string>`(select p.full_path from projects p where p.id = pipelines.project_id)`.as('project_path'));

const matching = (ctx: Context, filter: PipelineFilter) => {
  let query = pipelineQuery(ctx);
  const add = (condition: RawBuilder<boolean>) => {
    query = query.where(condition);
  };
  if (filter.scope) add(scopeCondition(filter.scope));
  if (filter.status) add(sql`pipelines.status = ${filter.status}`);
  if (filter.source) add(sql`pipelines.source = ${filter.source}`);
  if (filter.ref) add(sql`pipelines.ref = ${filter.ref}`);
  if (filter.sha) add(sql`pipelines.sha = ${filter.sha}`);
  if (filter.name) add(sql`pipelines.name = ${filter.name}`);
  if (filter.username) {
    add(sql`pipelines.user_id = (select u.id from users u where lower(u.username) = ${filter.username.toLowerCase()})`);
  }
  if (filter.yaml_errors != null) {
    add(filter.yaml_errors ? sql`pipelines.yaml_errors is not null` : sql`pipelines.yaml_errors is null`);
  }
  if (filter.updated_after) add(sql`pipelines.updated_at > ${filter.updated_after}::timestamptz`);
  if (filter.updated_before) add(sql`pipelines.updated_at < ${filter.updated_before}::timestamptz`);
  if (filter.created_after) add(sql`pipelines.created_at > ${filter.created_after}::timestamptz`);
  if (filter.created_before) add(sql`pipelines.created_at < ${filter.created_before}::timestamptz`);
  return query;
};

/** `branches` and `tags` select the newest pipeline of each. */
const scopeCondition = (scope: PipelineScope): RawBuilder<boolean> => {
  switch (scope) {
    case 'running':
      return sql`pipelines.status = 'running'`;
    case 'pending':
      return sql`pipelines.status = 'pending'`;
    case 'finished':
      return sql`pipelines.status in ('success', 'failed', 'canceled')`;
    default:
      return sql`pipelines.tag = ${sql.lit(scope === 'tags')} and pipelines.merge_request_id is null and not exists (
        select 1 from pipelines newer where newer.project_id = pipelines.project_id and newer.ref = pipelines.ref
          and newer.tag = pipelines.tag and newer.merge_request_id is null and newer.id > pipelines.id)`;
  }
};

const jobQuery = (ctx: Pick<Context, 'db'>) =>
  ctx.db
    .selectFrom('jobs')
    .innerJoin('pipelines', 'pipelines.id', 'jobs.pipeline_id')
    .leftJoin('stages', 'stages.id', 'jobs.stage_id')
    .selectAll('jobs')
    .select(['stages.name as stage', 'pipelines.iid as pipeline_iid', 'pipelines.sha'])
    .select(sql<string>`(select p.full_path from projects p where p.id = jobs.project_id)`.as('project_path'));

const matchingJobs = (ctx: Context, filter: JobFilter) => {
  let query = jobQuery(ctx).where('jobs.kind', 'in', [...(filter.kinds ?? (['build', 'bridge'] as const))]);
  if (filter.statuses) query = query.where(sql<boolean>`jobs.status = any (${filter.statuses}::text[])`);
  if (filter.retried != null) query = query.where('jobs.retried', '=', filter.retried);
  return query;
};
