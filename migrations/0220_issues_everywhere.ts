import { type Kysely, sql } from 'kysely';

/** For the lists of all issues that a caller can see, by the usual orders. The other indexes begin with the project. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index issues_created on issues (created_at, id);
    create index issues_updated on issues (updated_at, id);
  `.execute(db);
};
