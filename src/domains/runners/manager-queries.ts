import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import type { RunnerStatus } from './model.ts';
import { contactStatus } from './queries.ts';

/** A process that runs jobs with the token of a runner. */
export interface ManagerRow {
  readonly id: number;
  readonly runner_id: number;
  readonly system_id: string;
  readonly version: string | null;
  readonly revision: string | null;
  readonly platform: string | null;
  readonly architecture: string | null;
  readonly ip_address: string | null;
  readonly contacted_at: string | null;
  readonly created_at: string;
  readonly status: RunnerStatus;
  /** Whether it runs a job. */
  readonly job_execution_status: 'active' | 'idle';
}

const managers = ({ db }: Pick<Context, 'db'>) =>
  db
    .selectFrom('runner_managers')
    .select(['id', 'runner_id', 'system_id', 'version', 'revision', 'platform', 'architecture'])
    .select(['ip_address', 'contacted_at', 'created_at'])
    .select([
      contactStatus('runner_managers').as('status'),
      sql<
        ManagerRow['job_execution_status']
      >`case when exists (select 1 from jobs where jobs.runner_manager_id = runner_managers.id
        and jobs.status in ('running', 'canceling')) then 'active' else 'idle' end`.as('job_execution_status'),
    ]);

const BY_ID: readonly SortKey<ManagerRow>[] = [{ by: sql.ref('runner_managers.id'), of: (row) => row.id }];

/** Lists the managers of a runner, newest first. The caller has checked that they manage the runner. */
export const listManagers = (ctx: Context, runnerId: number): List<ManagerRow> =>
  listOf(ctx.db, managers(ctx).where('runner_id', '=', runnerId), BY_ID, 'desc');

/** The same for many runners at once. */
export const listManagersBelow = (ctx: Context): BatchedList<ManagerRow> =>
  batchedListOf(ctx.db, (runnerId) => managers(ctx).where('runner_id', '=', runnerId), BY_ID, 'desc');

/** Returns the manager of each runner that was in contact last. */
export const latestManagers = async (ctx: Context, runnerIds: readonly number[]): Promise<Map<number, ManagerRow>> => {
  const rows = await managers(ctx)
    .distinctOn('runner_id')
    .where(sql<boolean>`runner_id = any (${runnerIds}::bigint[])`)
    .orderBy('runner_id')
    .orderBy('contacted_at', (order) => order.desc().nullsLast())
    .execute();
  return new Map(rows.map((row) => [row.runner_id, row]));
};

/** Returns these managers, without checking access. */
export const managersByIds = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, ManagerRow>> => {
  if (ids.length === 0) return new Map();
  const rows = await managers(ctx).where(sql<boolean>`id = any (${ids}::bigint[])`).execute();
  return new Map(rows.map((row) => [row.id, row]));
};
