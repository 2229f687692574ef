import { RUNNING_IMPORT } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import type { Context } from '#platform/context.ts';
import { conflict, forbidden } from '#platform/errors.ts';
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
    // The lock makes this wait for a retry of the import, and the other way round.
    const whole = await tx.db
      .selectFrom('project_imports')
      .select('status')
      .where('project_id', '=', project.id)
      .forUpdate()
      .executeTakeFirst();
    if (RUNNING_IMPORT.some((status) => status === whole?.status))
      throw conflict('409 Conflict - the project is being imported');
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
    if (!row) throw conflict('409 Conflict - another relation import of the project is running');
    tx.enqueue(importSingleRelation, { relation_import_id: row.id }, { key: relationImportKey(row.id) });
    await emitRelationImport(tx, row, relationImportCreated);
    return row;
  });
};
