import { cpuMs, treeCpuMs } from './processes.ts';
import { type Outcome, ratioText } from './report.ts';

/** One side of a comparison: a request that can be repeated. */
export interface Side {
  readonly name: string;
  /** Sends one request and reads the whole response. Throws when the response is not as expected. */
  send(): Promise<void>;
  readonly pid: number;
  /** Whether the CPU time of child processes counts too. */
  readonly children?: boolean;
}

export interface Comparison {
  readonly hub: Side;
  readonly baseline: Side;
  /** CPU time of the database so far. It counts for the side that is being measured. */
  readonly databaseMs: () => number;
  /** The hub must reach this share of the baseline. */
  readonly atLeast: number;
  readonly concurrency?: number;
  readonly rounds?: number;
  readonly windowMs?: number;
  readonly warmUpMs?: number;
  /** The warm-up continues until it has this many responses. */
  readonly warmUpRequests?: number;
  /** A window continues until it has this many responses, for machines under other load. */
  readonly leastRequests?: number;
}

export interface Window {
  readonly requests: number;
  readonly perSecond: number;
  readonly nodeUs: number;
  readonly postgresUs: number;
}

/** The results of both sides in one round. */
export interface Round {
  readonly hub: Window;
  readonly baseline: Window;
}

/**
 * Loads both sides alternately in short windows and compares window by window, so that other load on the machine
 * affects both. The verdict is by CPU time per request, which other load disturbs least. The rates are reported too.
 */
export const compare = async (comparison: Comparison): Promise<Outcome> => {
  const { hub, baseline, atLeast } = comparison;
  const windows = await takeTurns(comparison);
  const byCpu = windows.map((round) => cpuOf(round.baseline) / cpuOf(round.hub));
  const byRate = windows.map((round) => round.hub.perSecond / round.baseline.perSecond);
  const us = (side: 'hub' | 'baseline') => {
    const part = (of: (window: Window) => number) => median(windows.map((each) => of(each[side]))).toFixed(0);
    return `${part(cpuOf)} us (node ${part(({ nodeUs }) => nodeUs)}, postgres ${part(({ postgresUs }) => postgresUs)})`;
  };
  const rate = (side: 'hub' | 'baseline') => median(windows.map((each) => each[side].perSecond));
  return {
    target: `at least ${atLeast} of ${baseline.name}`,
    reached: median(byCpu) >= atLeast,
    lines: [
      `by CPU per request ${ratioText(byCpu)}: ${hub.name} ${us('hub')}, ${baseline.name} ${us('baseline')}`,
      `by requests per second ${ratioText(byRate)}: ${hub.name} ${rate('hub').toFixed(0)}, ${baseline.name} ${rate('baseline').toFixed(0)}`,
    ],
  };
};

/** Warms up both sides, then measures them in alternating windows. */
export const takeTurns = async ({
  hub,
  baseline,
  databaseMs,
  concurrency = 8,
  rounds = 8,
  windowMs = 1_500,
  warmUpMs = 2_000,
  warmUpRequests = 0,
  leastRequests = 0,
}: Omit<Comparison, 'atLeast'>): Promise<Round[]> => {
  for (const side of [hub, baseline]) await load(side, databaseMs, concurrency, warmUpMs, warmUpRequests);
  const windows: Round[] = [];
  for (let round = 0; round < rounds; round++) {
    // The second side finds warmer caches, so the order alternates.
    const first = round % 2 === 0;
    const a = await load(first ? hub : baseline, databaseMs, concurrency, windowMs, leastRequests);
    const b = await load(first ? baseline : hub, databaseMs, concurrency, windowMs, leastRequests);
    windows.push(first ? { hub: a, baseline: b } : { hub: b, baseline: a });
  }
  return windows;
};

export const cpuOf = ({ nodeUs, postgresUs }: Window): number => nodeUs + postgresUs;

const load = async (
  { send, pid, children }: Side,
  databaseMs: () => number,
  concurrency: number,
  windowMs: number,
  leastRequests: number,
): Promise<Window> => {
  const own = () => (children ? treeCpuMs(pid) : cpuMs([pid]));
  const [node, postgres] = [own(), databaseMs()];
  const start = performance.now();
  const end = start + windowMs;
  let requests = 0;
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      while (performance.now() < end || requests < leastRequests) {
        await send();
        requests++;
      }
    }),
  );
  const seconds = (performance.now() - start) / 1_000;
  return {
    requests,
    perSecond: requests / seconds,
    nodeUs: ((own() - node) * 1_000) / requests,
    postgresUs: ((databaseMs() - postgres) * 1_000) / requests,
  };
};

export const median = (values: readonly number[]): number => {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? (sorted[middle] ?? 0) : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2;
};
