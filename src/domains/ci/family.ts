import { sql } from 'kysely';
import { openFrom, projectIsVisible, projectLevel } from '#domains/access/policy.ts';
import { canRead } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { archivedBefore } from './archived.ts';
import { DANGLING_SOURCES } from './model.ts';
import { type JobRow, jobQuery, jobsByIds, type PipelineRow, pipelineQuery } from './queries.ts';

/** A pipeline of a family: a pipeline with all that its bridges started, directly or not. */
export interface Relative {
  readonly id: number;
  readonly project_id: number;
  readonly ref: string | null;
  readonly source: string;
}

/** Returns the pipelines whose bridges led to this one, nearest first. */
export const ancestorsOf = async ({ db }: Pick<Context, 'db'>, id: number): Promise<Relative[]> => {
  const { rows } = await sql<Relative>`
    with recursive above as (
      select p.id, p.project_id, p.ref, p.source, p.bridge_job_id, 0 as distance from pipelines p where p.id = ${id}
      union all
      select parent.id, parent.project_id, parent.ref, parent.source, parent.bridge_job_id, above.distance + 1
      from above join jobs bridge on bridge.id = above.bridge_job_id join pipelines parent on parent.id = bridge.pipeline_id
    ) cycle id set is_cycle using path
    select id, project_id, ref, source from above where distance > 0 order by distance`.execute(db);
  return rows;
};

/** Returns the number of pipelines that the bridges of this one started, directly or not. */
export const familySize = async ({ db }: Pick<Context, 'db'>, id: number): Promise<number> => {
  const { rows } = await sql<{ count: number }>`
    with recursive below as (
      select ${id}::bigint as id
      union all
      select child.id from below join jobs bridge on bridge.pipeline_id = below.id and bridge.kind = 'bridge'
        join pipelines child on child.bridge_job_id = bridge.id
    ) cycle id set is_cycle using path
    select count(*)::integer - 1 as count from below`.execute(db);
  return rows[0]?.count ?? 0;
};

/** Returns the ids of the pipeline and of its child pipelines in the same project, directly or not. */
export const childrenOf = async ({ db }: Pick<Context, 'db'>, id: number): Promise<number[]> => {
  const { rows } = await sql<{ id: number }>`
    with recursive below as (
      select ${id}::bigint as id
      union all
      select child.id from below join jobs bridge on bridge.pipeline_id = below.id and bridge.kind = 'bridge'
        join pipelines child on child.bridge_job_id = bridge.id and child.source = 'parent_pipeline'
    ) cycle id set is_cycle using path
    select distinct id from below`.execute(db);
  return rows.map((row) => row.id);
};

/**
 * Returns the family of each of these pipelines, by its id: the pipeline, those whose bridges led to it, and all that
 * these started, within its project.
 */
export const familiesOf = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, ReadonlySet<number>>> => {
  const { rows } = await sql<{ member_of: number; id: number }>`
    with recursive above (member_of, id, project_id, bridge_job_id) as (
      select p.id, p.id, p.project_id, p.bridge_job_id from pipelines p where p.id = any (${ids}::bigint[])
      union
      select above.member_of, parent.id, parent.project_id, parent.bridge_job_id
      from above join jobs bridge on bridge.id = above.bridge_job_id
        join pipelines parent on parent.id = bridge.pipeline_id and parent.project_id = above.project_id
    ), family (member_of, id, project_id) as (
      select member_of, id, project_id from above
      union
      select family.member_of, child.id, child.project_id
      from family join jobs bridge on bridge.pipeline_id = family.id and bridge.kind = 'bridge'
        join pipelines child on child.bridge_job_id = bridge.id and child.project_id = family.project_id
    )
    select member_of, id from family`.execute(db);
  const families = Map.groupBy(rows, ({ member_of }) => member_of);
  return new Map([...families].map(([id, members]) => [id, new Set(members.map((member) => member.id))]));
};

/** Pipelines of all projects that the caller can read. */
const readable = (ctx: Context) =>
  pipelineQuery(ctx)
    .innerJoin('projects', 'projects.id', 'pipelines.project_id')
    .where(projectIsVisible(ctx.actor))
    .where(
      canRead(
        'read_pipeline',
        { level: projectLevel(ctx.actor, 'projects'), openFrom: sql.lit(openFrom(ctx.actor)) },
        'projects',
      ),
    );

/** Returns the pipelines that the bridges of these pipelines started, as far as the caller can see them. */
export const downstreamByPipelineIds = async (
  ctx: Context,
  ids: readonly number[],
): Promise<Map<number, PipelineRow[]>> => {
  const rows = await readable(ctx)
    .innerJoin('jobs as bridge', 'bridge.id', 'pipelines.bridge_job_id')
    .select('bridge.pipeline_id as upstream_id')
    .where(sql<boolean>`bridge.pipeline_id = any (${ids}::bigint[])`)
    .orderBy('pipelines.id')
    .execute();
  return Map.groupBy(rows, (row) => row.upstream_id);
};

/** Returns the pipelines whose bridges started these ones, by these, as far as the caller can see them. */
export const visibleUpstream = async (ctx: Context, ids: readonly number[]): Promise<Map<number, PipelineRow>> => {
  const rows = await readable(ctx)
    .innerJoin('jobs as bridge', 'bridge.pipeline_id', 'pipelines.id')
    .innerJoin('pipelines as child', 'child.bridge_job_id', 'bridge.id')
    .select('child.id as child_id')
    .where(sql<boolean>`child.id = any (${ids}::bigint[])`)
    .execute();
  return new Map(rows.map((row) => [row.child_id, row]));
};

/** Returns which of the pipelines have a job that a retry of the pipeline runs again. Archived jobs never do. */
export const hasRetryableByPipelineIds = async (
  ctx: Pick<Context, 'db' | 'services' | 'clock'>,
  ids: readonly number[],
): Promise<Map<number, boolean>> => {
  const before = await archivedBefore(ctx);
  const { rows } = await sql<{ pipeline_id: number }>`
    select distinct pipeline_id from jobs where pipeline_id = any (${ids}::bigint[]) and not retried
      and status in ('failed', 'canceled') and kind <> 'generic_commit_status'
      and created_at >= coalesce(${before}::timestamptz, '-infinity')`.execute(ctx.db);
  return new Map(rows.map(({ pipeline_id }) => [pipeline_id, true]));
};

/** Returns which of the pipelines are the newest of their branch, tag or merge request. */
export const latestByPipelineIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, boolean>> => {
  const { rows } = await sql<{ id: number }>`
    select p.id from pipelines p
    where p.id = any (${ids}::bigint[]) and p.source <> all (${[...DANGLING_SOURCES]}::text[])
      and not exists (select from pipelines newer
        where newer.project_id = p.project_id and newer.ref = p.ref and newer.tag = p.tag and newer.id > p.id
          and newer.source <> all (${[...DANGLING_SOURCES]}::text[]))`.execute(db);
  return new Map(rows.map(({ id }) => [id, true]));
};

/** Returns the pipelines whose jobs name `needs`. */
export const needingByPipelineIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, boolean>> => {
  const { rows } = await sql<{ pipeline_id: number }>`
    select distinct pipeline_id from jobs where pipeline_id = any (${ids}::bigint[]) and scheduling_type = 'dag'`.execute(
    db,
  );
  return new Map(rows.map(({ pipeline_id }) => [pipeline_id, true]));
};

/** Returns the ids of the jobs in the stage before that of each job, by its id, in their order. */
export const previousStageJobs = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, JobRow[]>> => {
  const { rows } = await sql<{ job_id: number; id: number }>`
    select job.id as job_id, before.id from jobs job join stages own on own.id = job.stage_id
      cross join lateral (
        select s.id from stages s where s.pipeline_id = own.pipeline_id and s.position < own.position
        order by s.position desc limit 1) as previous
      join jobs before on before.stage_id = previous.id and not before.retried
    where job.id = any (${ids}::bigint[]) order by before.id`.execute(ctx.db);
  const jobs = await jobsByIds(ctx, [...new Set(rows.map(({ id }) => id))]);
  const byJob = Map.groupBy(rows, ({ job_id }) => job_id);
  return new Map([...byJob].map(([id, before]) => [id, before.flatMap((each) => jobs.get(each.id) ?? [])]));
};

/** Returns the current jobs of these stages, in the order of the file. The caller checks permissions. */
export const jobsByStageIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, JobRow[]>> => {
  const rows = await jobQuery(ctx)
    .where(sql<boolean>`jobs.stage_id = any (${ids}::bigint[])`)
    .where('jobs.kind', '!=', 'generic_commit_status')
    .where('jobs.retried', '=', false)
    .orderBy('jobs.id')
    .execute();
  return Map.groupBy(rows, ({ stage_id }) => stage_id ?? 0);
};

export interface JobNeed {
  readonly job_id: number;
  readonly name: string;
}

/** Returns the needs of these jobs by name, without checking access. */
export const needsByJobIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, JobNeed[]>> => {
  const rows = await db
    .selectFrom('job_needs')
    .select(['job_id', 'name'])
    .where(sql<boolean>`job_id = any (${ids}::bigint[])`)
    .orderBy('name')
    .execute();
  return Map.groupBy(rows, (row) => row.job_id);
};

/** Returns the pipelines that these bridges started, by bridge, as far as the caller can see them. */
export const visibleDownstream = async (ctx: Context, ids: readonly number[]): Promise<Map<number, PipelineRow>> => {
  const rows = await readable(ctx)
    .where(sql<boolean>`pipelines.bridge_job_id = any (${ids}::bigint[])`)
    .orderBy('pipelines.id')
    .execute();
  return new Map(rows.flatMap((row) => (row.bridge_job_id === null ? [] : [[row.bridge_job_id, row] as const])));
};
