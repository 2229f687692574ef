import { type Kysely, sql } from 'kysely';

/** Instance settings: one row; an attribute that was never set is absent and has its default from settings/registry.ts. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table application_settings (
      id integer primary key default 1 check (id = 1),
      attributes jsonb not null default '{}',
      -- tells a process that its MILLRACE_SECRET_KEY is the one that sealed this database
      secret_key_check bytea,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    insert into application_settings default values;
  `.execute(db);
};
