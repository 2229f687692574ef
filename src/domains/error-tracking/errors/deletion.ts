import { sql } from 'kysely';
import { z } from 'zod';
import { lockProjectFor } from '#domains/projects/locks.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { errorDeleted } from '../events.ts';
import { emitForErrors } from './emit.ts';

const BATCH = 5_000;

/**
 * Deletes an error with its counts. A job deletes its events. If it occurs again, it is a new error.
 *
 * @throws DomainError `forbidden` below Maintainer, `not_found`
 */
export const deleteError = async (ctx: Context, seen: ProjectRow, id: number): Promise<void> => {
  requireAbility(ctx, seen, 'admin_error_tracking');
  await ctx.transaction(async (tx) => {
    const project = await lockProjectFor(tx, seen, 'admin_error_tracking');
    const locked = await tx.db
      .selectFrom('errors')
      .select('id')
      .where('id', '=', id)
      .where('project_id', '=', project.id)
      .forUpdate()
      .executeTakeFirst();
    if (!locked) throw notFound('Error');
    await emitForErrors(tx, errorDeleted, [id]);
    // Events of errors that were merged into it may still have their former id.
    const merged = await tx.db.deleteFrom('error_merges').where('into_id', '=', id).returning('error_id').execute();
    await tx.db.deleteFrom('errors').where('id', '=', id).execute();
    for (const error_id of [id, ...merged.map((row) => row.error_id)]) tx.enqueue(deleteEvents, { error_id });
  });
};

/** The job `error_tracking.delete_events` deletes the events of a deleted error, with what people wrote about them. */
export const deleteEvents = defineJob({
  name: 'error_tracking.delete_events',
  input: z.object({ error_id: z.number() }).strict(),
  maxAttempts: 5,
  long: true,
  run: async (ctx, { error_id }) => {
    for (let deleted = BATCH; deleted === BATCH; ) {
      ctx.signal.throwIfAborted();
      const { rows } = await sql<{ count: number }>`
        with gone as (
          delete from error_events where (project_id, event_id, received_at) in (
            select project_id, event_id, received_at from error_events where error_id = ${error_id}
            limit ${sql.lit(BATCH)})
          returning project_id, event_id
        ), reports as (
          delete from error_user_reports r using gone where r.project_id = gone.project_id and r.event_id = gone.event_id
        )
        select count(*) as count from gone`.execute(ctx.db);
      deleted = rows[0]?.count ?? 0;
    }
  },
});
