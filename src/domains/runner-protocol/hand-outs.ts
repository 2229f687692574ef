import { archivedBefore, isArchived } from '#domains/ci/archived.ts';
import type { FailureReason } from '#domains/ci/failures.ts';
import { newJobToken } from '#domains/ci/job-tokens.ts';
import { type Assignment, finishJob, runJobs } from '#domains/ci/transitions.ts';
import type { CompiledJob } from '#domains/ci-config/model.ts';
import type { ManagerInfo } from '#domains/runners/managers.ts';
import type { RunnerFacts } from '#domains/runners/tokens.ts';
import { type Context, type Services, systemActor, type Tx } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { isDatabaseAway, isDatabaseError } from '#platform/db/failures.ts';
import { conflict } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import { JobActors, UnknownActors } from './job-actors.ts';
import { type JobToRun, readJobsToRun } from './job-to-run.ts';
import { kindOfSeeker, lockJobs, readSeekers } from './matching.ts';
import { type JobPayload, payloadOf, timeoutOf } from './payload.ts';

/** A runner that asks for a job, and its manager. */
export interface AskingRunner {
  readonly token: string;
  readonly facts: RunnerFacts;
  readonly manager_id: number;
  readonly info: ManagerInfo;
}

/** Jobs that cannot run fail, and the next one is tried. A runner that meets more of them has to ask again. */
const MAX_TRIES = 45;

/** How often a runner looks again when others took what it found. */
const MAX_LOSSES = 3;

/**
 * Takes the next job for the runner. Returns null if there is none.
 *
 * @throws DomainError `conflict` if other runners took every job
 */
export const takeJob = async (ctx: Context, asking: AskingRunner): Promise<JobPayload | null> => {
  let losses = 0;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const taking = await handOuts(ctx.services).take(ctx, asking);
    if (taking.kind === 'taken') return taking.payload;
    if (taking.kind === 'none') return null;
    if (taking.kind === 'lost') {
      losses += 1;
      if (losses === MAX_LOSSES) break;
      continue;
    }
    const { id, reason } = taking;
    await ctx.transaction((tx) => finishJob(tx, id, { status: 'failed', failure_reason: reason }, 'pending'));
  }
  throw conflict();
};

type Taking =
  | { readonly kind: 'taken'; readonly payload: JobPayload }
  | { readonly kind: 'refused'; readonly id: number; readonly reason: FailureReason }
  | { readonly kind: 'none' }
  | { readonly kind: 'lost' };

interface Request {
  readonly ctx: Context;
  readonly asking: AskingRunner;
  resolve(taking: Taking): void;
  reject(error: unknown): void;
}

const MAX_BATCH = 50;

/** After this time the next batch does not wait for the one before, which may have met a slow disk or repository. */
const OVERLAP_MS = 100;
const MAX_OVERLAPPING = 4;

/** Runners that were served together often ask again together. */
const GATHER_MS = 4;

/**
 * The requests for jobs of this process. Those that arrive while others are being served form the next batch. A batch is
 * one transaction: it finds jobs with a statement for each kind of runner, and reads each kind of row with one statement.
 */
class HandOuts {
  readonly #services: Services;
  readonly #waiting: Request[] = [];
  /** Whether a batch is younger than OVERLAP_MS. */
  #isYoung = false;
  /** All batches. */
  #running = 0;
  #gatherMs = 0;

  constructor(services: Services) {
    this.#services = services;
  }

  take(ctx: Context, asking: AskingRunner): Promise<Taking> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ ctx, asking, resolve, reject });
      this.#start();
    });
  }

  #start(): void {
    if (this.#isYoung || this.#running === MAX_OVERLAPPING || this.#waiting.length === 0) return;
    this.#isYoung = true;
    this.#running += 1;
    setTimeout(() => this.#serveNext(), this.#gatherMs);
  }

  #serveNext(): void {
    const batch = this.#waiting.splice(0, MAX_BATCH);
    this.#gatherMs = batch.length > 1 ? GATHER_MS : 0;
    let isYoung = true;
    const letNextStart = () => {
      if (isYoung) this.#isYoung = false;
      isYoung = false;
      this.#start();
    };
    const timer = setTimeout(letNextStart, OVERLAP_MS);
    void this.#serve(batch).finally(() => {
      clearTimeout(timer);
      this.#running -= 1;
      letNextStart();
    });
  }

  /**
   * If a batch fails, each of its requests is served alone, so that a request only fails by its own job. While the
   * database is away, all fail at once, because runners ask again.
   */
  async #serve(batch: readonly Request[]): Promise<void> {
    if (batch.length === 0) return;
    try {
      const takings = await serveTogether(this.#services, batch);
      for (const request of batch) request.resolve(takings.get(request) ?? { kind: 'none' });
    } catch (error) {
      if (batch.length === 1 || isDatabaseAway(error)) for (const request of batch) request.reject(error);
      else for (const request of batch) await this.#serve([request]);
    }
  }
}

const byServices = new WeakMap<Services, HandOuts>();

const handOuts = (services: Services): HandOuts => {
  const known = byServices.get(services) ?? new HandOuts(services);
  byServices.set(services, known);
  return known;
};

/** How often a batch starts over because it found jobs of further users. Others may take the jobs that it found before. */
const MAX_ROUNDS = 5;

/** Clients that have gone get nothing, and are not in the result. */
const serveTogether = async (services: Services, batch: readonly Request[]): Promise<Map<Request, Taking>> => {
  const actors = new JobActors();
  for (let round = 1; ; round++) {
    try {
      return await serveOnce(services, batch, actors);
    } catch (error) {
      if (!(error instanceof UnknownActors) || round === MAX_ROUNDS) throw error;
      await actors.learn(services, error.jobs);
    }
  }
};

/** @throws UnknownActors */
const serveOnce = (services: Services, batch: readonly Request[], actors: JobActors): Promise<Map<Request, Taking>> => {
  const hub = createContextFactory(services)({ actor: systemActor, requestId: 'hand-out' });
  return hub.transaction(async (tx) => {
    const { found, takings } = await findJobs(tx, batch);
    if (found.length === 0) return takings;
    const { ready, refused } = await prepare(tx, found, actors);
    for (const [request, taking] of refused) takings.set(request, taking);
    // A client that has gone does not run its job, so the job stays pending.
    const present = ready.filter(({ request }) => !request.ctx.signal.aborted);
    const started = await runJobs(
      tx,
      present.map(({ assignment }) => assignment),
    );
    for (const { request, payload } of present) {
      takings.set(request, started.has(payload.id) ? { kind: 'taken', payload } : { kind: 'lost' });
    }
    return takings;
  });
};

interface Found {
  readonly request: Request;
  readonly id: number;
}

interface Prepared {
  readonly ready: readonly {
    readonly request: Request;
    readonly payload: JobPayload;
    readonly assignment: Assignment;
  }[];
  readonly refused: ReadonlyMap<Request, Taking>;
}

/**
 * Makes what the runners get. If that fails for a single job by anything but the database, the job is refused: it would
 * be picked first again, and no runner would get another job. If it fails for several jobs, each is tried alone.
 */
const prepare = async (tx: Tx, found: readonly Found[], actors: JobActors): Promise<Prepared> => {
  try {
    return await prepareAll(tx, found, actors);
  } catch (error) {
    if (error instanceof UnknownActors) throw error;
    const [only, ...others] = found;
    if (!only || others.length > 0 || isDatabaseError(error)) throw error;
    tx.log.error({ err: error, job_id: only.id }, 'a job could not be handed out');
    // A repository may be readable again when the job is retried.
    const reason = error instanceof GitError ? 'scheduler_failure' : 'data_integrity_failure';
    return { ready: [], refused: new Map([[only.request, { kind: 'refused', id: only.id, reason }]]) };
  }
};

const prepareAll = async (tx: Tx, found: readonly Found[], actors: JobActors): Promise<Prepared> => {
  const runs = await readJobsToRun(
    tx,
    found.map(({ id }) => id),
    actors,
  );
  const archived = await archivedBefore(tx);
  const refused = new Map<Request, Taking>();
  const able = found.flatMap(({ request, id }) => {
    const run = runs.get(id);
    const reason = run ? refusalOf(run, request.asking.info, archived) : 'scheduler_failure';
    if (run && reason === null) return [{ request, run }];
    refused.set(request, { kind: 'refused', id, reason: reason ?? 'scheduler_failure' });
    return [];
  });
  const ready = await Promise.all(
    able.map(async ({ request, run }) => {
      const { facts, manager_id, info } = request.asking;
      const [token, timeout] = [newJobToken(), timeoutOf(run, facts)];
      const payload = await payloadOf(tx, run, { facts, token, timeout, platform: info.platform });
      const assignment = { id: run.job.id, runner_id: facts.id, runner_manager_id: manager_id, timeout, token };
      return { request, payload, assignment };
    }),
  );
  return { ready, refused };
};

/** Locks a job for each request, as far as there are jobs. The others get their answer. */
const findJobs = async (
  tx: Tx,
  batch: readonly Request[],
): Promise<{ readonly found: readonly Found[]; readonly takings: Map<Request, Taking> }> => {
  const found: Found[] = [];
  const takings = new Map<Request, Taking>();
  const present = batch.filter(({ ctx }) => !ctx.signal.aborted);
  const seekers = await readSeekers(
    tx,
    present.map(({ asking }) => asking),
  );
  const seeking = present.flatMap((request) => {
    const seeker = seekers.get(request.asking.token);
    return seeker ? [{ request, seeker }] : [];
  });
  for (const alike of Map.groupBy(seeking, ({ seeker }) => kindOfSeeker(seeker)).values()) {
    const [first] = alike;
    if (!first) continue;
    const taken = found.map(({ id }) => id);
    const { ids, lost } = await lockJobs(tx, first.seeker, alike.length, taken);
    for (const [place, { request }] of alike.entries()) {
      const id = ids[place];
      if (id === undefined) takings.set(request, { kind: lost ? 'lost' : 'none' });
      else found.push({ request, id });
    }
  }
  return { found, takings };
};

/** Returns why the job cannot run on this runner now, or null (reference: ci §4). */
const refusalOf = (run: JobToRun, info: ManagerInfo, archived: Date | null): FailureReason | null => {
  const { user, dependencies, lacks_archive, is_outdated, options, variables, given } = run;
  if (user !== null && user.state !== 'active') return 'user_blocked';
  if (isArchived(run.job, archived)) return 'archived_failure';
  if (lacks_archive || dependencies.some(({ is_gone }) => is_gone)) return 'missing_dependency_failure';
  if (is_outdated) return 'failed_outdated_deployment_job';
  const values = [...variables, ...given.pipeline, ...given.manual, ...given.dotenv];
  if (values.some(({ is_lost }) => is_lost)) return 'data_integrity_failure';
  const features = info.features ?? {};
  return neededFeatures(options).every((feature) => features[feature] === true) ? null : 'runner_unsupported';
};

/** The features of a runner without which the job would do something else than its file says. */
const neededFeatures = (options: CompiledJob): string[] => {
  const { artifacts, release, allow_failure_exit_codes, retry, caches } = options;
  const needed: string[] = [];
  if (artifacts && Object.keys(artifacts.reports).length > 0) needed.push('upload_multiple_artifacts');
  if (artifacts && artifacts.exclude.length > 0) needed.push('artifacts_exclude');
  if (release) needed.push('multi_build_steps');
  if (allow_failure_exit_codes.length > 0 || retry.exit_codes.length > 0) needed.push('return_exit_code');
  if (caches.some(({ fallback_keys }) => fallback_keys.length > 0)) needed.push('fallback_cache_keys');
  return needed;
};
