import { type Kysely, sql } from 'kysely';

/** Lists of groups by name no longer put lower case after upper case. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    drop index namespaces_groups_by_name;
    drop index namespaces_public_by_name;
    drop index namespaces_internal_by_name;
    create index namespaces_groups_by_name on namespaces (lower(name), id) where kind = 'group';
    create index namespaces_public_by_name on namespaces (lower(name), id)
      where kind = 'group' and visibility_level >= 20;
    create index namespaces_internal_by_name on namespaces (lower(name), id)
      where kind = 'group' and visibility_level >= 10;`.execute(db);
};
