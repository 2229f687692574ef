import type { EventRow } from '../events.ts';
import { type LiveFilter, matches } from './read.ts';

export interface Subscription {
  readonly filter: LiveFilter;
  /** The position at which the subscription started. It gets only later events. */
  readonly after: number;
  readonly onEvent: (event: EventRow) => void;
}

/**
 * The live subscriptions of a process, indexed by their narrowest condition. An event is compared only with
 * subscriptions that could match it.
 */
export class Subscriptions {
  readonly #buckets = new Map<string, Set<Subscription>>();
  /** The number of subscriptions to each kind. */
  readonly #kinds = new Map<string, number>();
  /** The number of subscriptions to every kind. */
  #toAll = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Returns the kinds that any subscription wants, or null for every kind. */
  kinds(): ReadonlySet<string> | null {
    return this.#toAll > 0 ? null : new Set(this.#kinds.keys());
  }

  add(subscription: Subscription): () => void {
    const keys = keysOf(subscription.filter);
    for (const key of keys) {
      const bucket = this.#buckets.get(key);
      if (bucket) bucket.add(subscription);
      else this.#buckets.set(key, new Set([subscription]));
    }
    this.#size++;
    this.#count(subscription.filter, 1);
    let active = true;
    return () => {
      if (!active) return;
      active = false;
      this.#size--;
      this.#count(subscription.filter, -1);
      for (const key of keys) this.#remove(key, subscription);
    };
  }

  /**
   * Returns the subscriptions that match the event, as a new list: handlers may subscribe and unsubscribe during
   * iteration.
   */
  matching(event: EventRow): Subscription[] {
    const found: Subscription[] = [];
    for (const key of keysOfEvent(event))
      for (const subscription of this.#buckets.get(key) ?? [])
        if (event.position > subscription.after && matches(subscription.filter, event)) found.push(subscription);
    return found;
  }

  #count({ kinds }: LiveFilter, by: 1 | -1): void {
    if (kinds === null) this.#toAll += by;
    for (const kind of kinds ?? []) {
      const count = (this.#kinds.get(kind) ?? 0) + by;
      if (count > 0) this.#kinds.set(kind, count);
      else this.#kinds.delete(kind);
    }
  }

  #remove(key: string, subscription: Subscription): void {
    const bucket = this.#buckets.get(key);
    bucket?.delete(subscription);
    if (bucket?.size === 0) this.#buckets.delete(key);
  }
}

/** A subscription has one key, or one per event kind. An event matches at most one of them. */
const keysOf = (filter: LiveFilter): readonly string[] => {
  if (filter.subject) return [`subject:${filter.subject.type}:${filter.subject.id}`];
  if (filter.project_id !== undefined) return [`project:${filter.project_id}`];
  if (filter.user_id !== undefined) return [`user:${filter.user_id}`];
  if (filter.namespace_id !== undefined) return [`namespace:${filter.namespace_id}`];
  return filter.kinds ? [...filter.kinds].map((kind) => `kind:${kind}`) : ['all'];
};

const keysOfEvent = (event: EventRow): Set<string> =>
  new Set([
    `subject:${event.subject_type}:${event.subject_id}`,
    `project:${event.project_id}`,
    ...event.user_ids.map((id) => `user:${id}`),
    ...event.namespace_ids.map((id) => `namespace:${id}`),
    `kind:${event.kind}`,
    'all',
  ]);
