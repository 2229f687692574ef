import { type Kysely, sql } from 'kysely';

/** Lets a runner skip all pending jobs of a project that need other tags, however many there are. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index jobs_queue_by_tags on jobs (project_id, protected, hash_array_extended(tags, 0), id)
      where status = 'pending' and kind = 'build';
    drop index jobs_queue;
  `.execute(db);
};
