import { type Kysely, sql } from 'kysely';

/** Instance settings in a single row. Unset attributes are absent and use the default of settings/registry.ts. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table application_settings (
      id integer primary key default 1 check (id = 1),
      attributes jsonb not null default '{}',
      -- verifies that the MILLRACE_SECRET_KEY of a process is the one of this database
      secret_key_check bytea,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    insert into application_settings default values;
  `.execute(db);
};
