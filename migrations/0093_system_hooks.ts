import { type Kysely, sql } from 'kysely';

/** System hooks: hooks of the whole instance, which belong to neither a group nor a project. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table webhooks drop constraint webhooks_check;
    alter table webhooks add constraint webhooks_owner check (num_nonnulls(namespace_id, project_id) <= 1);
    create index webhooks_system on webhooks (id) where namespace_id is null and project_id is null;
  `.execute(db);
};
