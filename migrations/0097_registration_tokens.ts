import { type Kysely, sql } from 'kysely';

/** Tokens that register runners of the instance, a group or a project, and the tokens of jobs that have ended. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table runner_registration_tokens (
      id bigint generated always as identity primary key,
      namespace_id bigint unique references namespaces (id) on delete cascade,
      project_id bigint unique references projects (id) on delete cascade,
      digest bytea not null unique,
      created_at timestamptz not null default now(),
      check (num_nonnulls(namespace_id, project_id) <= 1)
    );
    create unique index runner_registration_tokens_instance on runner_registration_tokens ((true))
      where namespace_id is null and project_id is null;

    -- Of the job's token, once the job has ended. A runner that still shows it is told how the job ended.
    alter table jobs add column ended_token_digest bytea;
  `.execute(db);
};
