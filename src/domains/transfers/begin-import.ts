import type { Insertable } from 'kysely';
import { type ProjectRow, RUNNING_IMPORT } from '#domains/projects/model.ts';
import type { Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import type { ProjectImports } from '#platform/db/tables.ts';
import { conflict } from '#platform/errors.ts';
import { emitImport } from './emit-progress.ts';
import { importScheduled } from './events.ts';
import { importByUrl, importKey, importProject } from './jobs.ts';

/** The attributes that differ between kinds of imports. */
export type ImportSource = Pick<
  Insertable<ProjectImports>,
  | 'import_type'
  | 'storage_key'
  | 'source_url'
  | 'override_params'
  | 'replaces_project_id'
  | 'target_name'
  | 'target_path'
>;

/**
 * Schedules the job that fills the project which this transaction creates.
 *
 * @throws DomainError `conflict` while another import replaces the same project
 */
export const beginImport = async (tx: Tx, project: ProjectRow, source: ImportSource): Promise<void> => {
  const row = await tx.db
    .insertInto('project_imports')
    .values({
      ...source,
      project_id: project.id,
      user_id: tx.actor.userId,
      by_administrator: tx.actor.isAdmin,
      correlation_id: tx.requestId,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
    .catch(asReplaced);
  tx.enqueue(source.source_url ? importByUrl : importProject, { import_id: row.id }, { key: importKey(row.id) });
  await emitImport(tx, project, row, importScheduled);
};

// The second constraint breaks if another import has replaced the project since it was found.
const REPLACED: readonly (string | null)[] = ['project_imports_replacing', 'project_imports_replaces_project_id_fkey'];

/** Rethrows an error of the database. @throws DomainError `conflict` if another import replaces the same project */
export const asReplaced = (error: unknown): never => {
  if (REPLACED.includes(brokenConstraint(error)))
    throw conflict('409 Conflict - another import is replacing the project');
  throw error;
};

/** @throws DomainError `conflict` while the import that creates the project is running */
export const requireNoImport = async (tx: Tx, project: Pick<ProjectRow, 'id'>): Promise<void> => {
  // The lock makes this wait for a retry of the import, and the other way round.
  const whole = await tx.db
    .selectFrom('project_imports')
    .select('status')
    .where('project_id', '=', project.id)
    .forUpdate()
    .executeTakeFirst();
  if (RUNNING_IMPORT.some((status) => status === whole?.status))
    throw conflict('409 Conflict - the project is being imported');
};
