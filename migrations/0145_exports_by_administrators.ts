import { type Kysely, sql } from 'kysely';

/** Whether the person who asked for the export was an administrator then, as `project_imports` store it. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table project_exports add column by_administrator boolean not null default false`.execute(db);
};
