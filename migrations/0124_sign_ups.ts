import { type Kysely, sql } from 'kysely';

/**
 * Registrations that wait until their address is confirmed. The account is created then, so that nothing shows before
 * whether the address already belongs to an account.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table sign_ups (
      id bigint generated always as identity primary key,
      email text not null,
      username text not null,
      name text not null,
      password_hash text not null,
      -- Of the token in the mailed link. Null until the mail is sent.
      digest bytea unique,
      created_at timestamptz not null default now(),
      expires_at timestamptz not null
    );
    create index sign_ups_email on sign_ups (lower(email));
    create index sign_ups_expires_at on sign_ups (expires_at);

    -- The nightly job deletes accounts that were never confirmed and never used.
    create index users_unconfirmed on users (id)
      where confirmed_at is null and user_type = 'human' and sign_in_count = 0`.execute(db);
};
