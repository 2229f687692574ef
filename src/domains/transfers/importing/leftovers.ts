import { sql } from 'kysely';
import { removeProject } from '#domains/projects/deletion.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { REPLACEMENT_MARK } from '../model.ts';

/** How long people can read why the import failed. */
const KEPT = '1 day';
const REMOVED_AT_ONCE = 500;

/**
 * Removes the projects of failed imports that were to replace another project, a day after the failure. They hold at
 * most a part of the data. Keeps projects that someone has renamed. For the job.
 */
export const removeFailedProjects = async (ctx: Context): Promise<void> => {
  const failed = sql`
    select i.project_id from project_imports i join projects p on p.id = i.project_id
    where i.status = 'failed' and i.target_path is not null
      and i.finished_at < now() - ${sql.lit(KEPT)}::interval and p.path like '%' || ${REPLACEMENT_MARK}::text || '%'`;
  const { rows } = await sql<{ project_id: number }>`
    ${failed} order by i.project_id limit ${REMOVED_AT_ONCE}`.execute(ctx.db);
  for (const { project_id } of rows) {
    ctx.signal.throwIfAborted();
    await ctx.transaction(async (tx) => {
      // Somebody may have retried the import or renamed the project meanwhile.
      const still = await sql`${failed} and i.project_id = ${project_id} for update of i`.execute(tx.db);
      const project = still.rows.length === 0 ? null : await findProject(tx, { id: project_id });
      if (project) await removeProject(tx, project);
    });
  }
};
