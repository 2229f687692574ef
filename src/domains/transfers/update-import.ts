import type { UpdateObject } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { DB } from '#platform/db/tables.ts';
import { type ImportRow, Superseded } from './model.ts';

/**
 * Changes a running import on behalf of its current attempt.
 *
 * @throws Superseded if it has ended or another attempt runs it
 */
export const updateStartedImport = async (
  tx: Tx,
  { id, attempt }: Pick<ImportRow, 'id' | 'attempt'>,
  changes: UpdateObject<DB, 'project_imports'>,
): Promise<ImportRow> => {
  const row = await tx.db
    .updateTable('project_imports')
    .set(changes)
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', '=', 'started')
    .returningAll()
    .executeTakeFirst();
  if (!row) throw new Superseded();
  return row;
};

/**
 * Locks a running import until the end of the transaction, on behalf of its current attempt.
 *
 * @throws Superseded if it has ended or another attempt runs it
 */
export const lockStartedImport = async (tx: Tx, { id, attempt }: Pick<ImportRow, 'id' | 'attempt'>): Promise<void> => {
  const row = await tx.db
    .selectFrom('project_imports')
    .select('id')
    .where('id', '=', id)
    .where('attempt', '=', attempt)
    .where('status', '=', 'started')
    .forUpdate()
    .executeTakeFirst();
  if (!row) throw new Superseded();
};
