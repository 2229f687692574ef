import { sql } from 'kysely';
import { recordAll } from '#domains/error-tracking/event.ts';
import type { Context, Tx } from '#platform/context.ts';
import { isTransient } from '#platform/db/failures.ts';
import { notePassed } from '#platform/process/collect.ts';
import { type Batch, readInThread, UnreadError } from './digest/thread.ts';

/** The most that a batch holds: few enough that others wait little, and many enough that statements cost little. */
const MAX_ENVELOPES = 250;
const MAX_BATCH_BYTES = 2 * 1024 * 1024;

/**
 * Digests the next envelopes that no one else digests. Recording and removing them is one transaction, so each is
 * digested exactly once, whatever dies. Returns false if nothing waits.
 */
export const digestBatch = async (ctx: Context): Promise<boolean> => {
  try {
    return await ctx.transaction((tx) => digestNext(tx, MAX_ENVELOPES));
  } catch (error) {
    if (isNoFaultOfData(error) || ctx.signal.aborted) throw error;
    ctx.log.warn({ err: error }, 'could not digest a batch of envelopes; digesting them one by one');
    return digestSingly(ctx);
  }
};

const isNoFaultOfData = (error: unknown): boolean => isTransient(error) || error instanceof UnreadError;

/** Finds the envelope that makes its batch fail, and sets it aside. */
const digestSingly = async (ctx: Context): Promise<boolean> => {
  for (let i = 0; i < MAX_ENVELOPES && !ctx.signal.aborted; i++) {
    let id: number | undefined;
    try {
      const isDone = await ctx.transaction((tx) =>
        digestNext(tx, 1, (envelopes) => {
          id = envelopes[0]?.id;
        }),
      );
      if (!isDone) return false;
    } catch (error) {
      if (id === undefined || isNoFaultOfData(error) || ctx.signal.aborted) throw error;
      ctx.log.error({ err: error, envelope: id }, 'could not digest an envelope; setting it aside');
      const failed = { id, reason: error instanceof Error ? error.message : String(error) };
      await ctx.transaction(async (tx) => {
        await setAside(tx, [failed]);
        await remove(tx, [failed.id]);
      });
    }
  }
  return true;
};

const digestNext = async (tx: Tx, count: number, onClaim: (envelopes: Batch) => void = () => {}): Promise<boolean> => {
  const envelopes = await claim(tx, count);
  onClaim(envelopes);
  if (envelopes.length === 0) return false;
  const contents = await readInThread(tx.services, envelopes);
  await recordAll(tx, {
    events: contents.flatMap(({ events }) => events),
    sessions: contents.flatMap(({ sessions }) => sessions),
    discards: contents.flatMap(({ discards }) => discards),
    reports: contents.flatMap(({ reports }) => reports),
  });
  const failed = contents.flatMap(({ id, problem }) => (problem === null ? [] : [{ id, reason: problem }]));
  if (failed.length > 0) await setAside(tx, failed);
  await remove(
    tx,
    envelopes.map(({ id }) => id),
  );
  notePassed(envelopes.reduce((sum, { size }) => sum + size, 0));
  return true;
};

/**
 * Locks the envelopes whose turn it is: each project gives its oldest one, then its second, and so on, so that a flood of
 * one project does not hold others up. Others pass over the locked envelopes until the transaction ends.
 */
const claim = async (tx: Tx, count: number): Promise<Batch> => {
  const { rows } = await sql<Batch[number]>`
    with recursive projects (id) as (
      (select project_id from ingest_envelopes order by project_id limit 1)
      union all
      select (select e.project_id from ingest_envelopes e where e.project_id > projects.id order by e.project_id limit 1)
      from projects where projects.id is not null
    ), shares as (
      select id, ceil(${count}::numeric / count(*) over ())::int as share from projects where id is not null
    ), oldest as materialized (
      select e.* from shares cross join lateral (
        select id, project_id, key_id, received_at, event_id, form, encoding, size, address
        from ingest_envelopes where project_id = shares.id order by id limit shares.share for update skip locked
      ) e
    ), turns as (
      select *, row_number() over (partition by project_id order by id) as turn from oldest
    ), placed as (
      select *, row_number() over in_turn as place, sum(size) over in_turn - size as before
      from turns window in_turn as (order by turn, id)
    )
    select id, project_id, key_id, to_char(received_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as received_at,
      replace(event_id::text, '-', '') as event_id, form, encoding, size, address
    from placed where place <= ${count} and before < ${MAX_BATCH_BYTES} order by id`.execute(tx.db);
  return rows;
};

/** Keeps envelopes that could not be digested wholly, with the reason, and counts them. */
const setAside = async (tx: Tx, failed: readonly { readonly id: number; readonly reason: string }[]): Promise<void> => {
  await sql`
    with aside as (
      insert into ingest_failures
        (id, project_id, key_id, received_at, reason, event_id, form, encoding, body)
      select e.id, e.project_id, e.key_id, e.received_at, f.reason, e.event_id, e.form, e.encoding, e.body
      from jsonb_to_recordset(${JSON.stringify(failed)}::jsonb) as f (id bigint, reason text)
        join ingest_envelopes e on e.id = f.id join projects p on p.id = e.project_id
      returning project_id, key_id
    )
    insert into ingest_counts as c (project_id, key_id, start, failed)
    select project_id, key_id, date_trunc('minute', now()), count(*) from aside group by 1, 2 order by 1, 2
    on conflict (project_id, start, key_id) do update set failed = c.failed + excluded.failed`.execute(tx.db);
};

const remove = async (tx: Tx, ids: readonly number[]): Promise<void> => {
  await sql`delete from ingest_envelopes where id = any (${ids}::bigint[])`.execute(tx.db);
};
