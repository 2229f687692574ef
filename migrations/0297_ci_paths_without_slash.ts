import { type Kysely, sql } from 'kysely';

/** Paths of CI files start without a slash. The hub read those with one as if they had none. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`update projects set ci_config_path = ltrim(ci_config_path, '/') where ci_config_path like '/%'`.execute(db);
  await sql`
    update application_settings
    set attributes = jsonb_set(attributes, '{default_ci_config_path}',
      to_jsonb(ltrim(attributes ->> 'default_ci_config_path', '/')))
    where attributes ->> 'default_ci_config_path' like '/%'`.execute(db);
};
