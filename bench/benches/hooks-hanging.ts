import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { median } from '../lib/compare.ts';
import { openHooks } from '../lib/hooks.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const HOOKS = 40;
const HANGING = HOOKS / 4;
/** 30 healthy hooks get 150 deliveries a second: well below the capacity of one hub, even on two busy cores. */
const EVENTS = 30;
const EVERY_MS = 200;
const ROUNDS = 3;
const MAX_P99_MS = 2_000;

interface Round {
  readonly p99: number;
  readonly rate: number;
}

/**
 * The effect on healthy receivers when a quarter of the receivers never answer. A steady flow of events goes to 40
 * hooks. Measures the time from each commit to each arrival, once with all receivers healthy and once with ten that
 * hang.
 */
export const hooksHanging = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  /** Arrival times by hook. */
  let arrivals = new Map<string, number[]>();
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.url?.startsWith('/hang')) return;
      const path = request.url ?? '';
      const known = arrivals.get(path);
      if (known) known.push(performance.now());
      else arrivals.set(path, [performance.now()]);
      response.writeHead(200, { 'content-length': 2 }).end('ok');
    });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  const scene = await openHooks(database);
  try {
    const wells = HOOKS - HANGING;
    const measure = async (hanging: boolean): Promise<Round> => {
      const urls = Array.from({ length: HOOKS }, (_, n) => {
        return `http://127.0.0.1:${address.port}/${n < wells ? 'well' : 'hang'}/${n}`;
      });
      await scene.setHooks(hanging ? urls : urls.slice(0, wells));
      arrivals = new Map();
      const wanted = wells * EVENTS;
      const since = await scene.mark();
      const start = performance.now();
      const commits: number[] = [];
      for (let n = 0; n < EVENTS; n++) {
        await sleep(Math.max(0, start + n * EVERY_MS - performance.now()));
        commits.push(performance.now());
        await scene.commit(1);
      }
      await scene.untilRecorded(wanted, since);
      // Matches the nth arrival at a hook with the nth commit. None is missing by then.
      const found = [...arrivals.values()];
      const waits = found.flatMap((times) => times.map((at, n) => at - (commits[n] ?? at))).sort((a, b) => a - b);
      return {
        p99: waits[Math.floor(waits.length * 0.99)] ?? Number.POSITIVE_INFINITY,
        rate: wanted / ((Math.max(...found.flat()) - start) / 1_000),
      };
    };
    await measure(false);
    await database.pool.query('analyze');
    const well: Round[] = [];
    const hanging: Round[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      well.push(await measure(false));
      hanging.push(await measure(true));
    }
    const of = (rounds: readonly Round[], key: keyof Round) => median(rounds.map((round) => round[key]));
    const ratio = of(hanging, 'rate') / of(well, 'rate');
    return {
      target: `the p99 of the others at most ${MAX_P99_MS / 1_000} s, their rate within 10 %`,
      reached: of(hanging, 'p99') <= MAX_P99_MS && ratio >= 0.9,
      lines: [
        `p99 from commit to receiver: ${of(hanging, 'p99').toFixed(0)} ms beside ${HANGING} that hang, ${of(well, 'p99').toFixed(0)} ms without`,
        `deliveries per second: ${of(hanging, 'rate').toFixed(0)} beside them, ${of(well, 'rate').toFixed(0)} without: ${ratio.toFixed(2)}`,
      ],
    };
  } finally {
    server.closeAllConnections();
    server.close();
    await scene.close();
    await database.close();
  }
};
