import { z } from 'zod';
import type { RelationCounts } from './model.ts';

const counts = z.record(z.string(), z.object({ done: z.number(), total: z.number() }));

/** As it stands in the row. */
export const readCounts = (stored: unknown): RelationCounts => counts.safeParse(stored).data ?? {};

const EVENT_EVERY_MS = 300;

/** At most a few events a second tell how far it is; rows are brought up to date more often. */
export class Pace {
  #last = Number.NEGATIVE_INFINITY;

  isDue(): boolean {
    return performance.now() - this.#last >= EVENT_EVERY_MS;
  }

  told(): void {
    this.#last = performance.now();
  }
}

/** Of the work, up to 99: the rest is its end. */
export const percentageOf = (done: number, total: number): number =>
  total <= 0 ? 0 : Math.min(99, Math.round((done / total) * 9_900) / 100);
