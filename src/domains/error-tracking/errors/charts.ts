import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { DAY_MS, HOUR_MS } from '#platform/values/units.ts';

/** The number of events in a period that starts at `time`. */
export interface Bar {
  readonly time: string;
  readonly count: number;
}

interface Period {
  readonly unit: 'hour' | 'day';
  readonly length: number;
  readonly unitMs: number;
}
const LAST_DAY: Period = { unit: 'hour', length: 24, unitMs: HOUR_MS };
const LAST_DAYS: Period = { unit: 'day', length: 14, unitMs: DAY_MS };

const barsOf =
  (hours: Hours, period: Period) =>
  (ctx: Pick<Context, 'db' | 'clock'>, ids: readonly number[]): Promise<ReadonlyMap<number, readonly Bar[]>> =>
    readBars(ctx, hours, ids, period);

/** The tables of hourly counts, with the column of their owner. */
type Hours = readonly ['error_hours', 'error_id'] | readonly ['error_project_hours', 'project_id'];
const OF_ERRORS: Hours = ['error_hours', 'error_id'];
const OF_PROJECTS: Hours = ['error_project_hours', 'project_id'];

const readBars = async (
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  [table, owner]: Hours,
  ids: readonly number[],
  { unit, length, unitMs }: Period,
): Promise<ReadonlyMap<number, readonly Bar[]>> => {
  const now = clock.now().getTime();
  const times = Array.from({ length }, (_, n) => new Date((Math.floor(now / unitMs) - length + 1 + n) * unitMs));
  const { rows } = await sql<{ owner_id: number; at: number; count: number }>`
    select ${sql.ref(owner)} as owner_id, extract(epoch from date_trunc(${sql.lit(unit)}, hour, 'UTC'))::bigint as at,
      sum(event_count)::bigint as count
    from ${sql.table(table)} where ${sql.ref(owner)} = any (${ids}::bigint[]) and hour >= ${times[0]?.toISOString()}
    group by 1, 2`.execute(db);
  const counts = new Map(rows.map(({ owner_id, at, count }) => [`${owner_id} ${at}`, count]));
  return new Map(
    ids.map((id) => [
      id,
      times.map((time) => ({ time: time.toISOString(), count: counts.get(`${id} ${time.getTime() / 1000}`) ?? 0 })),
    ]),
  );
};

/** Returns the events of each error in each of the last 24 hours, the running one last. */
export const hourlyByErrors = barsOf(OF_ERRORS, LAST_DAY);
/** Returns the events of each error on each of the last 14 days (UTC), today last. */
export const dailyByErrors = barsOf(OF_ERRORS, LAST_DAYS);
/** The same for all errors of each project. */
export const hourlyByProjects = barsOf(OF_PROJECTS, LAST_DAY);
export const dailyByProjects = barsOf(OF_PROJECTS, LAST_DAYS);

/** Items that SDKs dropped instead of sending them, as they report it. */
export interface Discards {
  readonly project_id: number;
  readonly hour: string;
  /** Such as `ratelimit_backoff` or `before_send`. */
  readonly reason: string;
  /** Such as `error` or `session`. */
  readonly category: string;
  readonly quantity: number;
}

const MAX_DISCARDS = 500;

/** Returns what the SDKs of each project dropped in the last 24 hours, newest hour first, at most 500 rows. */
export const discardsByProjects = async (
  { db, clock }: Pick<Context, 'db' | 'clock'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly Discards[]>> => {
  const since = new Date(clock.now().getTime() - DAY_MS).toISOString();
  const { rows } = await sql<Discards>`
    select d.project_id, d.hour, d.reason, d.category, d.quantity
    from unnest(${ids}::bigint[]) as given (project_id)
    cross join lateral (select * from error_client_discards d
      where d.project_id = given.project_id and d.hour > ${since}
      order by d.hour desc, d.reason, d.category limit ${sql.lit(MAX_DISCARDS)}) d
    order by d.hour desc, d.reason, d.category`.execute(db);
  return Map.groupBy(rows, ({ project_id }) => project_id);
};

/** An environment or release in which an error was seen within the retention. */
export interface Facet {
  readonly value: string;
  readonly event_count: number;
  readonly first_seen: string;
  readonly last_seen: string;
}

export interface Facets {
  readonly environments: readonly Facet[];
  readonly releases: readonly Facet[];
}

const MAX_FACETS = 100;

/** Returns the environments and releases of each error, those with most events first, at most 100 of each. */
export const facetsByErrors = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Facets>> => {
  const { rows } = await sql<Facet & { error_id: number; kind: string }>`
    select error_id, kind, value, event_count, first_seen, last_seen from (
      select *, row_number() over (partition by error_id, kind order by event_count desc, value) as place
      from error_facets where error_id = any (${ids}::bigint[])) ranked
    where place <= ${sql.lit(MAX_FACETS)} order by error_id, kind, place`.execute(db);
  const found = Map.groupBy(rows, ({ error_id, kind }) => `${error_id} ${kind}`);
  return new Map(
    ids.map((id) => [
      id,
      { environments: found.get(`${id} environment`) ?? [], releases: found.get(`${id} release`) ?? [] },
    ]),
  );
};

/** How often the values of a tag occur among the newest events of an error. */
export interface TagShares {
  readonly key: string;
  /** The events that have the tag. */
  readonly total: number;
  readonly values: readonly { readonly value: string; readonly count: number }[];
}

/** The number of events from which the shares of an error's tags are computed. */
const SAMPLED_EVENTS = 1_000;
const MAX_VALUES = 10;

/** Returns the shares of the tags among the newest 1,000 events of each error, with the ten most frequent values. */
export const tagsByErrors = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<ReadonlyMap<number, readonly TagShares[]>> => {
  const { rows } = await sql<TagShares & { error_id: number }>`
    select error_id, key, sum(count)::bigint as total,
      jsonb_agg(jsonb_build_object('value', value, 'count', count) order by count desc, value)
        filter (where place <= ${sql.lit(MAX_VALUES)}) as values
    from (
      select given.error_id, tag.key, tag.value, count(*) as count,
        row_number() over (partition by given.error_id, tag.key order by count(*) desc, tag.value) as place
      from unnest(${ids}::bigint[]) as given (error_id)
      cross join lateral (select tags from error_events e where e.error_id = given.error_id
        order by received_at desc limit ${sql.lit(SAMPLED_EVENTS)}) newest
      cross join lateral jsonb_each_text(newest.tags) as tag
      group by 1, 2, 3) counted
    group by 1, 2 order by 1, 3 desc, 2`.execute(db);
  return Map.groupBy(rows, ({ error_id }) => error_id);
};
