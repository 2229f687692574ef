import { type Kysely, sql } from 'kysely';

/**
 * The user who created a credential, and the OAuth authorization through which it was created, directly or indirectly.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- An authorization through which credentials were created. No foreign keys: the row outlives the application and
    -- the user who authorized it.
    create table credential_origins (
      -- the token family of the authorization
      id uuid primary key,
      -- the user who authorized the application
      user_id bigint not null,
      -- null: the password grant without a client
      application_id bigint,
      -- the name of the application at that time
      application_name text,
      -- when its credentials ended with it, if the setting oauth_grants_end_credentials required that
      ended_at timestamptz,
      created_at timestamptz not null default now()
    );
    create index credential_origins_user on credential_origins (user_id, application_id);
    create index credential_origins_application on credential_origins (application_id);

    -- For existing credentials, neither is known.
    alter table personal_access_tokens
      add column created_by_id bigint references users (id) on delete set null,
      add column origin_id uuid references credential_origins (id);
    create index personal_access_tokens_created_by on personal_access_tokens (created_by_id) where created_by_id is not null;
    create index personal_access_tokens_origin on personal_access_tokens (origin_id) where origin_id is not null;

    alter table oauth_applications
      add column created_by_id bigint references users (id) on delete set null,
      add column origin_id uuid references credential_origins (id);
    create index oauth_applications_created_by on oauth_applications (created_by_id) where created_by_id is not null;
    create index oauth_applications_origin on oauth_applications (origin_id) where origin_id is not null;

    alter table runners add column origin_id uuid references credential_origins (id);
    create index runners_origin on runners (origin_id) where origin_id is not null;

    alter table webhooks add column origin_id uuid references credential_origins (id);
    create index webhooks_origin on webhooks (origin_id) where origin_id is not null;

    -- Valid credentials that were created through an authorization.
    create view living_credentials as
      select origin_id from personal_access_tokens
        where origin_id is not null and not revoked and (expires_at is null or expires_at > current_date)
      union all select origin_id from oauth_applications where origin_id is not null
      union all select origin_id from runners
        where origin_id is not null and (token_expires_at is null or token_expires_at > now())
      union all select origin_id from webhooks where origin_id is not null and not disabled_permanently;
  `.execute(db);
};
