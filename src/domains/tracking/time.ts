import { type Selectable, sql } from 'kysely';
import { readDuration, readEstimate, timeStats } from '#domains/planning/time-tracking.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import type { Timelogs } from '#platform/db/tables.ts';
import { forbidden, unauthenticated } from '#platform/errors.ts';
import { issuableOf, type Tracked, type TrackedKind, updateTracked } from './tracked.ts';

export type TimelogRow = Selectable<Timelogs>;

/** Time tracking is for those who may change everything about the issue or merge request. */
const requireTracking = (ctx: Context, { kind, project }: Tracked): void => {
  if (ctx.actor.userId === null) throw unauthenticated();
  requireAbility(ctx, project, kind === 'issue' ? 'admin_issue' : 'admin_merge_request');
};

/** Sets the estimate. @throws DomainError `forbidden`, `bad_request` for a bad or negative duration */
export const setTimeEstimate = async (ctx: Context, tracked: Tracked, duration: string): Promise<Tracked> => {
  requireTracking(ctx, tracked);
  return updateTracked(ctx, tracked, { time_estimate: readEstimate(duration, 'duration') });
};

export interface NewSpentTime {
  readonly duration: string;
  readonly summary?: string | null | undefined;
  readonly spent_at?: string | null | undefined;
}

/**
 * Adds time, or subtracts a negative one. `name` is what the caller's interface calls the duration, for errors.
 *
 * @throws DomainError `forbidden`, `bad_request`
 */
export const addSpentTime = async (
  ctx: Context,
  tracked: Tracked,
  { duration, ...more }: NewSpentTime,
  name: 'duration' | 'timeSpent',
): Promise<Tracked> => {
  requireTracking(ctx, tracked);
  return updateTracked(ctx, tracked, { spent_time: { seconds: readDuration(duration, name), ...more } });
};

/** Takes all spent time back. @throws DomainError `forbidden` */
export const resetSpentTime = async (ctx: Context, tracked: Tracked): Promise<Tracked> => {
  requireTracking(ctx, tracked);
  return updateTracked(ctx, tracked, { spent_time: { seconds: 'reset' } });
};

/** Deletes a logged time. For its author, and Maintainers. @throws DomainError `forbidden` */
export const removeTimelog = async (ctx: Context, tracked: Tracked, timelog: TimelogRow): Promise<void> => {
  requireTracking(ctx, tracked);
  const isOwn = timelog.user_id !== null && timelog.user_id === ctx.actor.userId;
  if (!isOwn && !can(ctx, tracked.project, 'admin_note')) throw forbidden();
  await updateTracked(ctx, tracked, { delete_timelog: timelog.id });
};

/** Returns the times of the record. */
export const timeStatsOf = async (ctx: Pick<Context, 'db'>, tracked: Tracked) => {
  const [[column, id] = ['issue_id', 0]] = Object.entries(issuableOf(tracked));
  const { rows } = await sql<{ total: number }>`
    select coalesce(sum(time_spent), 0)::bigint as total from timelogs where ${sql.ref(column)} = ${id}`.execute(
    ctx.db,
  );
  return timeStats(tracked.row.time_estimate, rows[0]?.total ?? 0);
};

/** Lists the logged times of many issues or merge requests, oldest first. The caller can see them. */
export const listTimelogsBelow = (ctx: Pick<Context, 'db'>, kind: TrackedKind): BatchedList<TimelogRow> =>
  batchedListOf(
    ctx.db,
    (id) =>
      ctx.db
        .selectFrom('timelogs')
        .selectAll()
        .where(sql<boolean>`${sql.ref(`timelogs.${kind}_id`)} = ${id}`),
    [{ by: sql.ref('timelogs.id'), of: (row) => row.id }],
    'asc',
  );

/** Finds a logged time. The caller still has to check access to its issue or merge request. */
export const findTimelog = async (ctx: Pick<Context, 'db'>, id: number): Promise<TimelogRow | null> =>
  (await ctx.db.selectFrom('timelogs').selectAll().where('id', '=', id).executeTakeFirst()) ?? null;
