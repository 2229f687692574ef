import { type Kysely, sql } from 'kysely';

/** Searches for projects look in the full names of their namespaces too. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`create index namespaces_search_full_name on namespaces using gin (full_name gin_trgm_ops)`.execute(db);
  // Networks only restrict top-level groups. Groups that moved below another kept theirs without effect.
  await sql`update namespaces set ip_restriction_ranges = null where parent_id is not null`.execute(db);
};
