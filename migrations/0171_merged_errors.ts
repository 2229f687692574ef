import { type Kysely, sql } from 'kysely';

/** Errors that were merged into another one, until their events have moved there. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table error_merges (
      -- The id that the events still have. The error itself is gone.
      error_id bigint primary key,
      into_id bigint not null references errors (id) on delete cascade
    );
    create index error_merges_into on error_merges (into_id);
  `.execute(db);
};
