import { type Kysely, sql } from 'kysely';

/** Projects below a group that turns the runners of the instance off for all below it say so. They had no effect. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    update projects p set shared_runners_enabled = false from namespaces n
    where n.id = p.namespace_id and n.shared_runners_setting = 'disabled_and_unoverridable'
      and p.shared_runners_enabled`.execute(db);
};
