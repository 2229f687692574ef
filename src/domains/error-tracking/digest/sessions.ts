import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import type { SessionCounts } from '../event.ts';
import { ofLockedProjects } from './projects.ts';
import { recordReleases, releaseKey } from './releases.ts';
import { hourOf } from './tally.ts';

/** Adds sessions to the releases of their projects. Sessions of a project that is gone are dropped. */
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
    insert into error_session_hours as h (release_id, environment, hour, total, errored, crashed, abnormal)
    select release_id, environment, hour, sum(total), sum(errored), sum(crashed), sum(abnormal)
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given
      (release_id bigint, environment text, hour timestamptz, total bigint, errored bigint, crashed bigint, abnormal bigint)
    group by 1, 2, 3
    on conflict (release_id, environment, hour) do update set
      total = h.total + excluded.total, errored = h.errored + excluded.errored,
      crashed = h.crashed + excluded.crashed, abnormal = h.abnormal + excluded.abnormal`.execute(tx.db);
};
