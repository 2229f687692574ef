import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { nameCaller } from './caller/caller.ts';
import type { CallerCheck } from './caller/caller-check.ts';
import { type Actor, type Client, type Context, noClient, type Services, type Tx } from './context.ts';
import { isConflict } from './db/failures.ts';
import type { Database } from './db/pool.ts';
import type { EventDefinition, NewEvent } from './events.ts';
import type { EnqueueOptions, JobDefinition } from './jobs.ts';
import type { Logger } from './log.ts';
import { toJsonb } from './values/to-jsonb.ts';

export interface ContextOptions {
  readonly actor: Actor;
  /** Generated if absent. */
  readonly requestId?: string;
  readonly chainId?: string | null;
  readonly client?: Client;
  readonly signal?: AbortSignal;
  /** Defaults to the logger of the process with the request id bound. */
  readonly log?: Logger;
  readonly callerCheck?: CallerCheck | undefined;
}

export type CreateContext = (options: ContextOptions) => Context;

/** Creates the contexts of one process: one per request, job run, or batch of followed events. */
export const createContextFactory =
  (services: Services): CreateContext =>
  ({
    actor,
    requestId = randomUUID(),
    chainId = null,
    client = noClient,
    signal = new AbortController().signal,
    log,
    callerCheck,
  }) => {
    nameCaller(actor, client);
    let ownLog = log;
    const context: Context = {
      actor,
      db: services.db,
      services,
      clock: services.clock,
      // Few requests log, so their logger is only created when they do.
      get log() {
        ownLog ??= services.log.child({ request_id: requestId });
        return ownLog;
      },
      signal,
      requestId,
      chainId,
      client,
      callerCheck,
      transaction: async (run) => {
        await callerCheck?.confirm(services.pool);
        return runTransaction(context, run);
      },
    };
    return context;
  };

const MAX_ATTEMPTS = 4;

/** Returns the context in the name of a user, with the rights that it has, as `inNameOf` does for a transaction. */
export const contextInNameOf = (ctx: Context, userId: number | null): Context =>
  createContextFactory(ctx.services)({ ...ctx, actor: { ...ctx.actor, userId } });

/** Retries the whole transaction with empty buffers if it lost against another one. */
const runTransaction = async <T>(context: Context, run: (tx: Tx) => Promise<T>): Promise<T> => {
  for (let attempt = 1; ; attempt++) {
    const after: AfterEnd = { commit: [], rollback: [] };
    try {
      const result = await context.db.transaction().execute(async (db) => {
        const buffered = new BufferedTx(context, db, after);
        const result = await run(buffered.tx);
        await buffered.flush();
        return result;
      });
      for (const call of after.commit) call();
      return result;
    } catch (error) {
      for (const call of after.rollback) call();
      if (attempt >= MAX_ATTEMPTS || !isConflict(error)) throw error;
      context.log.debug({ err: error, attempt }, 'transaction conflicted; retrying');
      await sleep(5 * 2 ** attempt * (0.5 + Math.random()));
    }
  }
};

/** The functions to call after a transaction. */
interface AfterEnd {
  readonly commit: (() => void)[];
  readonly rollback: (() => void)[];
}

interface EventInsert {
  readonly kind: string;
  readonly actor_id: number | null;
  readonly subject_type: string;
  readonly subject_id: number;
  readonly project_id: number | null;
  readonly namespace_ids: readonly number[];
  readonly visibility_level: number | null;
  readonly min_access_level: number | null;
  readonly user_ids: readonly number[];
  readonly payload: unknown;
  readonly chain_id: string | null;
  readonly created_at: Date;
}

/** The columns of graphile_worker.job_spec. */
interface JobSpec {
  readonly identifier: string;
  readonly payload: unknown;
  readonly run_at: Date | null;
  readonly max_attempts: number;
  readonly job_key: string | null;
}

/** Collects the events and jobs of a transaction, and writes each kind in one statement right before the commit. */
class BufferedTx {
  readonly tx: Tx;
  readonly #context: Context;
  readonly #db: Database;
  readonly #after: AfterEnd;
  readonly #events: EventInsert[] = [];
  readonly #jobs: JobSpec[] = [];
  /** Jobs whose first request of a key decides when they run. */
  readonly #sharedJobs: JobSpec[] = [];
  #open = true;

  constructor(context: Context, db: Database, after: AfterEnd) {
    this.#context = context;
    this.#db = db;
    this.#after = after;
    this.tx = this.#as(context.actor);
  }

  #as(actor: Actor): Tx {
    const tx: Tx = {
      ...this.#context,
      actor,
      db: this.#db,
      as: (other) => this.#as(other),
      transaction: (run) => run(tx),
      emit: (definition, event) => this.#emit(actor, definition, event),
      enqueue: (job, input, options) => this.#enqueue(job, input, options),
      afterCommit: (run) => this.#after.commit.push(run),
      afterRollback: (run) => this.#after.rollback.push(run),
    };
    return tx;
  }

  #emit<P>({ userId }: Actor, definition: EventDefinition<P>, event: NewEvent<P>): void {
    this.#checkOpen();
    this.#events.push({
      kind: definition.kind,
      actor_id: userId,
      subject_type: event.subject.type,
      subject_id: event.subject.id,
      project_id: event.project_id ?? null,
      namespace_ids: event.namespace_ids ?? [],
      visibility_level: event.visibility_level ?? null,
      min_access_level: event.min_access_level ?? null,
      user_ids: event.user_ids ?? [],
      payload: definition.payload.parse(event.payload),
      chain_id: this.#context.chainId,
      created_at: this.#context.clock.now(),
    });
  }

  #enqueue<I>(job: JobDefinition<I>, input: I, options: EnqueueOptions = {}): void {
    this.#checkOpen();
    const { sharedMs } = job;
    const jobs = sharedMs === undefined ? this.#jobs : this.#sharedJobs;
    jobs.push({
      identifier: job.name,
      payload: job.input.parse(input),
      run_at: options.runAt ?? (sharedMs === undefined ? null : new Date(Date.now() + sharedMs)),
      max_attempts: job.maxAttempts,
      job_key: options.key ?? null,
    });
  }

  /** Without this check, code that is not awaited would silently lose its event. */
  #checkOpen(): void {
    if (!this.#open) throw new Error('the transaction has already completed: an event or job was added too late');
  }

  async flush(): Promise<void> {
    this.#open = false;
    for (let i = 0; i < this.#events.length; i += EVENTS_PER_STATEMENT) {
      await insertEvents(this.#db, this.#events.slice(i, i + EVENTS_PER_STATEMENT));
    }
    if (this.#jobs.length > 0) await addJobs(this.#db, this.#jobs, false);
    if (this.#sharedJobs.length > 0) await addJobs(this.#db, this.#sharedJobs, true);
  }
}

/** Deleting a group may delete a hundred thousand projects, with one event each. */
const EVENTS_PER_STATEMENT = 1_000;

const insertEvents = (db: Database, events: readonly EventInsert[]) =>
  sql`
    with inserted as (
      insert into events (kind, actor_id, subject_type, subject_id, project_id, namespace_ids, visibility_level,
                          min_access_level, user_ids, payload, chain_id, created_at)
      select kind, actor_id, subject_type, subject_id, project_id, namespace_ids, visibility_level,
             min_access_level, user_ids, payload, chain_id, created_at
      from rows from (jsonb_to_recordset(${toJsonb(events)}::jsonb) as (
        kind text, actor_id bigint, subject_type text, subject_id bigint, project_id bigint, namespace_ids bigint[],
        visibility_level smallint, min_access_level smallint, user_ids bigint[], payload jsonb, chain_id text, created_at timestamptz
      )) with ordinality
      order by ordinality
    )
    select pg_notify('event_committed', '')`.execute(db);

const MAX_ROUNDS = 5;

/**
 * Adds jobs. `add_jobs` accepts each key once and locks in the given order, so the last job of a key wins, and keys are
 * sorted so that two transactions do not deadlock. If a worker takes a job between two statements of `add_jobs`, the
 * new job is dropped without an error. Jobs that were not returned are therefore added again.
 *
 * A shared job that waits already with the same input is only locked, so that it does not start before the commit.
 * `add_jobs` would write its row again and wake all workers.
 * These are locked before the keys that are added, so two transactions with several keys of both kinds could deadlock;
 * they would be retried.
 */
const addJobs = async (db: Database, jobs: readonly JobSpec[], areShared: boolean): Promise<void> => {
  const keyed = new Map<string, JobSpec>();
  for (const job of jobs) if (job.job_key !== null) keyed.set(job.job_key, job);
  const keys = [...keyed.keys()].sort();
  let missing = [...jobs.filter((job) => job.job_key === null), ...keys.flatMap((key) => keyed.get(key) ?? [])];
  for (let round = 1; missing.length > 0; round++) {
    if (round > MAX_ROUNDS) throw new Error(`could not add the jobs ${missing.map((job) => job.job_key).join(', ')}`);
    const { rows } = await (areShared ? addShared : addAnew)(toJsonb(missing)).execute(db);
    const added = new Set(rows.map((row) => row.key));
    missing = missing.filter((job) => job.job_key !== null && !added.has(job.job_key));
  }
};

const addAnew = (jobs: string) => sql<{ key: string | null }>`
  select key from graphile_worker.add_jobs(array(
    select json_populate_recordset(null::graphile_worker.job_spec, ${jobs}::json)
  ))`;

const addShared = (jobs: string) => sql<{ key: string | null }>`
  with wanted as materialized (select * from json_populate_recordset(null::graphile_worker.job_spec, ${jobs}::json)),
  waiting as materialized (
    select j.key from wanted join graphile_worker._private_jobs j on j.key = job_key
    where j.is_available and j.attempts = 0 and j.payload::text = wanted.payload::text
    order by j.key for share of j
  )
  select key from waiting
  union all
  select added.key from (
    select array(
      select wanted::graphile_worker.job_spec from wanted
      where not exists (select from waiting where key = job_key)
    ) as specs
  ) missing cross join lateral graphile_worker.add_jobs(specs, true) added
  where cardinality(specs) > 0`;
