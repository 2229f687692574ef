import { type Kysely, sql } from 'kysely';

/** Who changed which settings, and when. Kept for as long as the instance, unlike events. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table setting_changes (
      id bigint generated always as identity primary key,
      -- null for the hub itself, and when the user is deleted; the name stays
      user_id bigint references users (id) on delete set null,
      username text,
      changed text[] not null,
      created_at timestamptz not null default now()
    );
    create index setting_changes_user on setting_changes (user_id) where user_id is not null;
  `.execute(db);
};
