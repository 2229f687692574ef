import { type Kysely, sql } from 'kysely';

/** Users who want mails about the errors of a project. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table error_notifications (
      project_id bigint not null references projects (id) on delete cascade,
      user_id bigint not null references users (id) on delete cascade,
      primary key (project_id, user_id)
    );
    create index error_notifications_user on error_notifications (user_id);
  `.execute(db);
};
