import { sql } from 'kysely';
import { ConfigError } from '#domains/ci-config/config-error.ts';
import type { CompiledJob } from '#domains/ci-config/model.ts';
import { expandText } from '#domains/ci-config/variables.ts';
import type { Tx } from '#platform/context.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { familiesOf } from './family.ts';
import { jobOptions } from './options.ts';
import { type JobRow, jobsByIds } from './queries.ts';
import { openGivenValue } from './sealed-values.ts';

/** An earlier job whose results a job gets. */
export interface Dependency {
  readonly id: number;
  readonly name: string;
  /** Null if it left no archive. */
  readonly archive: { readonly filename: string; readonly size: number } | null;
  /** Whether its archive was erased, or has expired. */
  readonly is_gone: boolean;
}

/** The jobs whose results a job gets. */
export interface Dependencies {
  readonly found: readonly Dependency[];
  /** Whether there is a job for each `needs:pipeline`. */
  readonly isWhole: boolean;
}

interface Dependent {
  readonly job: JobRow;
  readonly options: CompiledJob;
}

interface FoundDependency extends Omit<Dependency, 'archive'> {
  readonly job_id: number;
  readonly pipeline_id: number;
  readonly filename: string | null;
  readonly size: number | null;
}

/**
 * Reads the jobs whose archives these jobs download: all of earlier stages, or those that they name (reference: ci §1).
 * Returns them by the id of the job, in the order of the file.
 */
export const readDependencies = async (
  tx: Pick<Tx, 'db' | 'services'>,
  jobs: readonly Dependent[],
): Promise<ReadonlyMap<number, Dependencies>> => {
  const numbers = await pipelineNumbers(tx, jobs);
  const wanted = jobs.flatMap(({ job, options }) => {
    const names = namesOf(options);
    const others = numbers.get(job.id) ?? [];
    const isNone = others.length === 0 && (names === null ? job.stage_idx === 0 : names.length === 0);
    const { id, pipeline_id, project_id, stage_idx } = job;
    return isNone ? [] : [{ id, pipeline_id, project_id, stage_idx: stage_idx ?? 0, names, others }];
  });
  if (wanted.length === 0) return new Map();
  const { rows } = await sql<FoundDependency>`
    select wanted.id as job_id, d.id, d.pipeline_id, d.name, a.filename, a.size,
      d.erased_at is not null or (a.id is not null and not a.locked and a.expire_at <= now())
        or (a.id is null and d.artifacts_expire_at <= now()) as is_gone
    from jsonb_to_recordset(${toJsonb(wanted)}::jsonb) as wanted (id bigint, pipeline_id bigint, project_id bigint,
        stage_idx integer, names text[], others jsonb)
      cross join lateral (
        select ${columnsOf('own')} from jobs own
        where own.pipeline_id = wanted.pipeline_id
          and (own.name = any (wanted.names) or (wanted.names is null and own.stage_idx < wanted.stage_idx))
        union
        select ${columnsOf('other')} from jsonb_to_recordset(wanted.others) as need (pipeline bigint, job text)
          join jobs other on other.pipeline_id = need.pipeline and other.name = need.job
        where other.project_id = wanted.project_id
      ) d
      left join job_artifacts a on a.job_id = d.id and a.file_type = 'archive'
    where d.kind = 'build' and not d.retried and d.id <> wanted.id and d.status in ('success', 'failed', 'canceled')
    order by d.stage_idx, d.id`.execute(tx.db);
  const byJob = Map.groupBy(rows, ({ job_id }) => job_id);
  return new Map(
    wanted.map(({ id, others }) => {
      const found = byJob.get(id) ?? [];
      const isFound = (need: PipelineNeed) =>
        found.some((each) => each.pipeline_id === need.pipeline && each.name === need.job);
      return [id, { found: found.map(toDependency), isWhole: others.every(isFound) }];
    }),
  );
};

/** Returns whether the runner of the job gets the archive of the earlier one. */
export const dependsOn = async (
  ctx: Pick<Tx, 'db' | 'services'>,
  jobId: number,
  earlierId: number,
): Promise<boolean> => {
  const job = (await jobsByIds(ctx, [jobId])).get(jobId);
  const options = job && jobOptions(job);
  if (!options) return false;
  const { found = [] } = (await readDependencies(ctx, [{ job, options }])).get(jobId) ?? {};
  return found.some(({ id }) => id === earlierId);
};

const columnsOf = (table: string) =>
  sql.join(
    ['id', 'pipeline_id', 'name', 'kind', 'retried', 'status', 'stage_idx', 'erased_at', 'artifacts_expire_at'].map(
      (column) => sql.ref(`${table}.${column}`),
    ),
  );

const toDependency = ({ id, name, filename, size, is_gone }: FoundDependency): Dependency => ({
  id,
  name,
  is_gone,
  archive: filename === null || size === null ? null : { filename, size },
});

/** Returns the names of the jobs of its pipeline whose archives it gets. Null: all of earlier stages. */
const namesOf = ({ needs, dependencies }: CompiledJob): readonly string[] | null => {
  const needed = needs?.filter(({ artifacts }) => artifacts).map(({ name }) => name) ?? null;
  return dependencies && needed ? dependencies.filter((name) => needed.includes(name)) : (dependencies ?? needed);
};

/** A job of another pipeline of the family. */
interface PipelineNeed {
  readonly pipeline: number;
  readonly job: string;
}

/**
 * `needs:pipeline` is the number of a pipeline of the family, or a variable with one (reference: ci §1). Returns 0 if it
 * is neither. By id of the job.
 */
const pipelineNumbers = async (
  ctx: Pick<Tx, 'db' | 'services'>,
  jobs: readonly Dependent[],
): Promise<ReadonlyMap<number, readonly PipelineNeed[]>> => {
  const asking = jobs.flatMap(({ job, options }) => {
    const needs = options.cross_needs.filter((need) => need.pipeline !== null && need.artifacts);
    return needs.length === 0 ? [] : [{ job, needs, variables: options.variables }];
  });
  if (asking.length === 0) return new Map();
  const pipelineIds = [...new Set(asking.map(({ job }) => job.pipeline_id))];
  const families = await familiesOf(ctx, pipelineIds);
  const given = await ctx.db
    .selectFrom('pipeline_variables')
    .select(['pipeline_id', 'key', 'sealed_value'])
    .where(sql<boolean>`pipeline_id = any (${pipelineIds}::bigint[])`)
    .execute();
  return new Map(
    asking.map(({ job, needs, variables }) => {
      const values = new Map(variables.map(({ key, value }) => [key, value]));
      for (const { pipeline_id, key, sealed_value } of given) {
        if (pipeline_id === job.pipeline_id) values.set(key, openGivenValue(ctx, sealed_value));
      }
      const numbers = needs.map((need) => {
        const number = numberIn(need.pipeline ?? '', values);
        return { pipeline: families.get(job.pipeline_id)?.has(number) ? number : 0, job: need.job };
      });
      return [job.id, numbers];
    }),
  );
};

const numberIn = (text: string, values: ReadonlyMap<string, string>): number => {
  try {
    const number = expandText(text, (name) => values.get(name));
    return /^\d{1,15}$/.test(number) ? Number(number) : 0;
  } catch (error) {
    // The text is too long.
    if (error instanceof ConfigError) return 0;
    throw error;
  }
};
