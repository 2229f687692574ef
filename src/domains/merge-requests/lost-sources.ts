import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { refreshLater } from './versions/refresh.ts';

/** Checks the merge requests elsewhere whose source projects are about to be deleted, after this transaction. */
export const refreshThoseFrom = async (tx: Tx, projectIds: readonly number[]): Promise<void> => {
  const { rows } = await sql<{ id: number }>`
    select id from merge_requests
    where source_project_id = any (${projectIds}::bigint[]) and project_id <> all (${projectIds}::bigint[])
      and state = 'opened'`.execute(tx.db);
  for (const { id } of rows) refreshLater(tx, id);
};
