import { sql } from 'kysely';
import { raiseIid } from '#domains/projects/insert.ts';
import type { Tx } from '#platform/context.ts';
import { NUMBERED, NUMBERED_RELATIONS, type NumberedRelation } from '../relations/numbered.ts';

/** Raises the counters above the numbers of an archive, so that a later attempt finds them free. */
export const reserveNumbers = async (
  tx: Tx,
  projectId: number,
  numbers: Readonly<Partial<Record<NumberedRelation, number>>>,
): Promise<void> => {
  for (const relation of NUMBERED_RELATIONS)
    await raiseIid(tx, projectId, NUMBERED[relation].counter, numbers[relation] ?? 0);
};

/** Raises the counter of a relation above the numbers that the project has. */
export const countUp = async (tx: Tx, projectId: number, relation: NumberedRelation): Promise<void> => {
  const { table, counter } = NUMBERED[relation];
  const { rows } = await sql<{ last: number }>`
    select coalesce(max(iid), 0) as last from ${sql.table(table)} where project_id = ${projectId}`.execute(tx.db);
  await raiseIid(tx, projectId, counter, rows[0]?.last ?? 0);
};
