import { type Kysely, sql } from 'kysely';

/** Pipelines that are created in the background. The caller asks later what became of the request. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table pipeline_creation_requests (
      id uuid primary key,
      project_id bigint not null references projects (id) on delete cascade,
      user_id bigint not null references users (id) on delete cascade,
      status text not null default 'in_progress' check (status in ('in_progress', 'succeeded', 'failed')),
      error text,
      pipeline_id bigint references pipelines (id) on delete set null,
      -- Ref, variables and inputs. Null once the request is done.
      sealed_input bytea,
      created_at timestamptz not null default now()
    );
    create index pipeline_creation_requests_project on pipeline_creation_requests (project_id);
    create index pipeline_creation_requests_user on pipeline_creation_requests (user_id);
    create index pipeline_creation_requests_pipeline on pipeline_creation_requests (pipeline_id);
    create index pipeline_creation_requests_age on pipeline_creation_requests (created_at);
  `.execute(db);
};
