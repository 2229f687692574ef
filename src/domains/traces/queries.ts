import { Readable } from 'node:stream';
import { sql } from 'kysely';
import { DEVELOPER } from '#domains/access/model.ts';
import { isActive } from '#domains/ci/model.ts';
import { getJob, type JobRow } from '#domains/ci/queries.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { forbidden, notFound } from '#platform/errors.ts';
import type { ByteRange } from '#platform/storage/storage.ts';
import { watchTrace } from './commands.ts';

export interface Trace {
  readonly job_id: number;
  /** Bytes so far. */
  readonly size: number;
  readonly debug: boolean;
  readonly storage_key: string | null;
}

/**
 * Returns the trace of a job. Empty if the job has printed nothing. The runner of a running job is told to send its
 * output more often for a while.
 *
 * @throws DomainError as `getJob`, `forbidden` if the job prints its variables and the caller is not a developer
 */
export const getTrace = async (ctx: Context, project: ProjectRow, job_id: number): Promise<Trace> => {
  const job = await getJob(ctx, project, job_id);
  const trace = await traceOf(ctx, project, job);
  if (!trace) throw forbidden('Only developers read the log of a job that prints its variables');
  return trace;
};

/** Returns the project of a job, without checking access. @throws DomainError `not_found` */
export const getProjectIdOfJob = async ({ db }: Pick<Context, 'db'>, id: number): Promise<number> => {
  const row = await db.selectFrom('jobs').select('project_id').where('id', '=', id).executeTakeFirst();
  if (!row) throw notFound();
  return row.project_id;
};

/** Returns the trace of a job that the caller can see. Null if it is only for developers. */
export const traceOf = async (
  ctx: Context,
  project: Pick<ProjectRow, 'access_level'>,
  job: JobRow,
): Promise<Trace | null> => {
  const trace = (await findTrace(ctx, job.id)) ?? { job_id: job.id, size: 0, debug: false, storage_key: null };
  if (trace.debug && project.access_level < DEVELOPER && !ctx.actor.isAdmin) return null;
  if (isActive(job) || job.status === 'canceling') await watchTrace(ctx, job.id);
  return trace;
};

/** Returns the trace of a job, without checking access. Null if the job has printed nothing. */
export const findTrace = async (ctx: Pick<Context, 'db'>, job_id: number): Promise<Trace | null> =>
  (await ctx.db
    .selectFrom('job_traces')
    .select(['job_id', 'size', 'debug', 'storage_key'])
    .where('job_id', '=', job_id)
    .executeTakeFirst()) ?? null;

/** Chunks are a megabyte at most. */
const CHUNKS_PER_READ = 4;

/**
 * Reads a part of a trace; both ends are inclusive. A trace that is archived meanwhile is read on from its file.
 *
 * @throws DomainError `not_found` while it is read, if the trace was erased
 */
export const readTrace = (
  ctx: Context,
  { job_id }: Pick<Trace, 'job_id'>,
  { start, end }: Required<ByteRange>,
): Readable => Readable.from(partsOf(ctx, job_id, start, end), { objectMode: false });

async function* partsOf(ctx: Context, job_id: number, start: number, end: number): AsyncGenerator<Buffer> {
  for (let position = start; position <= end; ) {
    ctx.signal.throwIfAborted();
    const chunks = await readChunks(ctx, job_id, position, end);
    const before = position;
    for (const { start: chunkStart, bytes } of chunks) {
      // The bytes between two chunks were dropped meanwhile. The file has them.
      if (chunkStart > position || chunkStart + bytes.length <= position) break;
      const part = bytes.subarray(position - chunkStart, end + 1 - chunkStart);
      position += part.length;
      yield part;
    }
    if (position > before) continue;
    const trace = await findTrace(ctx, job_id);
    if (!trace?.storage_key) throw notFound('Trace');
    yield* (await ctx.services.storage.read(trace.storage_key, { start: position, end })).stream;
    return;
  }
}

/** Returns the chunks from the one that holds `position`. None if it was dropped, also if later ones are still there. */
const readChunks = async (
  ctx: Pick<Context, 'db'>,
  job_id: number,
  position: number,
  end: number,
): Promise<{ start: number; bytes: Buffer }[]> => {
  const { rows } = await sql<{ start: number; bytes: Buffer }>`
    select start, bytes from job_trace_chunks
    where job_id = ${job_id} and start <= ${end} and start >= coalesce(
      (select max(c.start) from job_trace_chunks c where c.job_id = ${job_id} and c.start <= ${position}), ${position})
    order by start limit ${sql.lit(CHUNKS_PER_READ)}`.execute(ctx.db);
  return (rows[0]?.start ?? 0) <= position ? rows : [];
};

/** Reads a part of a trace into memory. */
export const readTraceText = async (ctx: Context, job_id: number, start: number, end: number): Promise<string> => {
  if (end < start) return '';
  const parts: Buffer[] = [];
  for await (const part of partsOf(ctx, job_id, start, end)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
};

const NEWLINE = 0x0a;
const MAX_LINE = 64 * 1024;

/** Returns where the line begins that holds the byte before `position`. A longer line than 64 KiB begins at `position`. */
export const lineStart = async (ctx: Context, job_id: number, position: number): Promise<number> => {
  const from = Math.max(0, position - MAX_LINE);
  if (position === 0) return 0;
  const parts: Buffer[] = [];
  for await (const part of partsOf(ctx, job_id, from, position - 1)) parts.push(part);
  const newline = Buffer.concat(parts).lastIndexOf(NEWLINE);
  if (newline >= 0) return from + newline + 1;
  return from === 0 ? 0 : position;
};
