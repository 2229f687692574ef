import { type Kysely, sql } from 'kysely';

/** Which projects admit the tokens of whose jobs. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- Whether only jobs of the project itself and of its allowlist may use their token in the project.
    alter table projects add column ci_inbound_job_token_scope_enabled boolean not null default true;

    create table job_token_projects (
      project_id bigint not null references projects (id) on delete cascade,
      -- Its jobs are admitted.
      target_project_id bigint not null references projects (id) on delete cascade,
      added_by_id bigint references users (id) on delete set null,
      created_at timestamptz not null default now(),
      primary key (project_id, target_project_id)
    );
    create index job_token_projects_target on job_token_projects (target_project_id);
    create index job_token_projects_added_by on job_token_projects (added_by_id) where added_by_id is not null;

    create table job_token_groups (
      project_id bigint not null references projects (id) on delete cascade,
      -- The jobs of all its projects, and of its subgroups' projects, are admitted.
      target_group_id bigint not null references namespaces (id) on delete cascade,
      added_by_id bigint references users (id) on delete set null,
      created_at timestamptz not null default now(),
      primary key (project_id, target_group_id)
    );
    create index job_token_groups_target on job_token_groups (target_group_id);
    create index job_token_groups_added_by on job_token_groups (added_by_id) where added_by_id is not null;
  `.execute(db);
};
