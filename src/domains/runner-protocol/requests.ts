import { contactManager, type ManagerInfo } from '#domains/runners/managers.ts';
import { findRunnerByToken, type RunnerFacts } from '#domains/runners/tokens.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { type AskingRunner, takeJob } from './hand-outs.ts';
import type { JobPayload } from './payload.ts';
import { NOTHING_SEEN, readSeen, type Seen, writeSeen } from './seen.ts';
import { type PendingJob, waitingRunners } from './waiting.ts';

export interface JobRequest {
  readonly token: string;
  readonly system_id?: string | undefined;
  /** The value of the last answer. */
  readonly last_update?: string | undefined;
  readonly info: ManagerInfo;
}

export interface JobAnswer {
  /** Null if there is none. */
  readonly job: JobPayload | null;
  /** The value that the runner sends with its next request. Null while it is paused. */
  readonly last_update: string | null;
}

/**
 * Returns the runner with this token and the id of its manager, and stores the contact.
 *
 * @throws DomainError `forbidden` for an unknown or expired token
 */
export const contactRunner = async (
  ctx: Context,
  { token, system_id, info }: Pick<JobRequest, 'token' | 'system_id' | 'info'>,
): Promise<{ readonly facts: RunnerFacts; readonly manager_id: number }> => {
  const facts = await findRunnerByToken(ctx, token);
  if (!facts) throw forbidden();
  return { facts, manager_id: await contactManager(ctx, facts.id, system_id, info) };
};

/**
 * Hands a job to a runner. If there is none, a first request is answered at once. A request that repeats `last_update`
 * waits for a job, without any statement, for as long as the configuration allows.
 *
 * @throws DomainError `forbidden` for an unknown or expired token, `conflict` if other runners took every job
 */
export const requestJob = async (
  ctx: Context,
  { token, system_id, last_update, info }: JobRequest,
): Promise<JobAnswer> => {
  const { facts, manager_id } = await contactRunner(ctx, { token, system_id, info });
  if (facts.paused) return { job: null, last_update: null };
  const asking: AskingRunner = { token, facts, manager_id, info };
  const room = waitingRunners(ctx);
  const deadline = performance.now() + ctx.services.config.runnerPollSeconds * 1_000;
  let seen = readSeen(ctx, last_update, facts);
  for (;;) {
    let woken: PendingJob | null = null;
    if (seen && !room.hasNewJobs(facts, seen.position)) {
      woken = await room.wait(facts, deadline - performance.now(), ctx.signal);
      if (woken === null) return { job: null, last_update: writeSeen(seen, facts) };
    }
    const looked: Seen = { position: room.position, at: ctx.clock.now().getTime() };
    const job = await look(ctx, asking, woken);
    // There may be more jobs, so the next request looks again.
    if (job !== null) return { job, last_update: writeSeen(NOTHING_SEEN, facts) };
    if (woken === null) return { job, last_update: writeSeen(looked, facts) };
    seen = looked;
  }
};

/** Looks for a job. If the runner was woken for one that it does not get, another runner looks for that one. */
const look = async (ctx: Context, asking: AskingRunner, woken: PendingJob | null): Promise<JobPayload | null> => {
  const room = waitingRunners(ctx);
  let job: JobPayload | null = null;
  try {
    job = await takeJob(ctx, asking);
    if (job !== null) room.taken(job.id);
    return job;
  } finally {
    if (woken !== null && job?.id !== woken.id) {
      // Not awaited, because the answer does not depend on it.
      room.passOn(ctx, woken, asking.facts).catch((error: unknown) => {
        ctx.log.warn({ err: error }, 'could not wake another runner for a pending job');
      });
    }
  }
};
