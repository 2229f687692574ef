import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Logger } from '#platform/log.ts';

const CHECK_MS = 5_000;
/** The minimum number of bytes to reclaim that makes a collection worth its pause. */
const MIN_GAIN_BYTES = 48 * 1024 * 1024;
/** A process that uses less than this share of a processor is idle. */
const IDLE_SHARE = 0.2;

/**
 * Returns memory to the system, now and whenever the process becomes idle after a busy period. V8 collects only on
 * allocation, so an idle process would keep the garbage of a burst. A collection takes about 100 ms. Returns a function
 * that stops the checks.
 */
export const returnUnusedMemory = (log: Logger): (() => void) => {
  const collect = collector();
  if (!collect) return () => undefined;
  collect();
  let floor = heldBytes();
  let cpu = process.cpuUsage();
  let checkedAt = performance.now();
  const timer = setInterval(() => {
    const { user, system } = process.cpuUsage(cpu);
    const share = (user + system) / 1_000 / (performance.now() - checkedAt);
    cpu = process.cpuUsage();
    checkedAt = performance.now();
    const before = heldBytes();
    if (share > IDLE_SHARE || before - floor < MIN_GAIN_BYTES) return;
    collect();
    // More memory may be in use now than at start, so the next check compares with the current amount.
    floor = heldBytes();
    log.debug({ before, after: floor }, 'returned unused memory to the system');
  }, CHECK_MS);
  timer.unref();
  return () => clearInterval(timer);
};

const heldBytes = (): number => {
  const { heapTotal, external } = process.memoryUsage();
  return heapTotal + external;
};

/** Returns a function that runs a last-resort collection, which also releases the reserve of the heap. */
const collector = (): (() => void) | null => {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return typeof collect === 'function'
    ? () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    : null;
};
