import { type Kysely, sql } from 'kysely';

/** A request that may be repeated after a crash creates its pipeline once. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table pipelines add column idempotency_key text;
    create unique index pipelines_idempotency_key on pipelines (idempotency_key) where idempotency_key is not null;
    -- The pipelines that a newer one of the same branch may make redundant.
    create index pipelines_alive on pipelines (project_id, ref, id)
      where status in ('created', 'waiting_for_resource', 'preparing', 'waiting_for_callback', 'pending', 'running', 'scheduled');
  `.execute(db);
};
