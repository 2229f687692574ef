import { type Kysely, sql } from 'kysely';

/**
 * The event log is partitioned by ranges of 2^32 positions. Old events go by dropping a range. Events that have no
 * position yet are in the default partition.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    lock table events in access exclusive mode;
    select sequence_events();

    alter table event_log
      -- The first position of the newest range. New events get positions in it.
      add column range_start bigint not null default 0;
    update event_log set range_start = last_position / 4294967296 * 4294967296;

    alter table events alter column id drop identity;
    alter table events drop constraint events_pkey;
    drop index events_pending;
    alter table events rename to events_0;
    alter index events_position rename to events_0_position_idx;
    alter index events_project rename to events_0_project_id_position_idx;
    alter index events_subject rename to events_0_subject_type_subject_id_position_idx;
    alter table events_0 reset (
      autovacuum_vacuum_scale_factor, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor);

    create table events (like events_0 including defaults including constraints including storage)
      partition by range (position);
    create sequence events_id_seq owned by events.id;
    select setval('events_id_seq', (select coalesce(max(id), 0) + 1 from events_0), false);
    alter table events alter column id set default nextval('events_id_seq');
    -- All indexes but the first are partial, so that an event enters them once: when it gets its position.
    create index events_pending_id on events (id) where position is null;
    create unique index events_position on events (position) where position is not null;
    create index events_project on events (project_id, position) where position is not null and project_id is not null;
    create index events_subject on events (subject_type, subject_id, position) where position is not null;

    create table events_pending partition of events default;
    do $$ begin
      execute format('alter table events attach partition events_0 for values from (minvalue) to (%L)',
        (select range_start + 4294967296 from event_log));
    end $$;
  `.execute(db);

  // As before, but the positions go on in the newest range. Moving an event to the partition of its position costs what
  // updating it in place did, because it entered the indexes then.
  await sql`
    create or replace function sequence_events() returns bigint
    language plpgsql volatile
    set enable_seqscan = off
    set enable_nestloop = off
    as $$
    declare
      head bigint;
      base bigint;
      given bigint;
    begin
      if not exists (select from events_pending) then
        select last_position into head from event_log;
        return head;
      end if;
      perform pg_advisory_xact_lock(hashtextextended('millrace:sequence_events', 0));
      select last_position, greatest(last_position, range_start - 1) into head, base from event_log;
      update events set position = base + pending.n
      from (select id, row_number() over (order by id) as n from events_pending) as pending
      where events.position is null and events.id = pending.id;
      get diagnostics given = row_count;
      if given > 0 then
        head := base + given;
        update event_log set last_position = head;
        perform pg_notify('events', head::text);
      end if;
      return head;
    end
    $$
  `.execute(db);
};
