import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

type Collect = (options: { type: 'major' | 'minor'; execution: 'sync'; flavor?: 'regular' | 'last-resort' }) => void;

let known: Collect | null | undefined;

/** Returns the function that runs the garbage collector, or null if this Node has none. */
const collector = (): Collect | null => {
  if (known !== undefined) return known;
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  known = typeof collect === 'function' ? (options) => void collect(options) : null;
  return known;
};

/**
 * Runs a last-resort collection, which also releases the reserve of the heap. Takes about 100 ms. Returns whether it
 * could.
 */
export const collectAll = (): boolean => {
  const collect = collector();
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' });
  return collect !== null;
};

const YOUNG_BYTES = 4 * 1024 * 1024;
let passed = 0;

/**
 * Notes that a stream has passed on so many bytes. After some megabytes it collects the buffers, while they are young:
 * this takes half a millisecond. V8 counts the buffers of a stream against the whole heap, and would collect that
 * instead, at a hundred milliseconds each time (docs/decisions/0046-large-uploads.md).
 */
export const notePassed = (bytes: number): void => {
  passed += bytes;
  if (passed < YOUNG_BYTES) return;
  passed = 0;
  collector()?.({ type: 'minor', execution: 'sync' });
};

const GROWTH_PERCENT = 60;

/**
 * Makes V8 collect the whole heap whenever it has grown by 60 %. V8 itself chooses between 10 % and 300 %, after how
 * busy the process was: 10 % makes streams collect the whole heap every few megabytes, and 300 % lets long work in
 * batches fill it with garbage (docs/performance/limits.md#import-50k-memory).
 */
export const steadyHeap = (): void => setFlagsFromString(`--heap-growing-percent=${GROWTH_PERCENT}`);
