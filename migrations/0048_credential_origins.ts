import { type Kysely, sql } from 'kysely';

/** Who made a credential, and through which OAuth authorization, however many credentials lie between. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- An authorization through which credentials were made. No foreign keys: it is told of when the application or the
    -- person who had let it in are gone.
    create table credential_origins (
      -- the family of the authorization's tokens
      id uuid primary key,
      -- who had let the application in
      user_id bigint not null,
      -- null: the password grant without a client
      application_id bigint,
      -- as it was called then
      application_name text,
      -- when what was made through it ended with it, as the setting oauth_grants_end_credentials said
      ended_at timestamptz,
      created_at timestamptz not null default now()
    );
    create index credential_origins_user on credential_origins (user_id, application_id);
    create index credential_origins_application on credential_origins (application_id);

    -- Of credentials that were there before, neither is known.
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

    -- What was made through an authorization and still counts.
    create view living_credentials as
      select origin_id from personal_access_tokens
        where origin_id is not null and not revoked and (expires_at is null or expires_at > current_date)
      union all select origin_id from oauth_applications where origin_id is not null
      union all select origin_id from runners
        where origin_id is not null and (token_expires_at is null or token_expires_at > now())
      union all select origin_id from webhooks where origin_id is not null and not disabled_permanently;
  `.execute(db);
};
