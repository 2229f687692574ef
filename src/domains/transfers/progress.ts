import { z } from 'zod';
import type { RelationCounts } from './model.ts';

const counts = z.record(z.string(), z.object({ done: z.number(), total: z.number() }));

/** Parses the counts in a row. Returns no counts if they are invalid. */
export const readCounts = (stored: unknown): RelationCounts => counts.safeParse(stored).data ?? {};

const EVENT_EVERY_MS = 300;

/** Limits progress events to a few per second. Rows are updated more often. */
export class Pace {
  #last = Number.NEGATIVE_INFINITY;

  isDue(): boolean {
    return performance.now() - this.#last >= EVENT_EVERY_MS;
  }

  /** Starts the pause until the next event. */
  emitted(): void {
    this.#last = performance.now();
  }
}

/** Returns the progress in percent, at most 99. The last percent stands for finishing. */
export const percentageOf = (done: number, total: number): number =>
  total <= 0 ? 0 : Math.min(99, Math.round((done / total) * 9_900) / 100);

/** The share of an import that the download of its archive counts for, in percent. */
export const DOWNLOAD_SHARE = 50;
