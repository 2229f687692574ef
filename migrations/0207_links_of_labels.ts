import { type Kysely, sql } from 'kysely';

/** Finds the merge requests of a label without reading its links to issues, or the links themselves. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    drop index label_links_label;
    create index label_links_label on label_links (label_id, merge_request_id)
  `.execute(db);
};
