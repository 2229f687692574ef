import { sql } from 'kysely';
import { z } from 'zod';
import type { Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { errorsCounted } from '../events.ts';
import { errorScope } from '../policy.ts';
import type { GroupRow } from './groups.ts';
import { lockProjects } from './projects.ts';

const DELAY_MS = 1_000;
/** Errors in one event. If more change within a second, the newest errors are announced. */
const MAX_ANNOUNCED = 500;

/**
 * Notes errors whose counts changed. A job announces them a second later, together with those of all batches until
 * then, so a flood makes no more than one event a second.
 */
export const noteChangedCounts = async (
  tx: Tx,
  rows: readonly Pick<GroupRow, 'id' | 'project_id'>[],
): Promise<void> => {
  const given = [...Map.groupBy(rows, ({ project_id }) => project_id)].map(([project_id, errors]) => ({
    project_id,
    ids: errors.map(({ id }) => id),
  }));
  const { rows: first } = await sql<{ project_id: number }>`
    with given as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(given)}::jsonb) as row (project_id bigint, ids bigint[])
    ), noted as (
      update error_tracking_projects p set changed_error_ids =
        array(select distinct id from unnest(p.changed_error_ids || given.ids) as id order by id desc
          limit ${sql.lit(MAX_ANNOUNCED)})
      from given where p.project_id = given.project_id
    )
    select project_id from error_tracking_projects join given using (project_id)
    where changed_error_ids = '{}'`.execute(tx.db);
  const runAt = new Date(Date.now() + DELAY_MS);
  for (const { project_id } of first) {
    tx.enqueue(announceCounts, { project_id }, { runAt, key: `error_tracking.announce_counts:${project_id}` });
  }
};

/** The job `error_tracking.announce_counts`: emits an event with the counts of the errors that changed. */
export const announceCounts = defineJob({
  name: 'error_tracking.announce_counts',
  input: z.object({ project_id: z.number() }).strict(),
  maxAttempts: 5,
  run: (ctx, { project_id }) =>
    ctx.transaction(async (tx) => {
      const project = (await lockProjects(tx, [project_id])).get(project_id);
      if (!project) return;
      const errors = await tx.db
        .selectFrom('errors')
        .select(['id', 'event_count', 'user_count', 'first_seen', 'last_seen'])
        .where('project_id', '=', project_id)
        .where(
          sql<boolean>`id = any (array(select unnest(changed_error_ids) from error_tracking_projects
            where project_id = ${project_id}))`,
        )
        .orderBy('id')
        .execute();
      await tx.db
        .updateTable('error_tracking_projects')
        .set({ changed_error_ids: [] })
        .where('project_id', '=', project_id)
        .execute();
      if (errors.length === 0) return;
      tx.emit(errorsCounted, {
        ...errorScope(project),
        subject: { type: 'Project', id: project_id },
        payload: { project_id, errors },
      });
    }),
});
