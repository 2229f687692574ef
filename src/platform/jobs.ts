import type { z } from 'zod';
import type { Context } from './context.ts';

export interface EnqueueOptions {
  /** Not before this time. */
  readonly runAt?: Date;
  /** Jobs with one key exist once: adding again replaces the waiting one (a running one is left alone and a new one added). */
  readonly key?: string;
}

export interface JobRun {
  /** 1 on the first run. */
  readonly attempt: number;
  readonly lastAttempt: boolean;
}

export interface JobDefinition<I> {
  /** `<domain>.<verb>`, for good: a retired name keeps its handler until its queue is empty. */
  readonly name: string;
  /** Parsed when the job is added and again when it runs. */
  readonly input: z.ZodType<I>;
  readonly maxAttempts: number;
  /** Handlers may run twice, or die in the middle and be resumed elsewhere: they go on from stored progress and stop on `ctx.signal`. */
  run(ctx: Context, input: I, run: JobRun): Promise<void>;
  /** A cron pattern (UTC, five fields) for a job that also runs by the clock, with `{}` as its input. */
  readonly cron?: string;
  /** Takes minutes rather than moments: such jobs have workers of their own, so that they never hold up the short ones. */
  readonly long?: boolean;
  /** Goes at the pace of servers elsewhere, for hours at worst: such jobs hold up nothing but each other. */
  readonly remote?: boolean;
}

export const defineJob = <I>(definition: JobDefinition<I>): JobDefinition<I> => definition;

/** A definition whose input type has been closed over, so that many fit into one list. */
export interface AnyJobDefinition {
  readonly name: string;
  readonly maxAttempts: number;
  readonly cron?: string;
  readonly long: boolean;
  readonly remote: boolean;
  run(ctx: Context, payload: unknown, run: JobRun): Promise<void>;
}

/** Closes over the input type; app/jobs.ts lists the results. */
export const runnable = <I>(definition: JobDefinition<I>): AnyJobDefinition => ({
  name: definition.name,
  maxAttempts: definition.maxAttempts,
  long: definition.long ?? false,
  remote: definition.remote ?? false,
  ...(definition.cron === undefined ? {} : { cron: definition.cron }),
  run: (ctx, payload, run) => definition.run(ctx, definition.input.parse(payload), run),
});

/** Thrown by a handler for a failure that no retry will mend: the job ends at once, its reason logged. */
export class FinalJobError extends Error {
  override readonly name = 'FinalJobError';
}
