import { type RawBuilder, type Selectable, sql } from 'kysely';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type RowsById, type SortKey } from '#platform/db/list.ts';
import type { Jobs, Pipelines, Stages } from '#platform/db/tables.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { forbidden, notFound } from '#platform/errors.ts';
import type { SortDirection } from '#platform/paging.ts';
import { type CiStatus, DANGLING_SOURCES, type PipelineScope } from './model.ts';

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
  /** The schedule that created it. */
  readonly schedule_id?: number | undefined;
  readonly updated_after?: string | null | undefined;
  readonly updated_before?: string | null | undefined;
  readonly created_after?: string | null | undefined;
  readonly created_before?: string | null | undefined;
  readonly order_by?: (typeof PIPELINE_ORDERS)[number] | null | undefined;
  readonly sort?: SortDirection | null | undefined;
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
    matching(ctx, filter, sql`${project.id}::bigint`).where('pipelines.project_id', '=', project.id),
    pipelineKeys(filter),
    filter.sort ?? 'desc',
    pipelinesById(ctx),
  );
};

/** Lists the pipelines of many projects at once. The caller checks `read_pipeline`. */
export const listPipelinesBelow = (ctx: Context, filter: PipelineFilter): BatchedList<PipelineRow> =>
  batchedListOf(
    ctx.db,
    (projectId) => matching(ctx, filter, projectId).where('pipelines.project_id', '=', projectId),
    pipelineKeys(filter),
    filter.sort ?? 'desc',
    { byId: pipelinesById(ctx) },
  );

/** All pipelines of a project may match. */
const pipelinesById = (ctx: Pick<Context, 'db'>): RowsById<PipelineRow> => ({
  id: sql.ref('pipelines.id'),
  rowOf: (id) => pipelineQuery(ctx).where('pipelines.id', '=', id),
});

/** @throws DomainError `not_found` (Pipeline), and as `requireAbility` */
export const getPipeline = async (ctx: Context, project: ProjectRow, id: number): Promise<PipelineRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const row = (await pipelinesByIds(ctx, [id])).get(id);
  if (row?.project_id !== project.id) throw notFound('Pipeline');
  return row;
};

/** Returns the pipeline by its id alone. @throws DomainError `not_found` (Pipeline, Project), and as `requireAbility` */
export const getPipelineById = async (ctx: Context, id: number): Promise<PipelineRow> => {
  const row = (await pipelinesByIds(ctx, [id])).get(id);
  if (!row) throw notFound('Pipeline');
  await getPipelineProject(ctx, row.project_id);
  return row;
};

/** Returns the project if the caller may read its pipelines. @throws DomainError `not_found`, and as `requireAbility` */
export const getPipelineProject = async (ctx: Context, id: number): Promise<ProjectRow> => {
  const project = await getProject(ctx, { id });
  requireAbility(ctx, project, 'read_pipeline');
  return project;
};

/** Returns the newest pipeline of the branch or tag. @throws DomainError `forbidden` if there is none, as existing servers */
export const getLatestPipeline = async (
  ctx: Context,
  project: ProjectRow,
  filter: { readonly ref?: string | undefined },
): Promise<PipelineRow> => {
  const row = await findLatestPipeline(ctx, project, filter);
  if (!row) throw forbidden();
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
  else query = query.where('pipelines.source', 'not in', [...DANGLING_SOURCES]);
  if (filter.ref !== undefined) query = query.where('pipelines.ref', '=', filter.ref);
  if (filter.sha !== undefined) query = query.where('pipelines.sha', '=', filter.sha);
  return (await query.orderBy('pipelines.id', 'desc').limit(1).executeTakeFirst()) ?? null;
};

/** Returns the pipeline that a request with this key created, without checking access. */
export const findPipelineByKey = async (ctx: Pick<Context, 'db'>, key: string): Promise<PipelineRow | null> =>
  (await pipelineQuery(ctx).where('pipelines.idempotency_key', '=', key).executeTakeFirst()) ?? null;

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

/** Returns for stages the number of their jobs that failed and were allowed to. Leaves out stages without such jobs. */
export const warningsByStageIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, number>> => {
  const { rows } = await sql<{ id: number; count: number }>`
    select jobs.stage_id as id, count(*) as count from jobs
    where jobs.stage_id = any (${ids}::bigint[]) and not jobs.retried and jobs.status = 'failed' and jobs.allow_failure
    group by jobs.stage_id`.execute(ctx.db);
  return new Map(rows.map(({ id, count }) => [id, count]));
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

/** Returns the job by its id alone. @throws DomainError `not_found`, and as `requireAbility` */
export const getJobById = async (ctx: Context, id: number): Promise<JobRow> => {
  const row = (await jobsByIds(ctx, [id])).get(id);
  if (!row) throw notFound();
  return getJob(ctx, await getProject(ctx, { id: row.project_id }), id);
};

/** The newest job of a pipeline with this name. */
export interface NamedJob {
  readonly pipeline_id: number;
  readonly name: string;
}

/** Returns the newest job of each pipeline and name, in the order of the list. The caller checks permissions. */
export const newestJobs = async (
  ctx: Pick<Context, 'db'>,
  wanted: readonly NamedJob[],
): Promise<readonly (JobRow | null)[]> => {
  const rows = await jobQuery(ctx)
    .where(
      sql<boolean>`jobs.id in (
        select (select max(j.id) from jobs j
          where j.pipeline_id = w.pipeline_id and j.name = w.name and j.kind <> 'generic_commit_status')
        from unnest(${wanted.map(({ pipeline_id }) => pipeline_id)}::bigint[], ${wanted.map(({ name }) => name)}::text[])
          as w (pipeline_id, name))`,
    )
    .execute();
  const found = new Map(rows.map((row) => [`${row.pipeline_id} ${row.name}`, row]));
  return wanted.map(({ pipeline_id, name }) => found.get(`${pipeline_id} ${name}`) ?? null);
};

/** Returns the jobs by id. The caller checks permissions. */
export const jobsByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, JobRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await jobQuery(ctx).where(sql<boolean>`jobs.id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};

/** Returns a job or reported status by id, without checking access. */
export const jobByIdIn = (ctx: Pick<Context, 'db'>, id: number): Promise<JobRow> =>
  jobQuery(ctx).where('jobs.id', '=', id).executeTakeFirstOrThrow();

/** Returns how often the job was retried before this row. */
export const countRetries = async (
  { db }: Pick<Context, 'db'>,
  job: { readonly id: number; readonly pipeline_id: number; readonly name: string },
): Promise<number> => {
  const { count } = await db
    .selectFrom('jobs')
    .select(sql<number>`count(*)::integer`.as('count'))
    .where('pipeline_id', '=', job.pipeline_id)
    .where('name', '=', job.name)
    .where('id', '<', job.id)
    .where('retried', '=', true)
    .executeTakeFirstOrThrow();
  return count;
};

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
  // The array makes Postgres begin with the pipelines of the commit, and so does the project of the pipeline instead of
  // that of the job.
  let query = jobQuery(ctx).where(
    sql<boolean>`jobs.pipeline_id = any (array(
      select p.id from pipelines p where p.project_id = ${project.id} and p.sha = ${sha}))`,
  );
  if (filter.ref !== undefined) query = query.where('pipelines.ref', '=', filter.ref);
  if (filter.stage !== undefined) query = query.where('stages.name', '=', filter.stage);
  if (filter.name !== undefined) query = query.where('jobs.name', '=', filter.name);
  if (filter.pipeline_id !== undefined) query = query.where('jobs.pipeline_id', '=', filter.pipeline_id);
  if (!filter.all) query = query.where('jobs.retried', '=', false);
  const keys = filter.order_by === 'pipeline_id' ? [JOBS_BY_PIPELINE, ...JOBS_BY_ID] : JOBS_BY_ID;
  return listOf(ctx.db, query, keys, filter.sort ?? 'asc');
};

const JOBS_BY_PIPELINE: SortKey<JobRow> = { by: sql.ref('jobs.pipeline_id'), of: (row) => row.pipeline_id };
/** The key of lists of jobs. */
export const JOBS_BY_ID: readonly SortKey<JobRow>[] = [{ by: sql.ref('jobs.id'), of: (row) => row.id }];

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

/** Selects pipelines as `PipelineRow`, without checking access. */
export const pipelineQuery = (ctx: Pick<Context, 'db'>) =>
  ctx.db
    .selectFrom('pipelines')
    .selectAll('pipelines')
    .select(sql<string>`(select p.full_path from projects p where p.id = pipelines.project_id)`.as('project_path'));

const matching = (ctx: Context, filter: PipelineFilter, projectId: RawBuilder<number>) => {
  let query = pipelineQuery(ctx);
  const add = (condition: RawBuilder<boolean>) => {
    query = query.where(condition);
  };
  if (filter.scope) add(scopeCondition(filter.scope, projectId));
  if (filter.status) add(sql`pipelines.status = ${filter.status}`);
  if (filter.source) {
    add(sql`pipelines.source = ${filter.source}`);
    // The others have an index of their own.
    if (filter.source !== 'push') add(sql`pipelines.source <> 'push'`);
  }
  // Pipelines that belong to another one are listed on request only (reference: ci §9).
  else add(sql`pipelines.source not in (${sql.join(DANGLING_SOURCES.map((source) => sql.lit(source)))})`);
  if (filter.ref) add(sql`pipelines.ref = ${filter.ref}`);
  if (filter.sha) add(sql`pipelines.sha = ${filter.sha}`);
  if (filter.name) add(sql`pipelines.name = ${filter.name}`);
  if (filter.username) {
    add(
      sql`coalesce(pipelines.user_id, 0) = (select u.id from users u where lower(u.username) = ${filter.username.toLowerCase()})`,
    );
  }
  if (filter.schedule_id !== undefined) add(sql`pipelines.schedule_id = ${filter.schedule_id}`);
  if (filter.yaml_errors != null) {
    add(filter.yaml_errors ? sql`pipelines.yaml_errors is not null` : sql`pipelines.yaml_errors is null`);
  }
  for (const name of ['created', 'updated'] as const) {
    const [after, before] = [filter[`${name}_after`], filter[`${name}_before`]];
    const column = sql.ref(`pipelines.${name}_at`);
    if (after) add(atOrAfter(column, after));
    if (before) add(atOrBefore(column, before));
  }
  return query;
};

/** `branches` and `tags` select the newest pipeline of each. */
const scopeCondition = (scope: PipelineScope, projectId: RawBuilder<number>): RawBuilder<boolean> => {
  switch (scope) {
    case 'running':
      return sql`pipelines.status = 'running'`;
    case 'pending':
      return sql`pipelines.status = 'pending'`;
    case 'finished':
      return sql`pipelines.status in ('success', 'failed', 'canceled')`;
    default:
      // As an array, so that the index of refs is read once, and not for each pipeline.
      return sql`pipelines.id = any (array(
        select distinct on (p.ref) p.id from pipelines p
        where p.project_id = ${projectId} and p.tag = ${sql.lit(scope === 'tags')} and p.merge_request_id is null
        order by p.ref desc, p.id desc))`;
  }
};

/**
 * Selects jobs as `JobRow`, without checking access. Every job has a pipeline. The join is a left join so that Postgres
 * omits it where jobs are only counted.
 */
export const jobQuery = (ctx: Pick<Context, 'db'>) =>
  ctx.db
    .selectFrom('jobs')
    .leftJoin('pipelines', 'pipelines.id', 'jobs.pipeline_id')
    .leftJoin('stages', 'stages.id', 'jobs.stage_id')
    .selectAll('jobs')
    .select(['stages.name as stage', 'pipelines.sha', sql<number>`pipelines.iid`.as('pipeline_iid')])
    .select(sql<string>`(select p.full_path from projects p where p.id = jobs.project_id)`.as('project_path'));
