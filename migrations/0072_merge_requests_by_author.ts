import { type Kysely, sql } from 'kysely';

/**
 * Postgres read this index from end to end for lists of a project by time of creation, because it contains the author
 * too, and sorted what it found. The index by author alone finds the merge requests of an author.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`drop index merge_requests_by_author`.execute(db);
};
