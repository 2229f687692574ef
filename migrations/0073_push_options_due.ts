import { type Kysely, sql } from 'kysely';

/** Whether push options wait to be carried out. Their push is recorded already. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table pushes add column options_due boolean not null default false;
    create index pushes_options_due on pushes (id) where options_due;
  `.execute(db);
};
