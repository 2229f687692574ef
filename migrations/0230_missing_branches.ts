import { type Kysely, sql } from 'kysely';

/** Whether the source or the target branch of a merge request was missing when it was last checked. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table merge_requests add column branch_missing boolean not null default false`.execute(db);
};
