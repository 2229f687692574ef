import { type Kysely, sql } from 'kysely';

/**
 * Lets `sequence_events` find pending events by their partial index again. Without its condition, each call read the whole
 * partition, also the rows that were moved out of it and not vacuumed yet.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
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
      if not exists (select from events_pending where position is null) then
        select last_position into head from event_log;
        return head;
      end if;
      perform pg_advisory_xact_lock(hashtextextended('millrace:sequence_events', 0));
      select last_position, greatest(last_position, range_start - 1) into head, base from event_log;
      update events set position = base + pending.n
      from (select id, row_number() over (order by id) as n from events_pending where position is null) as pending
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
