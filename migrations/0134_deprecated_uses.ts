import { type Kysely, sql } from 'kysely';

/** How often each token used what is deprecated, by day. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table deprecated_uses (
      id bigint generated always as identity primary key,
      day date not null,
      -- token, oauth_token, session, job_token, password or none
      kind text not null,
      -- The id of a personal access token, the family of an OAuth token, or the id of the holder. Empty for none.
      credential text not null,
      -- The user who holds the credential. Null for anonymous callers.
      holder_id bigint references users (id) on delete cascade,
      name text not null,
      uses bigint not null,
      last_used_at timestamptz not null,
      unique (kind, credential, name, day)
    );
    create index deprecated_uses_holder_id on deprecated_uses (holder_id, last_used_at desc);
    create index deprecated_uses_last_used_at on deprecated_uses (last_used_at desc)`.execute(db);
};
