import type { Tx } from '#platform/context.ts';
import { sealGivenValue } from './sealed-values.ts';

/** Replaces the variables that a dotenv report of the job leaves for later jobs. */
export const replaceDotenvVariables = async (
  tx: Tx,
  job_id: number,
  variables: ReadonlyMap<string, string>,
): Promise<void> => {
  await tx.db.deleteFrom('job_variables').where('job_id', '=', job_id).where('source', '=', 'dotenv').execute();
  if (variables.size === 0) return;
  await tx.db
    .insertInto('job_variables')
    .values(
      [...variables].map(([key, value]) => ({
        job_id,
        key,
        sealed_value: sealGivenValue(tx, value),
        source: 'dotenv' as const,
      })),
    )
    .execute();
};
