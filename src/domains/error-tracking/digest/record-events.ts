import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { ensurePartitions } from '#platform/db/partitions.ts';
import type { PreparedEvent } from '../prepared-event.ts';
import { noteChangedCounts } from './announce.ts';
import { type GroupedEvent, type GroupRow, groupEvents } from './groups.ts';
import { ERROR_EVENTS } from './partitions.ts';
import { ofLockedProjects } from './projects.ts';
import { recordReleases, releaseKey } from './releases.ts';
import { Tally } from './tally.ts';
import { emitTransitions, transitionOf } from './transitions.ts';
import { thinUsers } from './users.ts';

/**
 * Records events: finds or creates the error of each, counts them, stores them, and emits an event for each error that
 * is new or came back. Takes about ten statements, however many events there are. An event that is recorded already,
 * or whose project is gone, changes nothing. Returns the number of events that were recorded.
 *
 * The projects stay locked until the transaction ends, so a transaction calls it once.
 */
export const recordEvents = async (tx: Tx, events: readonly PreparedEvent[]): Promise<number> => {
  const fresh = await withoutKnown(tx, await ofLockedProjects(tx, events));
  if (fresh.length === 0) return 0;
  const releases = await recordReleases(tx, fresh.flatMap(releaseOf));
  const grouped = await groupEvents(tx, fresh);
  const tallies = tally(grouped);
  const transitions = [...tallies.values()].flatMap(({ row, tally, events: seen }) =>
    transitionOf(row, tally, seen, ({ project_id, release }) =>
      release === null ? null : (releases.get(releaseKey(project_id, release)) ?? null),
    ),
  );
  await storeEvents(tx, grouped);
  const changed = [...tallies.values()].map((each) => each.tally);
  await storeTallies(tx, changed, releases);
  await thinUsers(
    tx,
    changed.filter(({ users }) => users.size > 0).map(({ error_id }) => error_id),
  );
  await emitTransitions(tx, transitions);
  await noteChangedCounts(
    tx,
    [...tallies.values()].map(({ row }) => row),
  );
  return fresh.length;
};

const releaseOf = ({ project_id, release, timestamp }: PreparedEvent) =>
  release === null ? [] : [{ project_id, version: release, first_seen: timestamp, last_seen: timestamp, count: 1 }];

/** Leaves out events that are stored already, or that the batch has twice. */
const withoutKnown = async (tx: Tx, events: readonly PreparedEvent[]): Promise<readonly PreparedEvent[]> => {
  if (events.length === 0) return [];
  const unique = new Map(events.map((event) => [`${event.project_id} ${event.event_id}`, event]));
  const all = [...unique.values()];
  // The limit keeps the planner from reading whole partitions for a hash join.
  const { rows } = await sql<{ n: number }>`
    select given.n from unnest(${all.map(({ project_id }) => project_id)}::bigint[],
      ${all.map(({ event_id }) => event_id)}::uuid[]) with ordinality as given (project_id, event_id, n)
    cross join lateral (select from error_events e
      where e.project_id = given.project_id and e.event_id = given.event_id limit 1) known`.execute(tx.db);
  const known = new Set(rows.map(({ n }) => n - 1));
  return all.filter((_event, index) => !known.has(index));
};

interface Tallied {
  readonly row: GroupRow;
  readonly tally: Tally;
  readonly events: PreparedEvent[];
}

const tally = (grouped: readonly GroupedEvent[]): ReadonlyMap<number, Tallied> => {
  const tallies = new Map<number, Tallied>();
  for (const { event, row } of grouped) {
    const tallied = tallies.get(row.id) ?? {
      row,
      tally: new Tally(row.id, row.user_sampling, event),
      events: [],
    };
    tallied.tally.add(event);
    tallied.events.push(event);
    tallies.set(row.id, tallied);
  }
  return tallies;
};

/** The payloads go as one binary value, because text would double them. */
const storeEvents = async (tx: Tx, grouped: readonly GroupedEvent[]): Promise<void> => {
  await ensurePartitions(
    tx,
    ERROR_EVENTS,
    grouped.map(({ event }) => event.received_at),
  );
  const rows = grouped.map(({ event, row }) => ({
    project_id: event.project_id,
    event_id: event.event_id,
    error_id: row.id,
    received_at: event.received_at,
    occurred_at: event.timestamp,
    level: event.level,
    environment: event.environment,
    release: event.release,
    tags: event.tags,
    size: event.payload.length,
  }));
  await sql`
    insert into error_events
      (project_id, event_id, error_id, received_at, occurred_at, level, environment, release, tags, payload)
    select project_id, event_id, error_id, received_at, occurred_at, level, environment, release, tags,
      substring(${Buffer.concat(grouped.map(({ event }) => event.payload))}::bytea from first for size)
    from (
      select given.*, (sum(size) over (order by n) - size + 1)::int as first
      from rows from (jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as
        (project_id bigint, event_id uuid, error_id bigint, received_at timestamptz, occurred_at timestamptz,
          level text, environment text, release text, tags jsonb, size int)) with ordinality
        as given (project_id, event_id, error_id, received_at, occurred_at, level, environment, release, tags, size, n)
    ) as placed`.execute(tx.db);
};

const storeTallies = async (
  tx: Tx,
  tallies: readonly Tally[],
  releases: ReadonlyMap<string, number>,
): Promise<void> => {
  const releaseId = (projectId: number, version: string | null) =>
    version === null ? null : (releases.get(releaseKey(projectId, version)) ?? null);
  const rows = tallies.map(
    ({ error_id, count, first_seen, last_seen, newest, first_release, last_release, ...each }) => ({
      error_id,
      count,
      first_seen,
      last_seen,
      level: newest.level,
      newest_event_id: newest.event_id,
      newest_received_at: newest.received_at,
      first_release_id: releaseId(newest.project_id, first_release),
      last_release_id: releaseId(newest.project_id, last_release),
      project_id: newest.project_id,
      hours: [...each.hours].map(([hour, n]) => ({ hour, n })),
      facets: [...each.facets.values()],
      users: [...each.users].map(String),
    }),
  );
  await sql`
    with given as materialized (
      select * from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as row
        (error_id bigint, count bigint, first_seen timestamptz, last_seen timestamptz, level text,
          newest_event_id uuid, newest_received_at timestamptz, first_release_id bigint, last_release_id bigint,
          project_id bigint, hours jsonb, facets jsonb, users bigint[])
    ), hours as (
      insert into error_hours as h (error_id, hour, event_count)
      select error_id, hour, n from given, jsonb_to_recordset(hours) as each (hour timestamptz, n bigint)
      on conflict (error_id, hour) do update set event_count = h.event_count + excluded.event_count
    ), project_hours as (
      insert into error_project_hours as h (project_id, hour, event_count)
      select project_id, hour, sum(n) from given, jsonb_to_recordset(hours) as each (hour timestamptz, n bigint)
      group by 1, 2
      on conflict (project_id, hour) do update set event_count = h.event_count + excluded.event_count
    ), facets as (
      insert into error_facets as f (error_id, kind, value, event_count, first_seen, last_seen)
      select given.error_id, each.* from given, jsonb_to_recordset(facets)
        as each (kind text, value text, count bigint, first_seen timestamptz, last_seen timestamptz)
      on conflict (error_id, kind, value) do update set event_count = f.event_count + excluded.event_count,
        first_seen = least(f.first_seen, excluded.first_seen), last_seen = greatest(f.last_seen, excluded.last_seen)
    ), users as (
      insert into error_users (error_id, hash) select error_id, unnest(users) from given
      on conflict do nothing returning error_id
    )
    update errors e set
      event_count = e.event_count + given.count,
      user_count = e.user_count + ((select count(*) from users u where u.error_id = e.id) << e.user_sampling),
      first_seen = least(e.first_seen, given.first_seen), last_seen = greatest(e.last_seen, given.last_seen),
      level = case when given.newest_received_at >= e.newest_received_at then given.level else e.level end,
      newest_event_id = case when given.newest_received_at >= e.newest_received_at
        then given.newest_event_id else e.newest_event_id end,
      newest_received_at = greatest(e.newest_received_at, given.newest_received_at),
      first_release_id = coalesce(e.first_release_id, given.first_release_id),
      last_release_id = case when given.newest_received_at >= e.newest_received_at
        then coalesce(given.last_release_id, e.last_release_id)
        else coalesce(e.last_release_id, given.last_release_id) end
    from given where e.id = given.error_id`.execute(tx.db);
};
