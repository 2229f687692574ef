import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';

interface SeenRelease {
  readonly project_id: number;
  readonly version: string;
  readonly first_seen: string;
  readonly last_seen: string;
  /** The number of error events from it. */
  readonly count: number;
}

/** Identifies a release in the result of `recordReleases`. */
export const releaseKey = (projectId: number, version: string): string => `${projectId} ${version}`;

/** Adds to the releases, creates those that are new, and returns their ids by `releaseKey`. Ids grow with first sight. */
export const recordReleases = async (tx: Tx, seen: readonly SeenRelease[]): Promise<ReadonlyMap<string, number>> => {
  const releases = new Map<string, SeenRelease>();
  for (const each of seen) {
    const key = releaseKey(each.project_id, each.version);
    const known = releases.get(key);
    releases.set(key, known ? merged(known, each) : each);
  }
  if (releases.size === 0) return new Map();
  const { rows } = await sql<{ id: number; project_id: number; version: string }>`
    insert into error_releases as r (project_id, version, first_seen, last_seen, event_count)
    select project_id, version, first_seen, last_seen, count
    from jsonb_to_recordset(${JSON.stringify([...releases.values()])}::jsonb)
      as given (project_id bigint, version text, first_seen timestamptz, last_seen timestamptz, count bigint)
    order by project_id, first_seen, version
    on conflict (project_id, version) do update set
      first_seen = least(r.first_seen, excluded.first_seen),
      last_seen = greatest(r.last_seen, excluded.last_seen),
      event_count = r.event_count + excluded.event_count
    returning id, project_id, version`.execute(tx.db);
  return new Map(rows.map(({ id, project_id, version }) => [releaseKey(project_id, version), id]));
};

const merged = (left: SeenRelease, right: SeenRelease): SeenRelease => ({
  ...left,
  count: left.count + right.count,
  first_seen: left.first_seen < right.first_seen ? left.first_seen : right.first_seen,
  last_seen: left.last_seen > right.last_seen ? left.last_seen : right.last_seen,
});
