import { setTimeout as sleep } from 'node:timers/promises';
import { median } from './compare.ts';
import { openHttp } from './http.ts';
import type { Server } from './processes.ts';

const WARM_UP = 30;
const SAMPLES = 150;
const SETTLE_MS = 3_000;
const PAUSE_MS = 20;

/**
 * Asks for the list of projects again and again, with a pause, until `isEnough`, and at least 150 times. Returns the
 * latencies in milliseconds.
 */
export const listLatencies = async (hub: Server, token: string, isEnough: () => boolean): Promise<number[]> => {
  const http = openHttp(hub.url, 1);
  const headers = { 'private-token': token };
  const ask = () => http.drain({ method: 'GET', path: '/api/v4/projects', headers, leastBytes: 1_000 });
  for (let i = 0; i < WARM_UP; i++) await ask();
  await sleep(SETTLE_MS);
  const latencies: number[] = [];
  while (latencies.length < SAMPLES || !isEnough()) {
    const start = performance.now();
    await ask();
    latencies.push(performance.now() - start);
    await sleep(PAUSE_MS);
  }
  await http.close();
  return latencies;
};

export const p95 = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.95)] ?? 0;

/** Describes the latencies of a busy hub beside those of an idle one. */
export const latencyText = (busyMs: readonly number[], idleMs: readonly number[]): string =>
  `list p95 ${p95(busyMs).toFixed(1)} ms, idle ${p95(idleMs).toFixed(1)} ms: ${(p95(busyMs) / p95(idleMs)).toFixed(2)} times (median ${median(busyMs).toFixed(1)} and ${median(idleMs).toFixed(1)} ms, ${busyMs.length} lists)`;
