import { type Kysely, sql } from 'kysely';

/**
 * The start of a runner's token, which the runner prints in its logs, so that people find it there. Null for tokens that
 * were made before: only their digest is stored.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table runners add column short_token text`.execute(db);
};
