import { type Kysely, sql } from 'kysely';

/** The projects to which users contribute. Stored separately, because events are pruned. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table project_contributions (
      user_id bigint not null references users (id) on delete cascade,
      project_id bigint not null references projects (id) on delete cascade,
      -- the latest contribution, to about a day
      last_at timestamptz not null,
      primary key (user_id, project_id)
    );
    create index project_contributions_project on project_contributions (project_id);
  `.execute(db);
};
