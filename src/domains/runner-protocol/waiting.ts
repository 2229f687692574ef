import { jobCreated, jobUpdated } from '#domains/ci/events.ts';
import type { RunnerFacts } from '#domains/runners/tokens.ts';
import { forgetRunners, RUNNERS_CHANGED_CHANNEL } from '#domains/runners/tokens.ts';
import type { Context, Services } from '#platform/context.ts';
import type { EventFeed } from '#platform/event-log/feed.ts';
import type { Notifications } from '#platform/event-log/sequencer.ts';
import type { EventRow } from '#platform/events.ts';

/** A pending job, with the facts that its event has. */
export interface PendingJob {
  readonly id: number;
  /** The position of the event in the event log. */
  readonly position: number;
  readonly project_id: number | null;
  readonly namespace_ids: readonly number[];
  readonly tags: readonly string[];
  readonly protected: boolean;
  /** The runners that looked for it in vain. */
  readonly tried: Set<number>;
}

interface Waiter {
  readonly facts: RunnerFacts;
  wake(job: PendingJob | null): void;
}

/** More pending jobs than this are not remembered. Runners then look for themselves. */
const MAX_PENDING = 20_000;

/**
 * The runners that wait for a job in this process, and the jobs that became pending while it watched. It follows the
 * event log, so that waiting costs no statement. Its knowledge is a hint: the statement that claims a job decides.
 */
export class WaitingRunners {
  readonly #feed: EventFeed;
  readonly #waiters = new Set<Waiter>();
  readonly #pending = new Map<number, PendingJob>();
  readonly #release: (() => void)[] = [];
  /** Jobs that became pending before this position may be missing. */
  #knownSince: number;
  #closed = false;

  constructor(services: Services, feed: EventFeed, notifications: Notifications) {
    this.#feed = feed;
    this.#knownSince = feed.head();
    const kinds = new Set([jobCreated.kind, jobUpdated.kind]);
    const forget = () => {
      forgetRunners(services);
      // A change may have made a runner fit for jobs that are pending already.
      for (const waiter of this.#waiters) waiter.wake(null);
    };
    this.#release.push(
      feed.subscribe({ kinds }, (event) => this.#pass(event)),
      notifications.on(RUNNERS_CHANGED_CHANNEL, forget),
      notifications.onReconnect(forget),
    );
  }

  /** The position up to which a runner that looks now has seen everything. */
  get position(): number {
    return this.#feed.head();
  }

  /** Whether a job that the runner may take became pending after the position, as far as this process knows. */
  hasNewJobs(facts: RunnerFacts, since: number): boolean {
    if (since < this.#knownSince) return true;
    for (const job of this.#pending.values()) if (job.position > since && fits(facts, job)) return true;
    return false;
  }

  /**
   * Resolves with a job that the runner should look for, or with null when something else changed: its settings, the
   * time is over, the client has gone, or the process stops.
   */
  wait(facts: RunnerFacts, timeoutMs: number, signal: AbortSignal): Promise<PendingJob | null> {
    if (this.#closed || signal.aborted) return Promise.resolve(null);
    return new Promise((resolve) => {
      const wake = (job: PendingJob | null) => {
        this.#waiters.delete(waiter);
        clearTimeout(timer);
        signal.removeEventListener('abort', give);
        resolve(job);
      };
      const give = () => wake(null);
      const waiter: Waiter = { facts, wake };
      const timer = setTimeout(give, timeoutMs);
      signal.addEventListener('abort', give);
      this.#waiters.add(waiter);
    });
  }

  /** The runner did not get the job. If the job is still pending, the next waiting runner looks for it. */
  async passOn(ctx: Pick<Context, 'db'>, job: PendingJob, facts: RunnerFacts): Promise<void> {
    job.tried.add(facts.id);
    const next = this.#nextFor(job);
    if (!next) return;
    const row = await ctx.db.selectFrom('jobs').select('status').where('id', '=', job.id).executeTakeFirst();
    if (row?.status === 'pending') this.#nextFor(job)?.wake(job);
    else this.#pending.delete(job.id);
  }

  /** The job was handed out, and the others need not look for it. */
  taken(jobId: number): void {
    this.#pending.delete(jobId);
  }

  close(): void {
    this.#closed = true;
    for (const release of this.#release) release();
    for (const waiter of this.#waiters) waiter.wake(null);
  }

  #pass(event: EventRow): void {
    const payload = jobUpdated.payload.parse(event.payload);
    const { id } = payload;
    if (payload.status !== 'pending' || payload.kind !== 'build') {
      this.#pending.delete(id);
      return;
    }
    const { position, project_id, namespace_ids } = event;
    const { tags, protected: isProtected } = payload;
    const job = { id, position, project_id, namespace_ids, tags, protected: isProtected, tried: new Set<number>() };
    this.#pending.set(id, job);
    if (this.#pending.size > MAX_PENDING) {
      for (const oldest of this.#pending.values()) {
        this.#pending.delete(oldest.id);
        this.#knownSince = Math.max(this.#knownSince, oldest.position);
        break;
      }
    }
    this.#nextFor(job)?.wake(job);
  }

  /** The runner that has waited longest of those that the job fits. */
  #nextFor(job: PendingJob): Waiter | undefined {
    for (const waiter of this.#waiters) {
      if (!job.tried.has(waiter.facts.id) && fits(waiter.facts, job)) return waiter;
    }
    return undefined;
  }
}

/** Whether the runner may take the job. Settings of the project are not known here. */
const fits = (facts: RunnerFacts, job: PendingJob): boolean => {
  if (facts.paused) return false;
  if (facts.access_level === 'ref_protected' && !job.protected) return false;
  if (job.tags.length === 0 ? !facts.run_untagged : !job.tags.every((tag) => facts.tags.includes(tag))) return false;
  if (facts.runner_type === 'group_type') return job.namespace_ids.includes(facts.namespace_id ?? 0);
  return facts.runner_type === 'instance_type' || facts.project_ids.includes(job.project_id ?? 0);
};

const rooms = new WeakMap<Services, WaitingRunners>();

/** Starts to watch for pending jobs. Returns a function that ends all waits. */
export const startWaitingRunners = (
  services: Services,
  feed: EventFeed,
  notifications: Notifications,
): (() => Promise<void>) => {
  const room = new WaitingRunners(services, feed, notifications);
  rooms.set(services, room);
  return async () => room.close();
};

/** Returns the waiting runners of this process. */
export const waitingRunners = ({ services }: Pick<Context, 'services'>): WaitingRunners => {
  const room = rooms.get(services);
  if (!room) throw new Error('this process serves no runners');
  return room;
};
