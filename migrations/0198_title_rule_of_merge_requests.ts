import { type Kysely, sql } from 'kysely';

/** What the titles of merge requests must match before they can be merged, and a text that explains it. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table projects
      add column merge_request_title_regex text,
      add column merge_request_title_regex_description text;
  `.execute(db);
};
