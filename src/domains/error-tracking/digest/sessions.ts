import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { SessionCounts } from '../event.ts';
import { ofLockedProjects } from './projects.ts';
import { recordReleases, releaseKey } from './releases.ts';
import { hourOf } from './tally.ts';

/**
 * Adds sessions to the releases of their projects. A session counts once as errored, once as crashed and once as
 * abnormal, however often its SDK says so. Sessions of a project that is gone are dropped.
 */
export const recordSessions = async (tx: Tx, given: readonly SessionCounts[]): Promise<void> => {
  const sessions = await ofLockedProjects(tx, given);
  if (sessions.length === 0) return;
  const releases = await recordReleases(
    tx,
    sessions.map(({ project_id, release, started }) => ({
      project_id,
      version: release,
      first_seen: started,
      last_seen: started,
      count: 0,
    })),
  );
  const rows = sessions.map(({ project_id, release, environment, started, ...counts }) => ({
    ...counts,
    release_id: releases.get(releaseKey(project_id, release)),
    environment: environment ?? '',
    hour: hourOf(started),
  }));
  await sql`
    with given as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given
        (release_id bigint, sid uuid, environment text, hour timestamptz, total bigint, errored bigint, crashed bigint,
         abnormal bigint)
    ), outcomes as (
      select distinct on (release_id, sid, outcome) release_id, sid, outcome, environment, hour
      from given cross join lateral (values ('errored', errored), ('crashed', crashed), ('abnormal', abnormal))
        as each (outcome, count)
      where sid is not null and count > 0
      order by release_id, sid, outcome
    ), fresh as (
      insert into error_session_outcomes (release_id, sid, outcome, hour)
      select release_id, sid, outcome, hour from outcomes
      on conflict do nothing returning release_id, sid, outcome
    ), counts as (
      select release_id, environment, hour, total, errored, crashed, abnormal from given where sid is null
      union all
      select release_id, environment, hour, total, 0, 0, 0 from given where sid is not null and total > 0
      union all
      select release_id, environment, hour, 0, (outcome = 'errored')::int, (outcome = 'crashed')::int,
        (outcome = 'abnormal')::int
      from outcomes join fresh using (release_id, sid, outcome)
    )
    insert into error_session_hours as h (release_id, environment, hour, total, errored, crashed, abnormal)
    select release_id, environment, hour, sum(total), sum(errored), sum(crashed), sum(abnormal)
    from counts group by 1, 2, 3
    on conflict (release_id, environment, hour) do update set
      total = h.total + excluded.total, errored = h.errored + excluded.errored,
      crashed = h.crashed + excluded.crashed, abnormal = h.abnormal + excluded.abnormal`.execute(tx.db);
};
