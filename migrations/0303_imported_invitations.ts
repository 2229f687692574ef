import { type Kysely, sql } from 'kysely';

/** Invitations of imported projects were rows of `members`, which nobody could see or accept. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    insert into invitations
      (namespace_id, project_id, email, access_level, expires_at, digest, created_by_id, created_at)
    select namespace_id, project_id, left(invite_email, 254), access_level, expires_at,
      sha256(gen_random_uuid()::text::bytea), created_by_id, created_at
    from members where user_id is null
    on conflict do nothing`.execute(db);
  await sql`delete from members where user_id is null`.execute(db);
  await sql`
    alter table members drop column invite_email, add constraint members_user check (user_id is not null)`.execute(db);
};
