import { type Kysely, sql } from 'kysely';

/** Error ingest: what applications have reported and nobody has digested yet, and how much each key has sent. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- A queue. Rows live for seconds. There are no foreign keys, because inserting must be cheap: the statement that
    -- inserts checks the key, and the digest drops what belongs to deleted projects.
    create table ingest_envelopes (
      id bigint generated always as identity primary key,
      project_id bigint not null,
      key_id bigint not null,
      received_at timestamptz not null default now(),
      -- The event id that the sender was told. Null if the envelope has no event.
      event_id uuid,
      form text not null check (form in ('envelope', 'event')),
      encoding text not null check (encoding in ('identity', 'gzip', 'deflate', 'br', 'zstd')),
      -- The size when it is unpacked, in bytes.
      size integer not null,
      address text not null,
      body bytea not null
    ) with (
      -- Keeps usual events in their row.
      toast_tuple_target = 8160,
      autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
      toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 50000
    );
    -- Most bodies are compressed already.
    alter table ingest_envelopes alter column body set storage external;

    -- Envelopes that cannot be digested, for operators.
    create table ingest_failures (
      id bigint primary key,
      project_id bigint not null references projects (id) on delete cascade,
      key_id bigint not null,
      received_at timestamptz not null,
      failed_at timestamptz not null default now(),
      reason text not null,
      event_id uuid,
      form text not null,
      encoding text not null,
      body bytea not null
    );
    create index ingest_failures_project on ingest_failures (project_id, id);
    create index ingest_failures_time on ingest_failures (failed_at);

    -- How much each key has sent. Rows of minutes become rows of hours later.
    create table ingest_counts (
      project_id bigint not null references projects (id) on delete cascade,
      key_id bigint not null,
      start timestamptz not null,
      events integer not null default 0,
      -- Sessions and reports.
      others integer not null default 0,
      -- Above a quota.
      refused integer not null default 0,
      -- Not an envelope, or too large.
      invalid integer not null default 0,
      failed integer not null default 0,
      primary key (project_id, start, key_id)
    );
    create index ingest_counts_start on ingest_counts (start);
  `.execute(db);
};
