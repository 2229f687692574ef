import { sql } from 'kysely';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Tx } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';
import type { ScheduleRow, ScheduleScope, ScheduleVariableRow } from './model.ts';

const byId: readonly SortKey<ScheduleRow>[] = [{ by: sql.ref('pipeline_schedules.id'), of: ({ id }) => id }];

export interface ScheduleFilter {
  readonly scope?: ScheduleScope | null | undefined;
  readonly ids?: readonly number[] | null | undefined;
}

const matching = ({ db }: Pick<Context, 'db'>, { scope, ids }: ScheduleFilter = {}) => {
  let query = db
    .selectFrom('pipeline_schedules')
    .selectAll()
    .select(
      sql<
        number | null
      >`(select max(pipelines.id) from pipelines where pipelines.schedule_id = pipeline_schedules.id)`.as(
        'last_pipeline_id',
      ),
    );
  if (scope) query = query.where('active', '=', scope === 'active');
  if (ids) query = query.where(sql<boolean>`pipeline_schedules.id = any (${ids}::bigint[])`);
  return query;
};

/** Lists the schedules of the project, oldest first. @throws as `requireAbility(read_pipeline)` */
export const listSchedules = (ctx: Context, project: ProjectRow, filter: ScheduleFilter): List<ScheduleRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  return listOf(ctx.db, matching(ctx, filter).where('project_id', '=', project.id), byId, 'asc');
};

/** The same for many projects. The caller checks permissions. */
export const listSchedulesBelow = (ctx: Context, filter: ScheduleFilter): BatchedList<ScheduleRow> =>
  batchedListOf(ctx.db, (projectId) => matching(ctx, filter).where('project_id', '=', projectId), byId, 'asc');

/** @throws DomainError as `requireAbility(read_pipeline)`, `not_found` (Pipeline Schedule) */
export const getSchedule = async (ctx: Context, project: ProjectRow, id: number): Promise<ScheduleRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const row = await matching(ctx, { ids: [id] })
    .where('project_id', '=', project.id)
    .executeTakeFirst();
  if (!row) throw notFound('Pipeline Schedule');
  return row;
};

/** Returns the variables of the schedules, by schedule, in order of their keys. The caller checks permissions. */
export const variablesBySchedules = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly ScheduleVariableRow[]>> => {
  const rows = await db
    .selectFrom('pipeline_schedule_variables')
    .selectAll()
    .where(sql<boolean>`schedule_id = any (${ids}::bigint[])`)
    .orderBy('key')
    .execute();
  return Map.groupBy(rows, (row) => row.schedule_id);
};

/** Returns the schedule, or null if it is gone. The caller checks permissions. */
export const findScheduleRow = async (ctx: Pick<Context, 'db'>, id: number): Promise<ScheduleRow | null> =>
  (await matching(ctx, { ids: [id] }).executeTakeFirst()) ?? null;

/** Locks the schedule until the transaction ends. The caller checks permissions. Returns null if it is gone. */
export const lockScheduleRow = async (tx: Tx, id: number): Promise<ScheduleRow | null> => {
  await sql`select from pipeline_schedules where id = ${id} for no key update`.execute(tx.db);
  return findScheduleRow(tx, id);
};
