import { type RawBuilder, sql } from 'kysely';
import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { dropPartitions, ensurePartitions } from '#platform/db/partitions.ts';
import { defineJob } from '#platform/jobs.ts';
import { DAY_MS } from '#platform/values/units.ts';
import { ERROR_EVENTS } from './partitions.ts';

/** Events and hourly counts are kept for so many days (specification 1 §8). */
const RETENTION_DAYS = 90;
const BATCH = 5_000;

/**
 * The job `error_tracking.prune`: prepares the partition of the next week, drops those whose last day is over the
 * retention, and deletes hourly counts as old. Errors keep their totals. Also deletes the events of deleted projects.
 */
export const pruneErrors = defineJob({
  name: 'error_tracking.prune',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '29 * * * *',
  long: true,
  run: async (ctx) => {
    const now = ctx.clock.now();
    await ensurePartitions(ctx, ERROR_EVENTS, [now, new Date(now.getTime() + 7 * DAY_MS)]);
    const limit = new Date(now.getTime() - RETENTION_DAYS * DAY_MS);
    await dropPartitions(ctx, ERROR_EVENTS, limit);
    const oldest = limit.toISOString();
    await deleteRows(
      ctx,
      sql`delete from error_hours where (error_id, hour) in (
      select error_id, hour from error_hours where hour < ${oldest} limit ${sql.lit(BATCH)})`,
    );
    await deleteRows(
      ctx,
      sql`delete from error_project_hours where (project_id, hour) in (
      select project_id, hour from error_project_hours where hour < ${oldest} limit ${sql.lit(BATCH)})`,
    );
    await deleteRows(
      ctx,
      sql`delete from error_session_hours where (release_id, environment, hour) in (
      select release_id, environment, hour from error_session_hours where hour < ${oldest} limit ${sql.lit(BATCH)})`,
    );
    await deleteRows(
      ctx,
      sql`delete from error_session_outcomes where (release_id, sid, outcome) in (
      select release_id, sid, outcome from error_session_outcomes where hour < ${oldest} limit ${sql.lit(BATCH)})`,
    );
    await deleteRows(
      ctx,
      sql`delete from error_client_discards where (project_id, hour, reason, category) in (
      select project_id, hour, reason, category from error_client_discards where hour < ${oldest}
      limit ${sql.lit(BATCH)})`,
    );
    await deleteRows(
      ctx,
      sql`delete from error_facets where (error_id, kind, value) in (
      select error_id, kind, value from error_facets where last_seen < ${oldest} limit ${sql.lit(BATCH)})`,
    );
    await deleteRows(
      ctx,
      sql`delete from error_user_reports where (project_id, event_id) in (
      select project_id, event_id from error_user_reports where received_at < ${oldest} limit ${sql.lit(BATCH)})`,
    );
    await forgetDeletedProjects(ctx);
  },
});

/** Repeats the statement until it finds less than a batch, each in its own transaction. */
const deleteRows = async (ctx: Context, statement: RawBuilder<unknown>): Promise<void> => {
  for (let deleted = BATCH; deleted === BATCH; ) {
    ctx.signal.throwIfAborted();
    deleted = Number((await statement.execute(ctx.db)).numAffectedRows ?? 0);
  }
};

/** Nothing refers to these projects any more, and ids are not used again. */
const forgetDeletedProjects = async (ctx: Context): Promise<void> => {
  const gone = await ctx.db
    .selectFrom('error_tracking_projects as t')
    .select('t.project_id')
    .where(sql<boolean>`not exists (select from projects p where p.id = t.project_id)`)
    .execute();
  for (const { project_id } of gone) {
    await deleteRows(
      ctx,
      sql`delete from error_events where (project_id, event_id, received_at) in (
      select project_id, event_id, received_at from error_events where project_id = ${project_id}
      limit ${sql.lit(BATCH)})`,
    );
    await ctx.db.deleteFrom('error_tracking_projects').where('project_id', '=', project_id).execute();
  }
};
