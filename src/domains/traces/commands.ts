import { crc32 } from 'node:zlib';
import { sql } from 'kysely';
import { DEVELOPER } from '#domains/access/model.ts';
import { type EventScopeColumns, eventScope, SCOPE_COLUMNS } from '#domains/ci/payloads.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { ensurePartitions, type PartitionedTable } from '#platform/db/partitions.ts';
import { traceAppended } from './events.ts';

const MEBIBYTE = 1024 * 1024;

/** The chunks of traces, by the day of their arrival. */
export const TRACE_CHUNKS: PartitionedTable = { name: 'job_trace_chunks', step: 'day' };

/** Readers that stop asking are forgotten after this time. */
const WATCH_SECONDS = 30;

export interface TracePart {
  /** The position of its first byte. */
  readonly start: number;
  readonly bytes: Buffer;
  /** Whether the job prints its variables. */
  readonly debug: boolean;
}

export interface Appended {
  /** `elsewhere`: the part does not begin where the trace ends. `ended`: the trace is archived. Nothing was stored. */
  readonly outcome: 'stored' | 'elsewhere' | 'too_large' | 'ended';
  /** Bytes stored now. */
  readonly size: number;
  /** Whether somebody reads along. */
  readonly watched: boolean;
}

/**
 * Appends a part to the trace of a job. It is durable when the promise resolves. The caller has authenticated the
 * runner of the job.
 */
export const appendTrace = async (
  ctx: Context,
  job_id: number,
  { start, bytes, debug }: TracePart,
): Promise<Appended> => {
  const limit = (await getSettings(ctx)).ci_jobs_trace_size_limit * MEBIBYTE;
  const now = ctx.clock.now();
  await ensurePartitions(ctx, TRACE_CHUNKS, [now]);
  return ctx.transaction(async (tx) => {
    const trace = await lockTrace(tx, job_id);
    const { size, watched } = trace;
    if (trace.storage_key !== null) return { outcome: 'ended', size, watched };
    if (start !== size) return { outcome: 'elsewhere', size, watched };
    const end = start + bytes.length;
    if (limit > 0 && end > limit) return { outcome: 'too_large', size, watched };
    if (bytes.length === 0) return { outcome: 'stored', size, watched };
    const isDebug = trace.debug || debug;
    await sql`
      with grown as (
        update job_traces set size = ${end}, crc32 = ${crc32(bytes, trace.crc32)}, debug = ${isDebug}
        where job_id = ${job_id}
      )
      insert into job_trace_chunks (job_id, start, bytes, received_at)
      values (${job_id}, ${start}, ${bytes}, ${now})`.execute(tx.db);
    tx.emit(traceAppended, {
      ...eventScope(trace),
      ...(isDebug ? { min_access_level: DEVELOPER } : {}),
      subject: { type: 'Ci::Build', id: job_id },
      payload: { job_id, start, end, debug: isDebug },
    });
    return { outcome: 'stored', size: end, watched };
  });
};

interface LockedTrace extends EventScopeColumns {
  readonly size: number;
  readonly crc32: number;
  readonly debug: boolean;
  readonly watched: boolean;
  readonly storage_key: string | null;
}

/** Locks the trace of a job, which is created if there is none. */
const lockTrace = async (tx: Tx, job_id: number): Promise<LockedTrace> => {
  const find = async () => {
    const { rows } = await sql<LockedTrace>`
      select t.size, t.crc32, t.debug, coalesce(t.watched_until > now(), false) as watched, t.storage_key,
        p.id as project_id, ${SCOPE_COLUMNS}
      from job_traces t join jobs j on j.id = t.job_id
        join projects p on p.id = j.project_id join namespaces n on n.id = p.namespace_id
      where t.job_id = ${job_id} for update of t`.execute(tx.db);
    return rows[0];
  };
  const found = await find();
  if (found) return found;
  await sql`insert into job_traces (job_id) values (${job_id}) on conflict do nothing`.execute(tx.db);
  const created = await find();
  if (!created) throw new Error(`the job ${job_id} has no project`);
  return created;
};

/** The runner sends everything again at most this often. After that its trace is accepted as it is. */
const MAX_RESETS = 3;

/**
 * Compares the trace with what the runner says that it has sent.
 *
 * - `complete`: the trace is the same, or the runner has sent it again in vain.
 * - `busy`: a part is being stored right now.
 * - `incomplete`: bytes are missing at the end, or the trace differed and was emptied. The runner must send it again.
 */
export const checkTrace = async (
  tx: Tx,
  job_id: number,
  sent: { readonly crc32: number | null; readonly bytesize: number | null },
): Promise<'complete' | 'busy' | 'incomplete'> => {
  const { rows } = await sql<{ size: number; crc32: number; resets: number }>`
    select size, crc32, resets from job_traces where job_id = ${job_id} for update skip locked`.execute(tx.db);
  const [trace] = rows;
  if (!trace && (await isTraceLocked(tx, job_id))) return 'busy';
  const { size, crc32: checksum, resets } = trace ?? { size: 0, crc32: 0, resets: 0 };
  const isSame = (sent.bytesize === null || sent.bytesize === size) && (sent.crc32 === null || sent.crc32 === checksum);
  if (isSame) return 'complete';
  if (resets >= MAX_RESETS) {
    tx.log.warn({ job_id, size, bytesize: sent.bytesize }, 'the trace of a job differs from what its runner sent');
    return 'complete';
  }
  // A prefix of what was sent is kept, and the runner goes on after it.
  const isShort = sent.bytesize !== null && sent.bytesize > size;
  await sql`
    insert into job_traces (job_id, resets) values (${job_id}, 1) on conflict (job_id) do update set
      resets = job_traces.resets + 1,
      size = case when ${isShort} then job_traces.size else 0 end,
      crc32 = case when ${isShort} then job_traces.crc32 else 0 end`.execute(tx.db);
  if (!isShort) await sql`delete from job_trace_chunks where job_id = ${job_id}`.execute(tx.db);
  return 'incomplete';
};

const isTraceLocked = async (tx: Tx, job_id: number): Promise<boolean> =>
  (await tx.db.selectFrom('job_traces').select('job_id').where('job_id', '=', job_id).executeTakeFirst()) !== undefined;

/** Removes the trace of a job, and its stored file soon after the commit. */
export const eraseTrace = async (tx: Tx, job_id: number): Promise<boolean> => {
  const { numDeletedRows } = await tx.db.deleteFrom('job_traces').where('job_id', '=', job_id).executeTakeFirst();
  return numDeletedRows > 0n;
};

/** Notes that somebody reads along, so that the runner sends its output more often. */
export const watchTrace = async (ctx: Pick<Context, 'db'>, job_id: number): Promise<void> => {
  await sql`
    insert into job_traces as t (job_id, watched_until) values (${job_id}, now() + make_interval(secs => ${WATCH_SECONDS}))
    on conflict (job_id) do update set watched_until = excluded.watched_until
    where t.storage_key is null and (t.watched_until is null or t.watched_until < now() + make_interval(secs => ${WATCH_SECONDS / 2}))`.execute(
    ctx.db,
  );
};
