import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';

/** A release of an application that reported errors or sessions. */
export interface ReleaseRow {
  readonly id: number;
  readonly project_id: number;
  readonly version: string;
  readonly first_seen: string;
  readonly last_seen: string;
  readonly event_count: number;
}

/** Lists the releases of many projects, those that were seen first last. The caller checks access. */
export const listReleasesBelow = ({ db }: Pick<Context, 'db'>): BatchedList<ReleaseRow> =>
  batchedListOf(
    db,
    (projectId) =>
      db
        .selectFrom('error_releases')
        .select(['id', 'project_id', 'version', 'first_seen', 'last_seen', 'event_count'])
        .where('project_id', '=', projectId),
    [{ by: sql.ref('error_releases.id'), of: ({ id }) => id }],
    'desc',
  );

/** The sessions of a release within the retention. */
export interface Sessions {
  readonly total: number;
  readonly errored: number;
  readonly crashed: number;
  readonly abnormal: number;
}

/** Counts the sessions of each release within the retention, by release. */
export const sessionsByReleases = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Sessions>> => {
  const { rows } = await sql<Sessions & { release_id: number }>`
    select release_id, sum(total)::bigint as total, sum(errored)::bigint as errored, sum(crashed)::bigint as crashed,
      sum(abnormal)::bigint as abnormal
    from error_session_hours where release_id = any (${ids}::bigint[]) group by 1`.execute(db);
  return new Map(rows.map(({ release_id, ...sessions }) => [release_id, sessions]));
};

/** Returns the share of sessions that did not crash, from 0 to 1. Null without sessions. */
export const crashFreeRate = ({ total, crashed }: Sessions): number | null =>
  total === 0 ? null : Math.max(0, 1 - crashed / total);
