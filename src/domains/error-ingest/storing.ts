import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import { queryWithBytes } from '#platform/db/bytes-query.ts';
import { digestEnvelopes } from './jobs.ts';
import type { Arrival } from './model.ts';
import type { Category, Noted, SentBefore } from './quotas.ts';

interface Row extends Arrival {
  readonly category: Category;
}

export interface StoredGroup {
  /** The indexes of the rows that were not stored, because their key no longer exists. */
  readonly refused: ReadonlySet<number>;
  /** Empty unless it was asked for. */
  readonly before: readonly SentBefore[];
  /** Whether a digest is queued that will find these rows. */
  readonly isQueued: boolean;
}

export interface StoreOptions {
  /** Whether the answer has what the keys sent before in this minute. */
  readonly asksCounts: boolean;
  /** Whether to queue the digest. It costs about as much as storing ten rows. */
  readonly queues: boolean;
}

/**
 * The rows are ordered before they get their bodies, because sorting bodies would copy them, or write them to disk.
 *
 * `add_jobs` returns no row if a worker takes the waiting job at that moment. That worker may have looked before these rows
 * were there.
 */
const STORE = `
  with given as (
    select * from unnest($1::bigint[], $2::bigint[], $3::uuid[], $4::text[], $5::text[], $6::integer[], $7::text[],
      $8::boolean[], $9::integer[], $10::integer[]) with ordinality
      as g (project_id, key_id, event_id, form, encoding, size, address, is_event, start, length, position)
  ), valid as materialized (
    select g.* from given g
      join error_tracking_client_keys k on k.id = g.key_id and k.project_id = g.project_id
      left join error_tracking_settings s on s.project_id = g.project_id
    where coalesce(s.active and s.integrated, true)
  ), stored as (
    insert into ingest_envelopes (project_id, key_id, event_id, form, encoding, size, address, body)
    select project_id, key_id, event_id, form, encoding, size, address, substring($14::bytea from start for length)
    from (select * from valid order by position) in_order
  ), counted as (
    insert into ingest_counts as c (project_id, key_id, start, events, others)
    select project_id, key_id, date_trunc('minute', now()),
      count(*) filter (where is_event), count(*) filter (where not is_event)
    from valid group by 1, 2 order by 1, 2
    on conflict (project_id, start, key_id) do update
      set events = c.events + excluded.events, others = c.others + excluded.others
  )
  select
    array(select position from given where position not in (select position from valid))::bigint[] as refused,
    case when $13::boolean then exists (select from graphile_worker.add_jobs(
      array[json_populate_record(null::graphile_worker.job_spec, $11::json)])) else false end as is_queued,
    case when $12::boolean then (
      select jsonb_agg(jsonb_build_object(
        'project_id', project_id, 'key_id', key_id, 'events', events, 'others', others))
      from ingest_counts
      where start = date_trunc('minute', now()) and project_id in (select project_id from valid)
    ) end as before`;

const JOB = JSON.stringify({
  identifier: digestEnvelopes.name,
  payload: {},
  max_attempts: digestEnvelopes.maxAttempts,
  job_key: digestEnvelopes.name,
});

/**
 * Stores envelopes, counts them and queues their digest in one statement, which is its own transaction. It checks every
 * key again, so a deleted key is refused at once, whatever is cached.
 */
export const storeGroup = async (
  ctx: Context,
  rows: readonly Row[],
  { asksCounts, queues }: StoreOptions,
): Promise<StoredGroup> => {
  const lengths = rows.map(({ body }) => body.reduce((sum, { length }) => sum + length, 0));
  let end = 1;
  const starts = lengths.map((length) => {
    end += length;
    return end - length;
  });
  const [answer] = await queryWithBytes<{ refused: number[]; is_queued: boolean; before: SentBefore[] | null }>(
    ctx.services.pool,
    STORE,
    [
      arrayOf(rows.map(({ project_id }) => project_id)),
      arrayOf(rows.map(({ key_id }) => key_id)),
      arrayOf(rows.map(({ event_id }) => event_id)),
      arrayOf(rows.map(({ form }) => form)),
      arrayOf(rows.map(({ encoding }) => encoding)),
      arrayOf(rows.map(({ size }) => size)),
      arrayOf(rows.map(({ address }) => address)),
      arrayOf(rows.map(({ category }) => category === 'events')),
      arrayOf(starts),
      arrayOf(lengths),
      JOB,
      String(asksCounts),
      String(queues),
    ],
    rows.flatMap(({ body }) => body),
  );
  if (!answer) throw new Error('the statement that stores envelopes returned nothing');
  return {
    refused: new Set(answer.refused.map((position) => position - 1)),
    before: answer.before ?? [],
    isQueued: answer.is_queued,
  };
};

/** Queues the digest of what is stored. If that fails, the job that runs every minute digests it. */
export const queueDigest = async (ctx: Context): Promise<void> => {
  try {
    await ctx.transaction(async (tx) => tx.enqueue(digestEnvelopes, {}, { key: digestEnvelopes.name }));
  } catch (error) {
    ctx.log.warn({ err: error }, 'could not queue the digest of stored envelopes');
  }
};

/** Writes an array for Postgres. A proxy may send an address with quotes and backslashes, which JSON escapes alike. */
const arrayOf = (values: readonly (number | string | boolean | null)[]): string =>
  `{${values.map((value) => (typeof value === 'string' ? JSON.stringify(value) : String(value))).join()}}`;

/** Counts what was refused or dropped. Leaves out those of deleted projects. */
export const countRefused = async ({ db }: Pick<Context, 'db'>, noted: readonly Noted[]): Promise<void> => {
  await sql`
    insert into ingest_counts as c (project_id, key_id, start, refused, invalid, dropped)
    select n.project_id, n.key_id, date_trunc('minute', now()), n.refused, n.invalid, n.dropped
    from jsonb_to_recordset(${JSON.stringify(noted)}::jsonb)
        as n (project_id bigint, key_id bigint, refused integer, invalid integer, dropped integer)
      join projects p on p.id = n.project_id
    order by 1, 2
    on conflict (project_id, start, key_id) do update
      set refused = c.refused + excluded.refused, invalid = c.invalid + excluded.invalid,
        dropped = c.dropped + excluded.dropped`.execute(db);
};

/** Returns about how many envelopes wait, from the statistics of Postgres. Counting them would take long. */
export const readBacklog = async ({ db }: Pick<Context, 'db'>): Promise<number> => {
  const { rows } = await sql<{ waiting: number }>`
    select pg_stat_get_live_tuples('ingest_envelopes'::regclass) as waiting`.execute(db);
  return rows[0]?.waiting ?? 0;
};
