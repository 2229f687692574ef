import { hookPolicy } from '#domains/settings/outbound.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { type Context, type Services, systemActor } from '#platform/context.ts';
import { type CreateContext, createContextFactory } from '#platform/create-context.ts';
import { createDatabase, type Database } from '#platform/db/pool.ts';
import { Loop } from '#platform/event-log/loop.ts';
import type { Processes } from '#platform/process/processes.ts';
import { retryDelayMs } from '../model.ts';
import {
  type Claimed,
  claimDue,
  claimProbes,
  isAnythingDue,
  releaseClaims,
  releaseLost,
  releaseProcess,
} from './claim.ts';
import { type NewDelivery, startCourier } from './courier.ts';
import { FirstAttempts } from './first-attempts.ts';
import { DELIVERIES_CHANNEL } from './insert.ts';
import { Lanes, type Queued } from './lanes.ts';
import { deliveriesEnded, deliveryDuration } from './metrics.ts';
import { ensureDeliveryPartitions } from './partitions.ts';
import { type DeliveryPools, openPools } from './pools.ts';
import { Recorder } from './recorder.ts';
import { type Outcome, sendDelivery, unsent } from './send.ts';
import { Targets } from './targets.ts';

/** The part of the process's listener that the engine uses. */
interface Notifications {
  on(channel: string, handler: (payload: string) => void): () => void;
}

export interface DeliveryEngineOptions {
  readonly services: Services;
  readonly createContext: CreateContext;
  readonly notifications: Notifications;
  readonly processes: Processes;
  /** The delay before a retry, by the number of failures. In milliseconds. */
  readonly backoffMs?: (failures: number) => number;
  readonly pollMs?: number;
}

export interface DeliveryEngine {
  /** Waits until no delivery is due or in progress in any process. For tests. @throws Error after the timeout */
  drain(timeoutMs?: number): Promise<void>;
  /** Stops claiming, gives requests in progress a short time to finish, and releases the rest. */
  stop(): Promise<void>;
}

/** The poll finds due retries and probes, and makes up for lost notifications. */
const POLL_MS = 1_000;
const RECONCILE_MS = 15_000;
/** Longer than deliveries are left alone that this process may be about to send (`releaseLost`). */
const IN_DOUBT_MS = 12_000;
const MAX_IN_MEMORY = 2_048;
const CLAIM_AT_ONCE = 512;
const PROBES_AT_ONCE = 64;
const STOP_GRACE_MS = 3_000;
/** How long dispatch does not wait for a receiver that was slow. */
const SLOW_MS = 30_000;
const MAX_SLOW = 1_000;

/**
 * Sends deliveries, in the worker processes. Claims due deliveries from the table, sends them with a limit per hook and
 * in total, and records the outcomes in groups. If a process dies, other processes release its claims and send those
 * deliveries again under the same Idempotency-Key. So each delivery is sent at least once.
 */
export const startDeliveryEngine = async (options: DeliveryEngineOptions): Promise<DeliveryEngine> => {
  const engine = new Engine(options);
  await engine.start();
  return engine;
};

class Engine implements DeliveryEngine {
  readonly #services: Services;
  readonly #ctx: Context;
  readonly #pools: DeliveryPools;
  readonly #db: Database;
  readonly #processes: Processes;
  readonly #notifications: Notifications;
  readonly #backoffMs: (failures: number) => number;
  readonly #pollMs: number;
  readonly #loop: Loop;
  readonly #lanes: Lanes;
  readonly #recorder: Recorder;
  readonly #targets: Targets;
  readonly #undo: (() => void)[] = [];
  readonly #timers = new Set<NodeJS.Timeout>();
  /** One for each request in progress, because a shared signal gets slower with the number of its users. */
  readonly #aborts = new Set<AbortController>();
  /** The hooks whose receivers lately took too long for dispatch to wait, and until when it does not. */
  readonly #slowUntil = new Map<number, number>();
  #probeAt = 0;
  #reconcileAt = 0;
  /** Until then deliveries may be claimed without the knowledge of this process, because an answer was lost. */
  #inDoubtUntil = 0;
  #paused = false;
  #stopping: Promise<void> | undefined;

  constructor({
    services,
    createContext,
    notifications,
    processes,
    backoffMs,
    pollMs = POLL_MS,
  }: DeliveryEngineOptions) {
    this.#services = services;
    this.#processes = processes;
    this.#notifications = notifications;
    this.#backoffMs = backoffMs ?? retryDelayMs;
    this.#pollMs = pollMs;
    this.#ctx = createContext({ actor: systemActor, requestId: 'hooks.engine' });
    this.#pools = openPools(services);
    this.#db = createDatabase(this.#pools.taking);
    this.#targets = new Targets(services, this.#db);
    this.#loop = new Loop(
      () => this.#take(),
      (error) => {
        // The claim may have succeeded although its answer was lost.
        this.#doubt();
        this.#ctx.log.warn({ err: error }, 'could not claim deliveries; trying again');
      },
    );
    this.#lanes = new Lanes({ send: (queued) => this.#send(queued), onRoom: () => this.#loop.wake() });
    this.#recorder = new Recorder({
      ctx: createContextFactory({ ...services, db: createDatabase(this.#pools.recording) })({
        actor: systemActor,
        requestId: 'hooks.engine',
      }),
      processId: services.processId,
      onRecorded: (attempts, blocked) => {
        const released = this.#lanes.settle(attempts, blocked);
        if (released.length > 0) void this.#giveUp(released).then(() => this.#loop.wake());
        const soonest = Math.min(...attempts.filter((each) => !each.outcome.delivered).map((each) => each.delayMs));
        if (soonest < this.#pollMs) this.#wakeIn(soonest + 1);
      },
    });
  }

  async start(): Promise<void> {
    await ensureDeliveryPartitions(this.#ctx);
    this.#processes.onProcessDead((processId) => releaseProcess(this.#services.db, processId));
    this.#undo.push(
      this.#notifications.on(DELIVERIES_CHANNEL, () => this.#loop.wake()),
      startCourier(this.#services, {
        roomInTotal: () => MAX_IN_MEMORY - this.#lanes.size,
        roomOf: (webhookId) => this.#lanes.roomOf(webhookId),
        send: (deliveries) => this.#sendNew(deliveries),
        announce: (tx, hooks) => this.#recorder.announce(tx, hooks),
      }),
      // The guard pauses this process when others consider it dead and release its claims. It must not record them
      // then.
      this.#processes.guard({ pause: () => this.#pause(), resume: () => this.#resume() }),
    );
    const poll = setInterval(() => this.#loop.wake(), this.#pollMs);
    poll.unref();
    this.#undo.push(() => clearInterval(poll));
    this.#loop.wake();
  }

  async drain(timeoutMs = 60_000): Promise<void> {
    for (const deadline = performance.now() + timeoutMs; ; ) {
      this.#loop.wake();
      await this.#loop.settled();
      if (this.#lanes.size === 0 && !(await isAnythingDue(this.#services.db))) return;
      if (performance.now() > deadline) throw new Error('deliveries were still in progress');
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stop();
    return this.#stopping;
  }

  async #stop(): Promise<void> {
    for (const undo of this.#undo.splice(0)) undo();
    for (const timer of this.#timers) clearTimeout(timer);
    await this.#loop.stop();
    await this.#halt(STOP_GRACE_MS);
    await this.#recorder.stop();
    await Promise.all([this.#pools.taking.end(), this.#pools.recording.end()]);
  }

  /**
   * Releases deliveries that have not started. Waits for requests in progress and aborts them after the grace period.
   */
  async #halt(graceMs: number): Promise<void> {
    await this.#giveUp(this.#lanes.close());
    const timer = setTimeout(() => {
      for (const abort of this.#aborts) abort.abort();
    }, graceMs);
    await this.#lanes.idle();
    clearTimeout(timer);
  }

  async #pause(): Promise<void> {
    this.#paused = true;
    await this.#loop.settled();
    await this.#halt(0);
  }

  async #resume(): Promise<void> {
    this.#lanes.open();
    this.#paused = false;
    this.#reconcileAt = 0;
    this.#loop.wake();
  }

  /** One round: claims what is due, as far as there is room. */
  async #take(): Promise<void> {
    if (this.#paused) return;
    const settings = await getSettings(this.#ctx);
    if (settings.silent_mode_enabled) return;
    const now = performance.now();
    if (now >= this.#reconcileAt) {
      const lost = await releaseLost(this.#db, this.#services.processId, this.#lanes.ids());
      if (lost > 0) this.#ctx.log.warn({ deliveries: lost }, 'released deliveries that no process was sending');
      this.#reconcileAt = now + (now < this.#inDoubtUntil ? this.#pollMs : RECONCILE_MS);
    }
    const free = Math.min(CLAIM_AT_ONCE, MAX_IN_MEMORY - this.#lanes.size);
    if (free <= 0) return;
    const { processId } = this.#services;
    const room = this.#lanes.room();
    const due = await claimDue(this.#db, processId, room, this.#lanes.freeByDefault, free);
    let probes: Claimed[] = [];
    if (due.length === 0 || now >= this.#probeAt) {
      probes = await claimProbes(this.#db, processId, PROBES_AT_ONCE);
      this.#probeAt = now + this.#pollMs;
    }
    if (due.length + probes.length > 0) await this.#queue(due, probes);
    this.#lanes.filled(
      room,
      due.map((each) => each.webhook_id),
    );
    // The round was full, so more may be due.
    if (due.length === free) this.#loop.wake();
  }

  /** Queues deliveries that dispatch is about to insert. */
  async #sendNew(deliveries: readonly NewDelivery[]): Promise<FirstAttempts> {
    const batch = new FirstAttempts(
      {
        record: (attempt) => this.#recorder.add(attempt),
        settle: (attempts) => {
          this.#lanes.settle(attempts);
        },
        release: (ids) => this.#release(ids),
        doubt: () => this.#doubt(),
        isSlow: (webhookId) => (this.#slowUntil.get(webhookId) ?? 0) > performance.now(),
        onPace: (webhookIds, isSlow) => {
          if (this.#slowUntil.size >= MAX_SLOW) this.#slowUntil.clear();
          const until = performance.now() + SLOW_MS;
          for (const id of webhookIds) isSlow ? this.#slowUntil.set(id, until) : this.#slowUntil.delete(id);
        },
      },
      deliveries,
    );
    const targets = await this.#targets.of(deliveries).catch((error: unknown) => {
      this.#ctx.log.warn({ err: error, deliveries: deliveries.length }, 'could not send new deliveries at once');
      return new Map<number, never>();
    });
    const isClosed = this.#paused || this.#stopping !== undefined;
    for (const { id, webhook_id, trigger, chain_id, body, recent_failures } of deliveries) {
      const target = targets.get(webhook_id);
      if (!target || isClosed) batch.giveUp(id);
      else
        this.#lanes.add({
          ...{ id, createdAt: '', batch, webhookId: webhook_id, attempt: 1, trigger, chainId: chain_id, body, target },
          ...{ probe: false, knownFailures: recent_failures },
        });
    }
    return batch;
  }

  async #queue(due: readonly Claimed[], probes: readonly Claimed[]): Promise<void> {
    const all = [...due, ...probes];
    // The deliveries enter their lanes only below. If loading fails before that, `releaseLost` releases them.
    const targets = await this.#targets.of(all);
    const bodies = new Map(
      all.flatMap(({ payload_id, body }) => (body === null ? [] : [[payload_id, Buffer.from(body)]])),
    );
    const probing = new Set(probes);
    for (const claimed of all) {
      const { webhook_id, payload_id } = claimed;
      const target = targets.get(webhook_id);
      // The hook and its deliveries were deleted meanwhile.
      if (!target) continue;
      this.#lanes.add({
        id: claimed.id,
        createdAt: claimed.created_at,
        batch: null,
        webhookId: webhook_id,
        attempt: claimed.attempts + 1,
        trigger: claimed.trigger,
        chainId: claimed.chain_id,
        body: bodies.get(payload_id) ?? Buffer.alloc(0),
        target,
        probe: probing.has(claimed),
        knownFailures: claimed.recent_failures,
      });
    }
  }

  /** Sends one delivery and passes the outcome to the recorder. Never throws. */
  async #send(queued: Queued): Promise<Outcome | null> {
    const { batch } = queued;
    const outcome = batch?.isVoid ? null : await this.#attempt(queued);
    if (outcome === null || outcome.aborted || batch?.isVoid) {
      await this.#giveUp([queued]);
      this.#lanes.forget(queued);
      return null;
    }
    deliveriesEnded.inc({ outcome: outcome.delivered ? 'delivered' : 'failed' });
    deliveryDuration.observe(outcome.durationMs / 1_000);
    const ended = {
      deliveryId: queued.id,
      webhookId: queued.webhookId,
      attempt: queued.attempt,
      trigger: queued.trigger,
      outcome,
      delayMs: outcome.delivered ? 0 : Math.max(this.#backoffMs(queued.attempt), outcome.retryAfterMs),
      probe: queued.probe,
      knownFailures: queued.knownFailures,
    };
    if (batch) batch.end(ended);
    else this.#recorder.add({ ...ended, createdAt: queued.createdAt });
    return outcome;
  }

  async #attempt(queued: Queued): Promise<Outcome> {
    const { target } = queued;
    if (target instanceof Error) return unsent(target);
    const abort = new AbortController();
    this.#aborts.add(abort);
    try {
      const policy = await hookPolicy(this.#ctx, target);
      return await sendDelivery(this.#services, target, queued, policy, abort.signal);
    } catch (error) {
      this.#ctx.log.error({ err: error, delivery_id: queued.id }, 'a delivery failed in an unexpected way');
      return unsent(new Error('The delivery failed in the hub'));
    } finally {
      this.#aborts.delete(abort);
    }
  }

  /** Lets others send these deliveries. Those of a dispatch in progress are released after its commit. */
  async #giveUp(deliveries: readonly Queued[]): Promise<void> {
    const claimed = deliveries.flatMap(({ id, batch }) => {
      batch?.giveUp(id);
      return batch ? [] : id;
    });
    if (claimed.length > 0) await this.#releaseNow(claimed);
  }

  #release(ids: readonly string[]): void {
    void this.#releaseNow(ids).then(() => this.#loop.wake());
  }

  async #releaseNow(ids: readonly string[]): Promise<void> {
    await releaseClaims(this.#db, this.#services.processId, ids).catch((error: unknown) => {
      // `releaseLost` releases them, here or in another process.
      this.#doubt();
      this.#ctx.log.warn({ err: error, deliveries: ids.length }, 'could not release deliveries');
    });
  }

  /** Looks for lost deliveries at each poll for a while. */
  #doubt(): void {
    this.#reconcileAt = 0;
    this.#inDoubtUntil = performance.now() + IN_DOUBT_MS;
  }

  #wakeIn(delayMs: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.#loop.wake();
    }, delayMs);
    timer.unref();
    this.#timers.add(timer);
  }
}
