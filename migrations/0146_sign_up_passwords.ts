import { type Kysely, sql } from 'kysely';

/** The owner of the mailbox chooses the password of a registration when they open the mailed link. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table sign_ups drop column password_hash`.execute(db);
};
