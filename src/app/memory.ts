import { performance } from 'node:perf_hooks';
import type { Logger } from '#platform/log.ts';
import { collectAll, steadyHeap } from '#platform/process/collect.ts';

const CHECK_MS = 5_000;
/** The minimum number of bytes to reclaim that makes a collection worth its pause. */
const MIN_GAIN_BYTES = 48 * 1024 * 1024;
/**
 * A process whose event loop is active for less than this share of the time is idle. The share of a processor would not
 * do: on a crowded machine a busy process gets little of it, and would be stopped for a collection again and again.
 */
const IDLE_SHARE = 0.2;

/**
 * Returns memory to the system, now and whenever the process becomes idle after a busy period. V8 collects only on
 * allocation, so an idle process would keep the garbage of a burst. In between, the heap grows by a fixed share.
 * Returns a function that stops the checks.
 */
export const returnUnusedMemory = (log: Logger): (() => void) => {
  steadyHeap();
  if (!collectAll()) return () => undefined;
  let floor = heldBytes();
  let active = performance.eventLoopUtilization();
  const timer = setInterval(() => {
    const now = performance.eventLoopUtilization();
    const share = performance.eventLoopUtilization(now, active).utilization;
    active = now;
    const before = heldBytes();
    if (share > IDLE_SHARE || before - floor < MIN_GAIN_BYTES) return;
    collectAll();
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
