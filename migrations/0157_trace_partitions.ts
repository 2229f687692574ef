import { type Kysely, sql } from 'kysely';

/**
 * Chunks of traces live in partitions of the day on which they arrived. Archiving a trace leaves its chunks, and they go
 * with their partition.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    alter table job_trace_chunks rename to job_trace_chunks_before;
    alter table job_trace_chunks_before rename constraint job_trace_chunks_pkey to job_trace_chunks_before_pkey;
    -- A part is stored where the trace ends, while the trace is locked. So no two chunks of a job begin at one position.
    create table job_trace_chunks (
      job_id bigint not null references job_traces (job_id) on delete cascade,
      start bigint not null,
      bytes bytea not null,
      received_at timestamptz not null default now(),
      primary key (job_id, start, received_at)
    ) partition by range (received_at);
    -- Chunks live for days, so compressing them is not worth its time.
    alter table job_trace_chunks alter column bytes set storage external;
    select make_time_partition('job_trace_chunks', 'day', now() + n * interval '1 day') from generate_series(0, 1) n;
    insert into job_trace_chunks (job_id, start, bytes) select job_id, start, bytes from job_trace_chunks_before;
    drop table job_trace_chunks_before;
  `.execute(db);
};
