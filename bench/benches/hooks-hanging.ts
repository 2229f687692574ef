import { createServer } from 'node:http';
import { median } from '../lib/compare.ts';
import { openHooks } from '../lib/hooks.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const HOOKS = 40;
const HANGING = HOOKS / 4;
const EVENTS = 60;
const ROUNDS = 3;
const MAX_P99_MS = 2_000;

interface Round {
  readonly p99: number;
  readonly rate: number;
}

/**
 * What the others notice of a quarter of receivers that never answer: a burst of events to 40 hooks, from the commit to
 * each arrival; once with all receivers well, once with ten that hang.
 */
export const hooksHanging = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  let arrivals: number[] = [];
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      if (request.url?.startsWith('/hang')) return;
      arrivals.push(performance.now());
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
      arrivals = [];
      const wanted = wells * EVENTS;
      const since = await scene.mark();
      const start = performance.now();
      await scene.commit(EVENTS);
      await scene.untilRecorded(wanted, since);
      const sorted = arrivals.map((at) => at - start).sort((a, b) => a - b);
      return {
        p99: sorted[Math.floor(sorted.length * 0.99)] ?? Number.POSITIVE_INFINITY,
        rate: wanted / ((sorted.at(-1) ?? 0) / 1_000),
      };
    };
    await measure(false);
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
