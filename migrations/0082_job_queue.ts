import { type Kysely, sql } from 'kysely';

/** Indexes for handing out jobs, and notifications for processes that cache runners. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index jobs_queue on jobs (project_id, id) where status = 'pending' and kind = 'build';
    create index jobs_running_by_project on jobs (project_id, runner_id) where status = 'running';

    create function runners_changed() returns trigger language plpgsql as $$
    begin
      perform pg_notify('runners_changed', '');
      return null;
    end $$;
    create trigger runners_updated
      after update of digest, token_expires_at, paused, run_untagged, tags, access_level, maximum_timeout, description
      on runners for each statement execute function runners_changed();
    create trigger runners_deleted after delete on runners for each statement execute function runners_changed();
    create trigger runner_managers_deleted after delete on runner_managers
      for each statement execute function runners_changed();
    create trigger runner_projects_changed after insert or delete on runner_projects
      for each statement execute function runners_changed();
  `.execute(db);
};
