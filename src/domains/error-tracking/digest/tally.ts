import type { PreparedEvent } from '../prepared-event.ts';
import { isSampled } from './affected-user.ts';

/** The counts that a batch adds to one error. */
export class Tally {
  count = 0;
  first_seen: string;
  last_seen: string;
  newest: PreparedEvent;
  first_release: string | null = null;
  last_release: string | null = null;
  readonly hours = new Map<string, number>();
  readonly facets = new Map<string, FacetTally>();
  readonly users = new Set<bigint>();

  readonly error_id: number;
  readonly #sampling: number;

  /** @param sampling how many leading zero bits the hash of a counted user has */
  constructor(errorId: number, sampling: number, first: PreparedEvent) {
    this.error_id = errorId;
    this.#sampling = sampling;
    this.first_seen = first.timestamp;
    this.last_seen = first.timestamp;
    this.newest = first;
  }

  add(event: PreparedEvent): void {
    const { timestamp, environment, release } = event;
    this.count++;
    if (timestamp < this.first_seen) this.first_seen = timestamp;
    if (timestamp > this.last_seen) this.last_seen = timestamp;
    if (event.received_at >= this.newest.received_at) this.newest = event;
    this.first_release ??= release;
    this.last_release = release ?? this.last_release;
    const hour = hourOf(timestamp);
    this.hours.set(hour, (this.hours.get(hour) ?? 0) + 1);
    if (environment !== null) this.#addFacet('environment', environment, timestamp);
    if (release !== null) this.#addFacet('release', release, timestamp);
    if (event.user !== null && isSampled(event.user, this.#sampling)) this.users.add(event.user);
  }

  #addFacet(kind: FacetTally['kind'], value: string, timestamp: string): void {
    const key = `${kind} ${value}`;
    const facet = this.facets.get(key) ?? { kind, value, count: 0, first_seen: timestamp, last_seen: timestamp };
    facet.count++;
    if (timestamp < facet.first_seen) facet.first_seen = timestamp;
    if (timestamp > facet.last_seen) facet.last_seen = timestamp;
    this.facets.set(key, facet);
  }
}

interface FacetTally {
  readonly kind: 'environment' | 'release';
  readonly value: string;
  count: number;
  first_seen: string;
  last_seen: string;
}

/** Returns the full hour of an ISO 8601 time in UTC. */
export const hourOf = (timestamp: string): string => `${timestamp.slice(0, 13)}:00:00Z`;
