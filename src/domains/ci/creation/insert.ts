import { type Insertable, sql } from 'kysely';
import type { CompiledJob, CompiledPipeline } from '#domains/ci-config/model.ts';
import { nextIid } from '#domains/projects/insert.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Tx } from '#platform/context.ts';
import type { Pipelines } from '#platform/db/tables.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { jobCreated, pipelineCreated } from '../events.ts';
import { eventScope, jobPayload, pipelinePayload } from '../payloads.ts';
import { type CurrentJob, currentJobs, type LockedPipeline, lockPipeline } from '../processing.ts';
import { sealGivenValue } from '../sealed-values.ts';

/** A variable given to a pipeline when it is created. */
export interface PipelineVariable {
  readonly key: string;
  readonly value: string;
  readonly variable_type?: 'env_var' | 'file' | undefined;
  readonly raw?: boolean | undefined;
}

/** A compiled job with what depends on the variables of its pipeline. */
export interface PlannedJob {
  readonly job: CompiledJob;
  /** The name of its environment, expanded. */
  readonly environment: string | null;
  /** The key of its resource group, expanded. */
  readonly resource_group: string | null;
}

/** The data of a new pipeline and its jobs. */
export interface PipelinePlan {
  readonly row: Omit<Insertable<Pipelines>, 'iid' | 'project_id' | 'finished_at'> & { readonly id: number };
  readonly variables: readonly PipelineVariable[];
  readonly stages: CompiledPipeline['stages'];
  readonly jobs: readonly PlannedJob[];
}

/** Returns the id for a new pipeline. Its ref in the repository is written before its row. */
export const reservePipelineId = async ({ db }: Pick<Tx, 'db'>): Promise<number> => {
  const { rows } = await sql<{ id: number }>`
    select nextval(pg_get_serial_sequence('pipelines', 'id'))::bigint as id`.execute(db);
  return rows[0]?.id ?? 0;
};

/**
 * Inserts the pipeline with its stages and jobs, and emits `job.created` for each. A pipeline with jobs is then
 * processed, which emits its own event. One without jobs has its final status, and its event is emitted here.
 */
export const insertPipeline = async (
  tx: Tx,
  project: ProjectRow,
  plan: PipelinePlan,
): Promise<{ readonly pipeline: LockedPipeline; readonly jobs: readonly CurrentJob[] }> => {
  const { id } = plan.row;
  await tx.db
    .insertInto('pipelines')
    .values({
      ...plan.row,
      project_id: project.id,
      iid: await nextIid(tx, project.id, 'pipeline'),
      finished_at: plan.jobs.length === 0 ? sql`now()` : null,
    })
    .execute();
  const pipeline = await lockPipeline(tx, id);
  if (!pipeline) throw new Error(`pipeline ${id} vanished while it was created`);
  await insertVariables(tx, id, plan.variables);
  if (plan.jobs.length === 0) {
    tx.emit(pipelineCreated, {
      ...eventScope(pipeline),
      subject: { type: 'Ci::Pipeline', id },
      payload: pipelinePayload(pipeline),
    });
    return { pipeline, jobs: [] };
  }
  await insertJobs(tx, pipeline, plan);
  const jobs = await currentJobs(tx, id);
  for (const job of jobs) {
    tx.emit(jobCreated, {
      ...eventScope(pipeline),
      subject: { type: 'Ci::Build', id: job.id },
      payload: jobPayload(job),
    });
  }
  return { pipeline, jobs };
};

const insertVariables = async (tx: Tx, pipeline_id: number, variables: readonly PipelineVariable[]): Promise<void> => {
  const last = [...new Map(variables.map((variable) => [variable.key, variable])).values()];
  if (last.length === 0) return;
  await tx.db
    .insertInto('pipeline_variables')
    .values(
      last.map(({ key, value, variable_type = 'env_var', raw = false }) => ({
        pipeline_id,
        key,
        sealed_value: sealGivenValue(tx, value),
        variable_type,
        raw,
      })),
    )
    .execute();
};

/** Writes all rows of stages, jobs and needs in one statement each, whatever their number. */
const insertJobs = async (tx: Tx, pipeline: LockedPipeline, { stages, jobs }: PipelinePlan): Promise<void> => {
  const used = new Set(jobs.map(({ job }) => job.stage));
  const names = stages.filter((name) => used.has(name));
  const inserted = await tx.db
    .insertInto('stages')
    .values(names.map((name) => ({ pipeline_id: pipeline.id, name, position: stages.indexOf(name) })))
    .returning(['id', 'name', 'position'])
    .execute();
  const stageOf = new Map(inserted.map((stage) => [stage.name, stage]));
  const groups = await resourceGroups(tx, pipeline.project_id, jobs);
  const rows = jobs.map(({ job, environment, resource_group }) => ({
    stage_id: stageOf.get(job.stage)?.id ?? null,
    stage_idx: stageOf.get(job.stage)?.position ?? 0,
    kind: job.kind,
    name: job.name,
    allow_failure: job.allow_failure,
    scheduling_type: job.needs === null ? 'stage' : 'dag',
    options: job,
    yaml_variables: job.variables,
    environment,
    run_when: job.when,
    tags: job.tags,
    interruptible: job.interruptible,
    resource_group_id: groups.get(resource_group ?? '') ?? null,
  }));
  await sql`
    insert into jobs (project_id, pipeline_id, ref, tag, protected, user_id, stage_id, stage_idx, kind, name,
      allow_failure, scheduling_type, options, yaml_variables, environment, run_when, tags, interruptible,
      resource_group_id)
    select ${pipeline.project_id}, ${pipeline.id}, ${pipeline.ref}, ${pipeline.tag}, ${pipeline.protected},
      ${pipeline.user_id}::bigint, stage_id, stage_idx, kind, name, allow_failure, scheduling_type, options,
      yaml_variables, environment, run_when, array(select jsonb_array_elements_text(tags)), interruptible,
      resource_group_id
    from rows from (jsonb_to_recordset(${toJsonb(rows)}::jsonb) as (
      stage_id bigint, stage_idx integer, kind text, name text, allow_failure boolean, scheduling_type text,
      options jsonb, yaml_variables jsonb, environment text, run_when text, tags jsonb, interruptible boolean,
      resource_group_id bigint
    )) with ordinality
    order by ordinality`.execute(tx.db);
  if (jobs.some(({ job }) => job.needs !== null && job.needs.length > 0)) {
    await sql`
      insert into job_needs (job_id, name, artifacts, optional)
      select jobs.id, need.name, need.artifacts, need.optional
      from jobs, jsonb_to_recordset(jobs.options -> 'needs') as need (name text, artifacts boolean, optional boolean)
      where jobs.pipeline_id = ${pipeline.id} and jsonb_typeof(jobs.options -> 'needs') = 'array'
      on conflict do nothing`.execute(tx.db);
  }
};

/** Returns the ids of the resource groups by key. Creates those that are new. */
const resourceGroups = async (
  tx: Tx,
  project_id: number,
  jobs: readonly PlannedJob[],
): Promise<ReadonlyMap<string, number>> => {
  const keys = [...new Set(jobs.flatMap(({ resource_group }) => resource_group ?? []))].sort();
  if (keys.length === 0) return new Map();
  await tx.db
    .insertInto('resource_groups')
    .values(keys.map((key) => ({ project_id, key })))
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  const rows = await tx.db
    .selectFrom('resource_groups')
    .select(['id', 'key'])
    .where('project_id', '=', project_id)
    .where('key', 'in', keys)
    .execute();
  return new Map(rows.map(({ id, key }) => [key, id]));
};
