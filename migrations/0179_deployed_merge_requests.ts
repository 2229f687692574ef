import { type Kysely, sql } from 'kysely';

/** The merge requests that each successful deployment brought to its environment. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table deployment_merge_requests (
      deployment_id bigint not null references deployments (id) on delete cascade,
      merge_request_id bigint not null references merge_requests (id) on delete cascade,
      primary key (deployment_id, merge_request_id)
    );
    create index deployment_merge_requests_merge_request on deployment_merge_requests (merge_request_id);
    -- Lists of merge requests by environment, or by the time of deployment.
    create index environments_name on environments (name);
    create index deployments_finished on deployments (finished_at) where status = 'success';
  `.execute(db);
};
