import { type Kysely, sql } from 'kysely';

/** The push options (`git push -o`), kept until the events of the push are written. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- in the format of webhook bodies: {"ci": {"skip": true}}
    alter table pushes add column push_options jsonb not null default '{}';
  `.execute(db);
};
