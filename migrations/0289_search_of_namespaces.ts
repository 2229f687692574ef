import { type Kysely, sql } from 'kysely';

/** Searches in full paths read all namespaces: the other trigram index has names and paths of groups only. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index namespaces_search_full_path on namespaces using gin (name gin_trgm_ops, full_path gin_trgm_ops)`.execute(
    db,
  );
};
