import { type Kysely, sql } from 'kysely';

/** Groups below one that turns the runners of the instance off for all below it do so too. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    update namespaces n set shared_runners_setting = 'disabled_and_unoverridable'
    where shared_runners_setting <> 'disabled_and_unoverridable' and exists (
      select from namespaces above
      where above.id = any (n.traversal_ids) and above.shared_runners_setting = 'disabled_and_unoverridable')`.execute(
    db,
  );
};
