import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { Dependencies } from './dependencies.ts';
import type { JobRow } from './queries.ts';
import { readableGivenValue } from './sealed-values.ts';

export interface GivenVariable {
  readonly key: string;
  readonly value: string;
  readonly file: boolean;
  readonly raw: boolean;
  /** The value was encrypted with a lost key, so it is empty here: no job may run with it. */
  readonly is_lost: boolean;
}

type VariableSource = 'pipeline' | 'manual' | 'dotenv';

/** The variables that came with the pipeline, with playing the job, and from dotenv reports of earlier jobs. */
export type GivenVariables = Readonly<Record<VariableSource, readonly GivenVariable[]>>;

interface Row {
  readonly pipeline_id: number | null;
  readonly job_id: number | null;
  readonly key: string;
  readonly sealed_value: Buffer;
  readonly source: VariableSource;
  readonly is_file: boolean;
  readonly raw: boolean;
}

/** Reads the given variables of these jobs in one statement. */
export const readGivenVariables = async (
  ctx: Pick<Context, 'db' | 'services'>,
  jobs: readonly { readonly job: JobRow }[],
  dependencies: ReadonlyMap<number, Dependencies>,
): Promise<ReadonlyMap<number, GivenVariables>> => {
  const earlier = [...dependencies.values()].flatMap(({ found }) => found.map(({ id }) => id));
  const { rows } = await sql<Row>`
    select pipeline_id, null::bigint as job_id, key, sealed_value, 'pipeline' as source,
      variable_type = 'file' as is_file, raw
    from pipeline_variables where pipeline_id = any (${[...new Set(jobs.map(({ job }) => job.pipeline_id))]}::bigint[])
    union all
    select null, job_id, key, sealed_value, source, false, source = 'dotenv'
    from job_variables where job_id = any (${[...new Set([...jobs.map(({ job }) => job.id), ...earlier])]}::bigint[])
    order by job_id, key`.execute(ctx.db);
  const select = (belongs: (row: Row) => boolean): GivenVariable[] =>
    rows.filter(belongs).map(({ key, sealed_value, is_file, raw }) => {
      const value = readableGivenValue(ctx, sealed_value);
      return { key, value: value ?? '', file: is_file, raw, is_lost: value === null };
    });
  return new Map(
    jobs.map(({ job }) => {
      const earlierOnes = new Set(dependencies.get(job.id)?.found.map(({ id }) => id));
      const given = {
        pipeline: select(({ pipeline_id }) => pipeline_id === job.pipeline_id),
        manual: select(({ job_id, source }) => job_id === job.id && source === 'manual'),
        dotenv: select(({ job_id, source }) => source === 'dotenv' && job_id !== null && earlierOnes.has(job_id)),
      };
      return [job.id, given];
    }),
  );
};
