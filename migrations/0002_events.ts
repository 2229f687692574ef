import { type Kysely, sql } from 'kysely';

/** The event log, its readers, and the processes of the hub. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table events (
      id bigint generated always as identity primary key,
      -- Assigned by sequence_events() after the event is committed. Readers use only positions, because ids are not in
      -- commit order.
      position bigint,
      kind text not null,
      actor_id bigint,
      subject_type text not null,
      subject_id bigint not null,
      project_id bigint,
      namespace_ids bigint[] not null default '{}',
      min_access_level smallint,
      user_ids bigint[] not null default '{}',
      payload jsonb not null,
      chain_id text,
      created_at timestamptz not null default now()
    );
    -- All indexes but the first are partial, so that an event enters them once: when it gets its position.
    create index events_pending on events (id) where position is null;
    create unique index events_position on events (position) where position is not null;
    create index events_project on events (project_id, position) where position is not null and project_id is not null;
    create index events_subject on events (subject_type, subject_id, position) where position is not null;
    alter table events set (
      autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1,
      autovacuum_analyze_scale_factor = 0.05
    );

    -- A single row with the last assigned position and the last pruned position.
    create table event_log (
      singleton boolean primary key default true check (singleton),
      last_position bigint not null default 0,
      pruned_position bigint not null default 0
    );
    insert into event_log default values;

    -- The positions of the durable followers.
    create table event_cursors (
      name text primary key,
      position bigint not null default 0,
      updated_at timestamptz not null default now()
    );

    -- Events that a follower could not handle, set aside so that they do not block later events.
    create table event_failures (
      id bigint generated always as identity primary key,
      follower text not null,
      event_id bigint not null,
      position bigint not null,
      kind text not null,
      error text not null,
      failed_at timestamptz not null default now()
    );
    create index event_failures_failed_at on event_failures (failed_at);

    create table hub_processes (
      id uuid primary key,
      role text not null,
      hostname text not null,
      started_at timestamptz not null default now(),
      seen_at timestamptz not null default now()
    );

    -- How often a process died while it held the job. After a few crashes the job itself is suspected.
    create table job_crashes (
      job_id bigint primary key,
      crashes integer not null
    );
  `.execute(db);

  // Assigns positions to all committed events without one, in id order, and returns the newest position. A transaction
  // that holds the lock sees, in its next statement, everything that earlier holders committed. An event that commits
  // later gets a later position, so a reader that has seen position n has seen every event up to n. Sequential scans
  // are disabled, because statistics of a recently empty table would make the planner read the whole table.
  await sql`
    create function sequence_events() returns bigint
    language plpgsql volatile
    set enable_seqscan = off
    as $$
    declare
      head bigint;
      given bigint;
    begin
      if not exists (select from events where position is null) then
        select last_position into head from event_log;
        return head;
      end if;
      perform pg_advisory_xact_lock(hashtextextended('millrace:sequence_events', 0));
      select last_position into head from event_log;
      update events set position = head + pending.n
      from (select id, row_number() over (order by id) as n from events where position is null) as pending
      where events.id = pending.id;
      get diagnostics given = row_count;
      if given > 0 then
        head := head + given;
        update event_log set last_position = head;
        perform pg_notify('events', head::text);
      end if;
      return head;
    end
    $$
  `.execute(db);
};
