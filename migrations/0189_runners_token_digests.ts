import { type Kysely, sql } from 'kysely';

/**
 * Lets runners register with the `runners_token` that the record of a project shows. The digest finds the project. A job
 * computes those of older tokens, because only the hub can decrypt these.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table projects add column runners_token_digest bytea;
    create unique index projects_runners_token_digest on projects (runners_token_digest)
      where runners_token_digest is not null;
    create index projects_runners_token_without_digest on projects (id)
      where runners_token is not null and runners_token_digest is null;
  `.execute(db);
};
