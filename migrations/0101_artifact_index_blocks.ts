import { type Kysely, sql } from 'kysely';

/** The blocks of the index of an archive as arrays, in which Postgres finds the block of a path by itself. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table job_artifacts
      -- The first path of each block, sorted.
      add column index_paths text[] collate "C",
      -- Where each block starts, and where the last one ends.
      add column index_offsets bigint[];
    -- The ends of the last blocks were not stored. No block is larger than this, and reading stops at the end of the file.
    update job_artifacts set
      index_paths = array(select block ->> 0 from jsonb_array_elements(index_blocks) with ordinality as b (block, n)
        order by n),
      index_offsets = array(select (block ->> 1)::bigint from jsonb_array_elements(index_blocks)
        with ordinality as b (block, n) order by n) || coalesce((index_blocks -> -1 ->> 1)::bigint + 65536, 0)
      where index_blocks is not null;
    alter table job_artifacts drop column index_blocks;
  `.execute(db);
};
