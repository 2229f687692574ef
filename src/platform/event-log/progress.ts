import { sql } from 'kysely';
import type { Database } from '../db/pool.ts';

/** How far a durable follower is. */
export interface FollowerProgress {
  readonly name: string;
  /** The number of events after its cursor. */
  readonly behind: number;
  /** Time since the first of them happened. Null if there is none. */
  readonly behind_seconds: number | null;
  /** Whether it is behind for longer than followers are whose events do not happen: they save their cursors rarely. */
  readonly late: boolean;
  /** The number of events that it could not handle, in the last thirty days. */
  readonly set_aside: number;
  /** Why it could not handle the last of them. */
  readonly last_error: string | null;
}

const LATE_SECONDS = 30;

/** Returns the progress of all followers, those that are furthest behind first. */
export const listFollowerProgress = async (db: Database): Promise<FollowerProgress[]> => {
  const { rows } = await sql<FollowerProgress>`
    select name, behind, behind_seconds, coalesce(behind_seconds > ${sql.lit(LATE_SECONDS)}, false) as late,
      coalesce(failed.count, 0) as set_aside, failed.last_error
    from (
      select name, log.last_position - position as behind, (
        select extract(epoch from now() - created_at)::int from events
        where events.position > event_cursors.position order by events.position limit 1
      ) as behind_seconds
      from event_cursors cross join event_log log
    ) cursors
      left join (
        select follower, count(*)::int as count, (array_agg(error order by id desc))[1] as last_error
        from event_failures group by 1
      ) failed on failed.follower = name
    order by behind desc, name`.execute(db);
  return rows;
};
