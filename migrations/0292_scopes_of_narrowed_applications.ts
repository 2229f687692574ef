import { type Kysely, sql } from 'kysely';

/** Access tokens lose the scopes that their application has lost since they were issued. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    update oauth_access_tokens t set scopes = array(
      select scope from unnest(t.scopes) with ordinality as s (scope, n) where scope = any (a.scopes) order by n)
    from oauth_applications a
    where a.id = t.application_id and t.revoked_at is null and not t.scopes <@ a.scopes`.execute(db);
};
