import { FAILURE_REASONS, type FailureReason } from '#domains/ci/failures.ts';
import { jobOptions } from '#domains/ci/options.ts';
import { finishJob, recordContact } from '#domains/ci/transitions.ts';
import { appendTrace, checkTrace } from '#domains/traces/commands.ts';
import type { Context } from '#platform/context.ts';
import { digestToken } from '#platform/secrets.ts';
import { findCoverage } from './coverage.ts';

/** A job whose runner has shown the job's token. */
export interface RunningJob {
  readonly id: number;
  /** `running` or `canceling`. */
  readonly status: string;
  readonly options: unknown;
  /** Whether the last contact is so old that it must be recorded. */
  readonly is_silent: boolean;
}

/** Contacts are recorded at most this often. A silent job fails after an hour. */
const CONTACT_MS = 5 * 60_000;

/**
 * Returns the running job with this id and token; null if there is none. Tokens end with their jobs. A job whose user was
 * blocked meanwhile fails here, as it does when it is handed out.
 */
export const findRunningJob = async (ctx: Context, id: number, token: string): Promise<RunningJob | null> => {
  const row = await ctx.db
    .selectFrom('jobs')
    .leftJoin('users', 'users.id', 'jobs.user_id')
    .select(['jobs.id', 'jobs.status', 'jobs.options', 'jobs.contacted_at', 'users.state as user_state'])
    .where('jobs.token_digest', '=', digestToken(token))
    .where('jobs.id', '=', id)
    .where('jobs.status', 'in', ['running', 'canceling'])
    .executeTakeFirst();
  if (!row) return null;
  const { contacted_at, user_state, ...job } = row;
  if (user_state !== null && user_state !== 'active') {
    await ctx.transaction((tx) => finishJob(tx, id, { status: 'failed', failure_reason: 'user_blocked' }));
    return null;
  }
  const is_silent = contacted_at === null || ctx.clock.now().getTime() - Date.parse(contacted_at) > CONTACT_MS;
  if (is_silent) await recordContact(ctx, id);
  return { ...job, is_silent };
};

export const JOB_STATES = ['pending', 'running', 'success', 'failed'] as const;
export type JobState = (typeof JOB_STATES)[number];

export interface JobUpdate {
  readonly state: JobState;
  readonly failure_reason?: string | undefined;
  readonly exit_code?: number | undefined;
  /** CRC-32 of the whole log, and its size in bytes. Null if the runner does not say. */
  readonly crc32: number | null;
  readonly bytesize: number | null;
}

/**
 * Applies what a runner says about its job.
 *
 * - `done`: the job has ended, or goes on for `running` and `pending`.
 * - `busy`: a part of the log is still being stored. The runner repeats the call.
 * - `incomplete`: the log is not what the runner sent. The runner sends it again, and then repeats the call.
 * - `ended`: the job has ended otherwise.
 */
export const updateJob = async (
  ctx: Context,
  job: RunningJob,
  { state, failure_reason, exit_code, ...sent }: JobUpdate,
): Promise<'done' | 'busy' | 'incomplete' | 'ended'> => {
  if (state !== 'success' && state !== 'failed') return 'done';
  const trace = await ctx.transaction((tx) => checkTrace(tx, job.id, sent));
  if (trace !== 'complete') return trace;
  const coverage = await findCoverage(ctx, job.id, jobOptions(job)?.coverage ?? null);
  const ended = await ctx.transaction((tx) =>
    finishJob(tx, job.id, {
      status: state,
      coverage,
      ...(state === 'failed' ? { exit_code, failure_reason: knownReason(failure_reason) } : {}),
    }),
  );
  return ended ? 'done' : 'ended';
};

/** Returns undefined if the runner names no reason. Reasons that the hub does not know become `unknown_failure`. */
const knownReason = (name: string | undefined): FailureReason | undefined =>
  name ? (FAILURE_REASONS.find((reason) => reason === name) ?? 'unknown_failure') : undefined;

/** Appends to the log of a running job. A log that grows beyond the limit ends the job. */
export const appendToLog = async (ctx: Context, job: RunningJob, part: Parameters<typeof appendTrace>[2]) => {
  const appended = await appendTrace(ctx, job.id, part);
  if (appended.outcome === 'too_large') {
    await ctx.transaction((tx) => finishJob(tx, job.id, { status: 'failed', failure_reason: 'trace_size_exceeded' }));
  }
  return appended;
};
