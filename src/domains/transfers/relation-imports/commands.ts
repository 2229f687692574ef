import { sql } from 'kysely';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { conflict, forbidden } from '#platform/errors.ts';
import { requireNoImport } from '../begin-import.ts';
import { relationImportCreated } from '../events.ts';
import { importSingleRelation, relationImportKey } from '../jobs.ts';
import { IMPORT_TYPE } from '../model.ts';
import type { ImportableRelation, RelationImportRow } from './model.ts';
import { emitRelationImport } from './store.ts';

/**
 * Schedules the import of one relation of the archive into an existing project (specification 1 §4.1). The import owns
 * the stored file from now on.
 *
 * @throws DomainError `forbidden`, `conflict` while another import of the project is running
 */
export const scheduleRelationImport = async (
  ctx: Context,
  project: ProjectRow,
  { relation, storageKey }: { readonly relation: ImportableRelation; readonly storageKey: string },
): Promise<RelationImportRow> => {
  requireAbility(ctx, project, 'import_relation');
  if (!(await getSettings(ctx)).import_sources.includes(IMPORT_TYPE))
    throw forbidden('imports of archives are turned off on this instance');
  await limitAction(ctx, 'project_import_limit');
  return ctx.transaction(async (tx) => {
    await requireNoImport(tx, project);
    const row = await tx.db
      .insertInto('relation_imports')
      .values({
        project_id: project.id,
        user_id: ctx.actor.userId,
        by_administrator: ctx.actor.isAdmin,
        relation,
        storage_key: storageKey,
        correlation_id: ctx.requestId,
      })
      .onConflict((on) => on.doNothing())
      .returningAll()
      .executeTakeFirst();
    if (!row) throw conflict(RUNNING);
    await begin(tx, row);
    return row;
  });
};

const RUNNING = '409 Conflict - another relation import of the project is running';

const begin = async (tx: Tx, row: RelationImportRow): Promise<void> => {
  tx.enqueue(importSingleRelation, { relation_import_id: row.id }, { key: relationImportKey(row.id) });
  await emitRelationImport(tx, row, relationImportCreated);
};

/**
 * Schedules the last relation import of the project again, if it has failed. It continues where it stopped.
 *
 * @throws DomainError `forbidden`, `conflict` if it has not failed, its archive is gone, or another import of the project
 * is running
 */
export const retryRelationImport = async (ctx: Context, project: ProjectRow): Promise<void> => {
  requireAbility(ctx, project, 'import_relation');
  await ctx.transaction(async (tx) => {
    await requireNoImport(tx, project);
    const last = await tx.db
      .selectFrom('relation_imports')
      .select(['id', 'status', 'storage_key'])
      .where('project_id', '=', project.id)
      .orderBy('id', 'desc')
      .limit(1)
      .executeTakeFirst();
    if (last?.status !== 'failed') throw conflict('409 Conflict - the last relation import has not failed');
    const row = await tx.db
      .updateTable('relation_imports')
      .set({
        status: 'created',
        error: null,
        started_at: null,
        finished_at: null,
        lines_before: sql`done_lines`,
        updated_at: sql`now()`,
      })
      .where('id', '=', last.id)
      .where('status', '=', 'failed')
      .where('storage_key', 'is not', null)
      .returningAll()
      .executeTakeFirst()
      .catch(asRunning);
    if (!row) throw conflict('409 Conflict - the archive of the import is gone; import it again');
    await begin(tx, row);
  });
};

/** Rethrows an error of the database. @throws DomainError `conflict` if another relation import has started meanwhile */
const asRunning = (error: unknown): never => {
  throw brokenConstraint(error) === 'relation_imports_running' ? conflict(RUNNING) : error;
};
