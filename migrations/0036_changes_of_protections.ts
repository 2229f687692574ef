import { type Kysely, sql } from 'kysely';

/**
 * The time of the last change of a protection. Existing ones get their creation time, because later changes are
 * unknown.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table protected_branches add column updated_at timestamptz not null default now();
    update protected_branches set updated_at = created_at;
  `.execute(db);
};
