import { type Kysely, sql } from 'kysely';

/** Sign-in: sessions, email addresses, second factors, OAuth applications with their grants and tokens, and runners. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table users
      -- TOTP secret, encrypted with the instance key; used while two_factor_enabled
      add column otp_secret bytea,
      -- the last used 30-second step: each code is valid once
      add column otp_used_step bigint,
      -- an address that awaits confirmation and then replaces email
      add column unconfirmed_email text,
      -- since when a user who needs a second factor lacks one: the start of the grace period
      add column two_factor_grace_started_at timestamptz,
      add column password_changed_at timestamptz;

    -- Email addresses besides the primary one. Confirmed ones are unique; unconfirmed ones may belong to several users.
    create table emails (
      id bigint generated always as identity primary key,
      user_id bigint not null references users (id) on delete cascade,
      email text not null,
      confirmed_at timestamptz,
      created_at timestamptz not null default now()
    );
    create unique index emails_of_user on emails (user_id, lower(email));
    create unique index emails_confirmed on emails (lower(email)) where confirmed_at is not null;
    create index emails_email on emails (lower(email));

    -- Single-use tokens of links in mails: confirm an address, reset a password.
    create table mail_tokens (
      id bigint generated always as identity primary key,
      user_id bigint not null references users (id) on delete cascade,
      purpose text not null check (purpose in ('confirm_email', 'reset_password', 'unlock')),
      -- the recipient of the mail
      email text not null,
      digest bytea not null unique,
      expires_at timestamptz not null,
      created_at timestamptz not null default now()
    );
    create index mail_tokens_user on mail_tokens (user_id, purpose);

    create table recovery_codes (
      user_id bigint not null references users (id) on delete cascade,
      digest bytea not null,
      primary key (user_id, digest)
    );

    create table sessions (
      id bigint generated always as identity primary key,
      user_id bigint not null references users (id) on delete cascade,
      -- the digest of the cookie's value
      digest bytea not null unique,
      ip text,
      user_agent text,
      -- the last time the user authenticated
      authenticated_at timestamptz not null default now(),
      last_used_at timestamptz not null default now(),
      expires_at timestamptz not null,
      created_at timestamptz not null default now()
    );
    create index sessions_user on sessions (user_id, id);
    create index sessions_expiry on sessions (expires_at);

    -- Rate limit counters shared by all processes: brute-force protection and throttles.
    create unlogged table rate_counts (
      key text primary key,
      count integer not null,
      resets_at timestamptz not null
    );
    create index rate_counts_reset on rate_counts (resets_at);

    alter table personal_access_tokens
      -- tokens rotated from one another share a family; reuse of a rotated token revokes the family
      add column family_id uuid not null default gen_random_uuid(),
      add column rotated_at timestamptz,
      add column revoked_at timestamptz;
    create index personal_access_tokens_family on personal_access_tokens (family_id);
    create index personal_access_tokens_expiry on personal_access_tokens (expires_at) where not revoked;

    create table oauth_applications (
      id bigint generated always as identity primary key,
      -- the client_id of clients
      uid text not null unique,
      secret_digest bytea not null,
      -- null: registered by an administrator for the whole hub
      owner_id bigint references users (id) on delete cascade,
      name text not null,
      redirect_uris text[] not null default '{}',
      scopes text[] not null default '{}',
      confidential boolean not null default true,
      -- its users are not asked for consent
      trusted boolean not null default false,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    create index oauth_applications_owner on oauth_applications (owner_id, id);

    -- Authorization codes. The tokens of one authorization share its family_id and are revoked together.
    create table oauth_grants (
      id bigint generated always as identity primary key,
      application_id bigint not null references oauth_applications (id) on delete cascade,
      user_id bigint not null references users (id) on delete cascade,
      digest bytea not null unique,
      redirect_uri text not null,
      scopes text[] not null,
      code_challenge text,
      nonce text,
      authenticated_at timestamptz,
      family_id uuid not null default gen_random_uuid(),
      used_at timestamptz,
      expires_at timestamptz not null,
      created_at timestamptz not null default now()
    );
    create index oauth_grants_application on oauth_grants (application_id);
    create index oauth_grants_user on oauth_grants (user_id);
    create index oauth_grants_expiry on oauth_grants (expires_at);

    create table oauth_access_tokens (
      id bigint generated always as identity primary key,
      -- null: the password grant without a client
      application_id bigint references oauth_applications (id) on delete cascade,
      user_id bigint not null references users (id) on delete cascade,
      digest bytea not null unique,
      refresh_digest bytea unique,
      scopes text[] not null,
      -- a refresh requires the verifier again if the code was requested with a challenge
      code_challenge text,
      redirect_uri text,
      family_id uuid not null,
      expires_at timestamptz,
      refreshed_at timestamptz,
      revoked_at timestamptz,
      last_used_at timestamptz,
      created_at timestamptz not null default now()
    );
    create index oauth_access_tokens_user on oauth_access_tokens (user_id, application_id) where revoked_at is null;
    create index oauth_access_tokens_application on oauth_access_tokens (application_id);
    create index oauth_access_tokens_family on oauth_access_tokens (family_id);

    create table oauth_device_grants (
      id bigint generated always as identity primary key,
      application_id bigint not null references oauth_applications (id) on delete cascade,
      digest bytea not null unique,
      user_code_digest bytea not null unique,
      scopes text[] not null,
      state text not null default 'pending' check (state in ('pending', 'approved', 'denied', 'used')),
      user_id bigint references users (id) on delete cascade,
      -- increases by five seconds whenever the device polls too fast
      interval_seconds integer not null default 5,
      last_polled_at timestamptz,
      expires_at timestamptz not null,
      created_at timestamptz not null default now()
    );
    create index oauth_device_grants_expiry on oauth_device_grants (expires_at);

    -- Keys that sign id tokens. The newest one signs; older ones still verify.
    create table oauth_signing_keys (
      id bigint generated always as identity primary key,
      kid text not null unique,
      public_jwk jsonb not null,
      -- the private JWK, encrypted with the instance key
      private_jwk bytea not null,
      created_at timestamptz not null default now()
    );

    create table custom_attributes (
      id bigint generated always as identity primary key,
      user_id bigint references users (id) on delete cascade,
      namespace_id bigint references namespaces (id) on delete cascade,
      project_id bigint references projects (id) on delete cascade,
      key text not null,
      value text not null,
      check (num_nonnulls(user_id, namespace_id, project_id) = 1)
    );
    create unique index custom_attributes_user on custom_attributes (user_id, key) where user_id is not null;
    create unique index custom_attributes_namespace on custom_attributes (namespace_id, key) where namespace_id is not null;
    create unique index custom_attributes_project on custom_attributes (project_id, key) where project_id is not null;
    create index custom_attributes_value on custom_attributes (key, value);

    create table runners (
      id bigint generated always as identity primary key,
      runner_type text not null check (runner_type in ('instance_type', 'group_type', 'project_type')),
      namespace_id bigint references namespaces (id) on delete cascade,
      project_id bigint references projects (id) on delete cascade,
      creator_id bigint references users (id) on delete set null,
      digest bytea not null unique,
      token_expires_at timestamptz,
      description text not null default '',
      maintenance_note text,
      paused boolean not null default false,
      locked boolean not null default false,
      run_untagged boolean not null default true,
      tags text[] not null default '{}',
      access_level text not null default 'not_protected' check (access_level in ('not_protected', 'ref_protected')),
      maximum_timeout integer,
      contacted_at timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      check ((runner_type = 'group_type') = (namespace_id is not null)),
      check ((runner_type = 'project_type') = (project_id is not null))
    );
    create index runners_namespace on runners (namespace_id);
    create index runners_project on runners (project_id);

    create index users_activity on users (last_activity_on, id);
    create index users_email_search on users using gin (email gin_trgm_ops);
  `.execute(db);
};
