import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { replaceDotenvVariables } from './dotenv-variables.ts';

/** Records that the caller erased what the job has left, and drops its dotenv variables. */
export const recordErasure = async (tx: Tx, jobId: number): Promise<void> => {
  await tx.db
    .updateTable('jobs')
    .set({ erased_at: sql`now()`, erased_by_id: tx.actor.userId, artifacts_expire_at: null })
    .where('id', '=', jobId)
    .execute();
  await replaceDotenvVariables(tx, jobId, new Map());
};
