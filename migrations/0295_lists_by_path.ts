import { type Kysely, sql } from 'kysely';

/** Lists by path no longer put lower case after upper case. Packages are enabled until somebody disables them. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    drop index projects_by_path;
    drop index namespaces_groups_by_path;
    drop index namespaces_public_by_path;
    drop index namespaces_internal_by_path;
    create index projects_by_path on projects (lower(path), id)
      include (path, namespace_id, visibility_level, hidden, pending_delete, archived);
    create index namespaces_groups_by_path on namespaces (lower(path), id) where kind = 'group';
    create index namespaces_public_by_path on namespaces (lower(path), id)
      where kind = 'group' and visibility_level >= 20;
    create index namespaces_internal_by_path on namespaces (lower(path), id)
      where kind = 'group' and visibility_level >= 10;

    -- Records show it as true or false.
    alter table projects alter column packages_enabled set default true;
    update projects set packages_enabled = true where packages_enabled is null;`.execute(db);
};
