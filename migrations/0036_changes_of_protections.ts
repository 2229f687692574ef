import { type Kysely, sql } from 'kysely';

/** When a protection was last changed. Those that are there tell when they were made: nothing later is known. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table protected_branches add column updated_at timestamptz not null default now();
    update protected_branches set updated_at = created_at;
  `.execute(db);
};
