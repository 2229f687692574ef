import { type Kysely, sql } from 'kysely';

/** Logs of jobs: chunks in the database while the job runs, one stored file afterwards. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table job_traces (
      job_id bigint primary key references jobs (id) on delete cascade,
      -- Bytes received.
      size bigint not null default 0,
      -- Of the bytes received, so that the end of the job can be checked without reading them.
      crc32 bigint not null default 0,
      -- Whether the job prints its variables. Only developers read it then.
      debug boolean not null default false,
      -- How often the runner was asked to send everything again.
      resets smallint not null default 0,
      -- Somebody reads along until then, so the runner sends more often.
      watched_until timestamptz,
      -- Set once the trace is archived. It has no chunks then.
      storage_key text unique
    );
    create index job_traces_live on job_traces (job_id) where storage_key is null;

    create table job_trace_chunks (
      job_id bigint not null references job_traces (job_id) on delete cascade,
      start bigint not null,
      bytes bytea not null,
      primary key (job_id, start)
    );
    -- Chunks live for minutes, so compressing them is not worth its time.
    alter table job_trace_chunks alter column bytes set storage external;

    create function trace_removed() returns trigger language plpgsql as $$
    begin
      insert into storage_removals (storage_key, due_at) values (old.storage_key, now())
        on conflict (storage_key) do update set due_at = excluded.due_at;
      return null;
    end $$;
    create trigger trace_removed after delete on job_traces
      for each row when (old.storage_key is not null) execute function trace_removed();
  `.execute(db);
};
