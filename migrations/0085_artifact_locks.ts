import { type Kysely, sql } from 'kysely';

/** Locked pipelines by branch or tag, and the totals of test reports. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index pipelines_locked on pipelines (project_id, ref, id) where locked;
    -- Of a junit report: the totals of its suite.
    alter table job_artifacts add column report_summary jsonb;
  `.execute(db);
};
