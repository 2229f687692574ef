import type { EventRow } from '../events.ts';
import { type LiveFilter, matches } from './read.ts';

export interface Subscription {
  readonly filter: LiveFilter;
  /** The position at which it began: only later events are for it. */
  readonly after: number;
  readonly onEvent: (event: EventRow) => void;
}

/**
 * The live subscriptions of a process, each filed under the narrowest thing it asks for, so that an event is compared
 * with those it may concern and not with all.
 */
export class Subscriptions {
  readonly #buckets = new Map<string, Set<Subscription>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(subscription: Subscription): () => void {
    const keys = keysOf(subscription.filter);
    for (const key of keys) {
      const bucket = this.#buckets.get(key);
      if (bucket) bucket.add(subscription);
      else this.#buckets.set(key, new Set([subscription]));
    }
    this.#size++;
    let active = true;
    return () => {
      if (!active) return;
      active = false;
      this.#size--;
      for (const key of keys) this.#remove(key, subscription);
    };
  }

  /** Those that want the event. A list of its own: handlers may subscribe and unsubscribe while it is walked. */
  matching(event: EventRow): Subscription[] {
    const found: Subscription[] = [];
    for (const key of keysOfEvent(event))
      for (const subscription of this.#buckets.get(key) ?? [])
        if (event.position > subscription.after && matches(subscription.filter, event)) found.push(subscription);
    return found;
  }

  #remove(key: string, subscription: Subscription): void {
    const bucket = this.#buckets.get(key);
    bucket?.delete(subscription);
    if (bucket?.size === 0) this.#buckets.delete(key);
  }
}

/** A subscription stands under one key, or under one per kind, of which an event has exactly one. */
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
