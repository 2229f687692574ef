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
import { startCourier } from './courier.ts';
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
const MAX_IN_MEMORY = 2_048;
const CLAIM_AT_ONCE = 512;
const PROBES_AT_ONCE = 64;
const STOP_GRACE_MS = 3_000;

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
  /** Deliveries from dispatch that are not in their lanes yet, and the work that brings them there. */
  #accepting = 0;
  readonly #accepts = new Set<Promise<void>>();
  #probeAt = 0;
  #reconcileAt = 0;
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
        this.#reconcileAt = 0;
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
        if (released.length > 0) this.#release(released);
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
        roomInTotal: () => MAX_IN_MEMORY - this.#lanes.size - this.#accepting,
        roomOf: (webhookId) => this.#lanes.roomOf(webhookId),
        take: (claimed) => this.#accept(claimed),
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
      if (this.#lanes.size + this.#accepting === 0 && !(await isAnythingDue(this.#services.db))) return;
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
    await Promise.all(this.#accepts);
    await this.#halt(STOP_GRACE_MS);
    await this.#recorder.stop();
    await Promise.all([this.#pools.taking.end(), this.#pools.recording.end()]);
  }

  /**
   * Releases deliveries that have not started. Waits for requests in progress and aborts them after the grace period.
   */
  async #halt(graceMs: number): Promise<void> {
    const waiting = this.#lanes.close();
    if (waiting.length > 0) await this.#releaseNow(waiting);
    const timer = setTimeout(() => {
      for (const abort of this.#aborts) abort.abort();
    }, graceMs);
    await this.#lanes.idle();
    clearTimeout(timer);
  }

  async #pause(): Promise<void> {
    this.#paused = true;
    await this.#loop.settled();
    await Promise.all(this.#accepts);
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
      this.#reconcileAt = now + RECONCILE_MS;
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

  /** Queues deliveries that dispatch has inserted as claimed. If that fails, `releaseLost` releases them. */
  #accept(claimed: readonly Claimed[]): void {
    if (this.#stopping) return;
    this.#accepting += claimed.length;
    const accepted = this.#queue(claimed, [])
      .then(
        async () => {
          if (this.#paused || this.#stopping) await this.#releaseNow(this.#lanes.close());
        },
        (error: unknown) => {
          this.#reconcileAt = 0;
          this.#ctx.log.warn({ err: error, deliveries: claimed.length }, 'could not queue new deliveries');
        },
      )
      .finally(() => {
        this.#accepting -= claimed.length;
        this.#accepts.delete(accepted);
      });
    this.#accepts.add(accepted);
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
    const outcome = await this.#attempt(queued);
    if (outcome === null || outcome.aborted) {
      await this.#releaseNow([queued.id]);
      this.#lanes.forget(queued.id);
      return null;
    }
    deliveriesEnded.inc({ outcome: outcome.delivered ? 'delivered' : 'failed' });
    deliveryDuration.observe(outcome.durationMs / 1_000);
    this.#recorder.add({
      deliveryId: queued.id,
      createdAt: queued.createdAt,
      webhookId: queued.webhookId,
      attempt: queued.attempt,
      trigger: queued.trigger,
      outcome,
      delayMs: outcome.delivered ? 0 : Math.max(this.#backoffMs(queued.attempt), outcome.retryAfterMs),
      probe: queued.probe,
      knownFailures: queued.knownFailures,
    });
    return outcome;
  }

  async #attempt(queued: Queued): Promise<Outcome | null> {
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

  #release(ids: readonly string[]): void {
    void this.#releaseNow(ids).then(() => this.#loop.wake());
  }

  async #releaseNow(ids: readonly string[]): Promise<void> {
    await releaseClaims(this.#db, this.#services.processId, ids).catch((error: unknown) => {
      // `releaseLost` releases them, here or in another process.
      this.#reconcileAt = 0;
      this.#ctx.log.warn({ err: error, deliveries: ids.length }, 'could not release deliveries');
    });
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
