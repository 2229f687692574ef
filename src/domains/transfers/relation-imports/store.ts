import { sql, type UpdateObject } from 'kysely';
import { MAINTAINER } from '#domains/access/model.ts';
import { projectScope } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import type { DB } from '#platform/db/tables.ts';
import type { EventDefinition } from '#platform/events.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import { type RelationImportState, relationImportFailed, relationImportState } from '../events.ts';
import { Superseded } from '../model.ts';
import { type RelationImportRow, RUNNING_RELATION_IMPORT } from './model.ts';

/** Emits an event with the state of the relation import in this transaction. */
export const emitRelationImport = async (
  tx: Tx,
  row: RelationImportRow,
  definition: EventDefinition<RelationImportState>,
): Promise<void> => {
  const project = await findProject(tx.as(systemActor), { id: row.project_id });
  if (!project) return;
  tx.emit(definition, {
    ...projectScope(project),
    subject: { type: 'RelationImport', id: row.id },
    min_access_level: MAINTAINER,
    payload: relationImportState.parse({
      id: row.id,
      relation: row.relation,
      status: row.status,
      done: row.done_lines,
      total: row.total_lines,
      skipped: row.skipped_lines,
      error: row.error,
      user_id: row.user_id,
    }),
  });
};

/**
 * Changes a running relation import on behalf of its current attempt.
 *
 * @throws Superseded if it has ended or another attempt runs it
 */
export const updateStartedRelationImport = async (
  tx: Tx,
  { id, attempt }: Pick<RelationImportRow, 'id' | 'attempt'>,
  changes: UpdateObject<DB, 'relation_imports'>,
): Promise<RelationImportRow> => {
  const row = await tx.db
    .updateTable('relation_imports')
    .set({ ...changes, updated_at: sql`now()` })
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', '=', 'started')
    .returningAll()
    .executeTakeFirst();
  if (!row) throw new Superseded();
  return row;
};

interface FailOptions {
  /** Fails the import only while this attempt is the current one. */
  readonly attempt?: number;
  /** Keeps the archive, so that the import can be retried until it expires. */
  readonly keepsArchive?: boolean;
}

/** Marks a relation import as failed. */
export const failRelationImport = async (
  ctx: Context,
  id: number,
  error: string,
  { attempt, keepsArchive = false }: FailOptions = {},
): Promise<void> => {
  await ctx.transaction(async (tx) => {
    const before = await tx.db
      .selectFrom('relation_imports')
      .select(['attempt', 'storage_key'])
      .where('id', '=', id)
      .where('status', 'in', RUNNING_RELATION_IMPORT)
      .forUpdate()
      .executeTakeFirst();
    if (!before || (attempt !== undefined && before.attempt !== attempt)) return;
    const row = await tx.db
      .updateTable('relation_imports')
      .set({
        status: 'failed',
        error,
        finished_at: sql`now()`,
        updated_at: sql`now()`,
        ...(keepsArchive ? {} : { storage_key: null }),
      })
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow();
    if (before.storage_key !== null && !keepsArchive)
      tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [before.storage_key] });
    await emitRelationImport(tx, row, relationImportFailed);
  });
};
