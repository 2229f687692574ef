import { z } from 'zod';
import { type PipelineRow, pipelinesByIds } from '#domains/ci/queries.ts';
import { readableValue } from '#domains/ci-variables/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { only } from '#platform/values/only.ts';
import { inputsOf, type ScheduleRow, type ScheduleVariableRow } from './model.ts';
import { mayChange } from './policy.ts';
import { variablesBySchedules } from './queries.ts';

export const scheduleVariableRecord = z
  .object({
    key: z.string(),
    variable_type: z.string(),
    value: z.string().nullable().describe('Null if it was encrypted with a lost key.'),
  })
  .meta({ id: 'PipelineScheduleVariable' });

export const scheduleRecord = z
  .object({
    id: z.int(),
    description: z.string(),
    ref: z.string(),
    cron: z.string(),
    cron_timezone: z.string(),
    next_run_at: z.string().nullable(),
    active: z.boolean(),
    created_at: z.string(),
    updated_at: z.string(),
    owner: userBasicRecord.nullable(),
    inputs: z.array(z.object({ name: z.string(), value: z.unknown() })),
  })
  .meta({ id: 'PipelineSchedule' });

export const scheduleDetailsRecord = scheduleRecord
  .extend({
    last_pipeline: z
      .object({ id: z.int(), sha: z.string().nullable(), ref: z.string().nullable(), status: z.string() })
      .nullable(),
    variables: z.array(scheduleVariableRecord).optional().describe('Only for the owner.'),
  })
  .meta({ id: 'PipelineScheduleDetails' });

export const toSchedules = async (
  ctx: Context,
  rows: readonly ScheduleRow[],
): Promise<z.output<typeof scheduleRecord>[]> => {
  const users = await userBasicsByIds(
    ctx,
    rows.map(({ owner_id }) => owner_id),
  );
  return rows.map((row) => {
    return {
      id: row.id,
      description: row.description,
      ref: row.ref,
      cron: row.cron,
      cron_timezone: row.cron_timezone,
      next_run_at: isoTime(row.next_run_at),
      active: row.active,
      created_at: isoTime(row.created_at),
      updated_at: isoTime(row.updated_at),
      owner: users.get(row.owner_id) ?? null,
      inputs: inputsOf(row).map(({ name, value }) => ({ name, value })),
    };
  });
};

export const toScheduleDetails = async (
  ctx: Context,
  project: ProjectRow,
  row: ScheduleRow,
): Promise<z.output<typeof scheduleDetailsRecord>> => {
  const [schedules, pipelines, variables] = await Promise.all([
    toSchedules(ctx, [row]),
    pipelinesByIds(ctx, row.last_pipeline_id === null ? [] : [row.last_pipeline_id]),
    mayChange(ctx, project, row) ? variablesBySchedules(ctx, [row.id]) : null,
  ]);
  const last = pipelines.get(row.last_pipeline_id ?? 0);
  return {
    ...only(schedules),
    last_pipeline: last ? toLastPipeline(last) : null,
    ...(variables ? { variables: (variables.get(row.id) ?? []).map((each) => toScheduleVariable(ctx, each)) } : {}),
  };
};

const toLastPipeline = ({ id, sha, ref, status }: PipelineRow) => ({ id, sha, ref, status });

export const toScheduleVariable = (
  ctx: Context,
  row: ScheduleVariableRow,
): z.output<typeof scheduleVariableRecord> => ({
  key: row.key,
  variable_type: row.variable_type,
  value: readableValue(ctx, row),
});
