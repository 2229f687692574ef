import type { z } from 'zod';
import type { Context } from './context.ts';

export interface EnqueueOptions {
  /** The earliest time to run the job. */
  readonly runAt?: Date;
  /**
   * Only one waiting job exists per key: adding another replaces it. A running job is left alone, and a new one is
   * added.
   */
  readonly key?: string;
}

export interface JobRun {
  /** 1 on the first run. */
  readonly attempt: number;
  readonly lastAttempt: boolean;
}

export interface JobDefinition<I> {
  /** `<domain>.<verb>`. Permanent: a retired name keeps its handler until its queue is empty. */
  readonly name: string;
  /** Parses the input when the job is added and again when it runs. */
  readonly input: z.ZodType<I>;
  readonly maxAttempts: number;
  /**
   * Runs the job. A handler may run twice, or die in the middle and continue in another process. It must continue from
   * stored progress and stop on `ctx.signal`.
   */
  run(ctx: Context, input: I, run: JobRun): Promise<void>;
  /** A cron pattern (UTC, five fields) for a job that also runs on a schedule, with `{}` as input. */
  readonly cron?: string;
  /**
   * Waits this long before a run, so that all requests of the same key meanwhile share it. Further requests do not
   * postpone the run.
   */
  readonly sharedMs?: number;
  /** True for jobs that take minutes. They have separate workers, so that they never block short jobs. */
  readonly long?: boolean;
  /** True for jobs that depend on the speed of other servers, possibly for hours. They only block each other. */
  readonly remote?: boolean;
}

export const defineJob = <I>(definition: JobDefinition<I>): JobDefinition<I> => definition;

/** A definition that hides its input type, so that one list can hold many. */
export interface AnyJobDefinition {
  readonly name: string;
  readonly maxAttempts: number;
  readonly cron?: string;
  readonly sharedMs?: number;
  readonly long: boolean;
  readonly remote: boolean;
  run(ctx: Context, payload: unknown, run: JobRun): Promise<void>;
}

/** Hides the input type of a job. app/jobs.ts lists the results. */
export const runnable = <I>(definition: JobDefinition<I>): AnyJobDefinition => ({
  name: definition.name,
  maxAttempts: definition.maxAttempts,
  long: definition.long ?? false,
  remote: definition.remote ?? false,
  ...(definition.cron === undefined ? {} : { cron: definition.cron }),
  ...(definition.sharedMs === undefined ? {} : { sharedMs: definition.sharedMs }),
  run: (ctx, payload, run) => definition.run(ctx, definition.input.parse(payload), run),
});

/** Thrown by a handler for a failure that a retry cannot fix. The job ends at once, and the reason is logged. */
export class FinalJobError extends Error {
  override readonly name = 'FinalJobError';
}
