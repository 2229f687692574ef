import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { PipelineVariable } from './creation/insert.ts';
import { readableGivenValue } from './sealed-values.ts';

/** A variable that was given to a pipeline. Its value is null if it was encrypted with a lost key. */
type ReadVariable = Omit<Required<PipelineVariable>, 'value'> & { readonly value: string | null };

/** Returns the variables that were given to the pipeline, without checking access. Values that cannot be read are null. */
export const pipelineVariables = async (
  ctx: Pick<Context, 'db' | 'services'>,
  pipelineId: number,
): Promise<ReadVariable[]> => {
  const rows = await ctx.db
    .selectFrom('pipeline_variables')
    .selectAll()
    .where('pipeline_id', '=', pipelineId)
    .orderBy('key')
    .execute();
  return rows.map((row) => ({
    key: row.key,
    value: readableGivenValue(ctx, row.sealed_value),
    variable_type: row.variable_type === 'file' ? 'file' : 'env_var',
    raw: row.raw,
  }));
};

/** A variable that was given to a pipeline, or with playing a job. */
export interface ManualVariable {
  readonly key: string;
  readonly sealed_value: Buffer;
  readonly raw: boolean;
}

/** Returns the variables that were given to these pipelines, still sealed and without checking access. */
export const variablesByPipelineIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, ManualVariable[]>> => {
  const { rows } = await sql<ManualVariable & { pipeline_id: number }>`
    select pipeline_id, key, sealed_value, raw from pipeline_variables where pipeline_id = any (${ids}::bigint[])
    order by key`.execute(db);
  return Map.groupBy(rows, ({ pipeline_id }) => pipeline_id);
};

/** The same for jobs that were played with variables. */
export const manualVariablesByJobIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, ManualVariable[]>> => {
  const { rows } = await sql<ManualVariable & { job_id: number }>`
    select job_id, key, sealed_value, false as raw from job_variables
    where job_id = any (${ids}::bigint[]) and source = 'manual' order by key`.execute(db);
  return Map.groupBy(rows, ({ job_id }) => job_id);
};
