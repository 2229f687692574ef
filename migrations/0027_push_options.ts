import { type Kysely, sql } from 'kysely';

/** What the person who pushed gave along (`git push -o`), kept until the events of the push are written. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- as webhook bodies tell of them: {"ci": {"skip": true}}
    alter table pushes add column push_options jsonb not null default '{}';
  `.execute(db);
};
