import { type Kysely, sql } from 'kysely';

/** Tells rollbacks by people from automatic retries. Jobs that wait keep what they were taken for until now. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`alter table jobs add column retried_by_user boolean not null default false`.execute(db);
  await sql`
    update jobs set retried_by_user = true
    where environment is not null and not retried and status not in ('success', 'failed', 'canceled', 'skipped')
      and exists (select from jobs earlier
        where earlier.pipeline_id = jobs.pipeline_id and earlier.name = jobs.name and earlier.retried)`.execute(db);
};
