import { MINUTE_MS } from '#platform/values/units.ts';
import type { IngestKey } from './keys.ts';
import { Refusal } from './refusal.ts';

/** Events are limited separately from everything else, as SDKs do. */
export type Category = 'events' | 'others';

/** Numbers in a minute. 0 is unlimited. */
export interface Limits {
  readonly key: number;
  readonly project: number;
}

/** The count of a key in this minute, in all processes, before a group was stored. */
export interface SentBefore extends Record<Category, number> {
  readonly project_id: number;
  readonly key_id: number;
}

/** The items that were refused or dropped since the last count. */
export interface Noted {
  readonly project_id: number;
  readonly key_id: number;
  refused: number;
  invalid: number;
  /** Items of accepted envelopes. */
  dropped: number;
}

interface Admitted extends IngestKey {
  readonly category: Category;
}

const CATEGORIES: Readonly<Record<Category, string>> = { events: 'error;default', others: 'session;feedback' };

/**
 * The quotas of keys and projects, by minutes. Each group that is stored tells what all processes together have sent, so
 * a quota may be exceeded by the groups that other processes are storing at that moment.
 */
export class Quotas {
  #minute = 0;
  /** Sent in this minute, as far as is known, by key or project and by category. */
  readonly #sent = new Map<string, number>();
  #noted = new Map<number, Noted>();

  /** Counts an envelope, or returns why it is refused. */
  admit(key: IngestKey, category: Category, limits: Limits, nowMs: number): Refusal | null {
    this.#startMinute(nowMs);
    const ofKey = `key:${key.id}:${category}`;
    const ofProject = `project:${key.project_id}:${category}`;
    if (limits.key > 0 && this.#count(ofKey) >= limits.key) return exceeded('key', category, nowMs);
    if (limits.project > 0 && this.#count(ofProject) >= limits.project) return exceeded('project', category, nowMs);
    this.#sent.set(ofKey, this.#count(ofKey) + 1);
    this.#sent.set(ofProject, this.#count(ofProject) + 1);
    return null;
  }

  /** Takes over what all processes have sent. `own` is what this process had admitted and not stored before. */
  learn(before: readonly SentBefore[], own: readonly Admitted[], nowMs: number): void {
    this.#startMinute(nowMs);
    const sums = new Map<string, number>();
    const add = (name: string, count: number) => sums.set(name, (sums.get(name) ?? 0) + count);
    for (const { project_id, key_id, events, others } of before) {
      add(`key:${key_id}:events`, events);
      add(`key:${key_id}:others`, others);
      add(`project:${project_id}:events`, events);
      add(`project:${project_id}:others`, others);
    }
    for (const { id, project_id, category } of own) {
      add(`key:${id}:${category}`, 1);
      add(`project:${project_id}:${category}`, 1);
    }
    for (const [name, count] of sums) if (count > this.#count(name)) this.#sent.set(name, count);
  }

  note({ id, project_id }: IngestKey, what: 'refused' | 'invalid' | 'dropped', count = 1): void {
    const noted = this.#noted.get(id) ?? { project_id, key_id: id, refused: 0, invalid: 0, dropped: 0 };
    noted[what] += count;
    this.#noted.set(id, noted);
  }

  takeNoted(): Noted[] {
    const noted = [...this.#noted.values()];
    this.#noted = new Map();
    return noted;
  }

  #count(name: string): number {
    return this.#sent.get(name) ?? 0;
  }

  #startMinute(nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute === this.#minute) return;
    this.#minute = minute;
    this.#sent.clear();
  }
}

/** The next minute begins anew. */
const exceeded = (scope: 'key' | 'project', category: Category, nowMs: number): Refusal => {
  const seconds = Math.ceil((MINUTE_MS - (nowMs % MINUTE_MS)) / 1_000);
  return new Refusal(429, `the ${scope} has sent too much in this minute`, {
    seconds,
    header: `${seconds}:${CATEGORIES[category]}:${scope}:quota`,
  });
};
