import { type Kysely, sql } from 'kysely';

/** One function for all tables that are partitioned by time (platform/db/partitions.ts). */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- Creates the partition that contains the time, if it is missing. A step is a day, a week (from Monday) or a month,
    -- in UTC. The options are storage parameters, which partitions do not inherit.
    create function make_time_partition(parent regclass, step text, at timestamptz, options text default null)
    returns void language plpgsql as $$
    declare
      first timestamp := date_trunc(step, at at time zone 'UTC');
      name text := parent::text || to_char(first,
        case step when 'day' then '_YYYYMMDD' when 'week' then '_IYYY"w"IW' when 'month' then '_YYYYMM' end);
    begin
      if to_regclass(name) is not null then return; end if;
      -- Attaching takes a weaker lock than creating in place, so readers and writers go on.
      execute format('lock table %s in share update exclusive mode', parent);
      if to_regclass(name) is not null then return; end if;
      execute format('create table %I (like %s including defaults including storage including constraints)', name, parent);
      if options is not null then execute format('alter table %I set (%s)', name, options); end if;
      execute format('alter table %s attach partition %I for values from (%L) to (%L)', parent, name,
        first at time zone 'UTC', (first + ('1 ' || step)::interval) at time zone 'UTC');
    end $$;

    drop function error_events_make_partition;
  `.execute(db);
};
