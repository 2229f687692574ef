import { setTimeout as sleep } from 'node:timers/promises';

const TIMES = 4;
const MAX_MS = 1_000;

/**
 * Pauses after a batch of background work for four times as long as the batch took, at most a second. The work then
 * takes a fifth of its processor and of the database at most, and requests find both free most of the time.
 */
export const pauseAfter = (batchMs: number, signal: AbortSignal): Promise<void> =>
  sleep(Math.min(batchMs * TIMES, MAX_MS), undefined, { signal });
