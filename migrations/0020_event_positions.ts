import { type Kysely, sql } from 'kysely';

/**
 * Assigns positions by looking only at events without one. The planner used to join with the whole log, or with nested
 * loops, if the log was small when the plan was made.
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
      where events.position is null and events.id = pending.id;
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
