import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Logger } from '#platform/log.ts';

const CHECK_MS = 5_000;
/** What must be there to win before a collection is worth its pause. */
const MIN_GAIN_BYTES = 48 * 1024 * 1024;
/** The share of a processor below which a process is idle. */
const IDLE_SHARE = 0.2;

/**
 * Gives memory back to the system, now and whenever the process comes to rest after a busy time. V8 collects only when
 * something is allocated, so what a burst left behind would stay for as long as nothing else happens. A collection takes
 * about 100 ms. Returns a function that ends it.
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
    // What is in use now may be more than before; it is compared with that next time.
    floor = heldBytes();
    log.debug({ before, after: floor }, 'unused memory was given back');
  }, CHECK_MS);
  timer.unref();
  return () => clearInterval(timer);
};

const heldBytes = (): number => {
  const { heapTotal, external } = process.memoryUsage();
  return heapTotal + external;
};

/** A collection of last resort, which also gives back what the heap keeps in reserve. */
const collector = (): (() => void) | null => {
  setFlagsFromString('--expose-gc');
  const collect: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return typeof collect === 'function'
    ? () => collect({ type: 'major', execution: 'sync', flavor: 'last-resort' })
    : null;
};
