import { type Kysely, sql } from 'kysely';

/** The terms of the hub that users have accepted. A version is the digest of its text. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table terms_versions (
      version text primary key,
      text text not null,
      -- When somebody first accepted it.
      created_at timestamptz not null default now()
    );
    alter table users
      add column accepted_terms text references terms_versions (version),
      add column terms_accepted_at timestamptz;
    -- For the foreign key. Rows of old versions stay as evidence.
    create index users_accepted_terms on users (accepted_terms) where accepted_terms is not null`.execute(db);
};
