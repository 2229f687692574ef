import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { median } from '../lib/compare.ts';
import { openHttp } from '../lib/http.ts';
import { rssMiB, type Server, startServer } from '../lib/processes.ts';
import type { Outcome } from '../lib/report.ts';
import { ADMIN_TOKEN, HUB_READY, MAIN, type World } from '../lib/world.ts';

const STARTS = 5;
const IDLE_MS = 4_000;
const QUERY = JSON.stringify({ query: '{ projects { id name } }' });
const HUB_QUERY = JSON.stringify({ query: '{ projects { nodes { id name } } }' });

/**
 * The time from spawning the hub, with its embedded database, on an existing data directory to its first response, and
 * its idle memory.
 */
export const start = async (world: World): Promise<Outcome> => {
  const dataDir = join(world.directory, 'start');
  const startHub = async (): Promise<{ hub: Server; ms: number }> => {
    const begin = performance.now();
    const hub = await startServer(MAIN, {
      ready: HUB_READY,
      env: {
        MILLRACE_DATA_DIR: dataDir,
        MILLRACE_PORT: '0',
        MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
        MILLRACE_LOG_LEVEL: 'warn',
      },
    });
    await ask(hub.url, '/api/graphql', HUB_QUERY);
    return { hub, ms: performance.now() - begin };
  };
  const first = await startHub();
  await first.hub.stop();
  const times: number[] = [];
  for (let i = 0; i < STARTS; i++) {
    const { hub, ms } = await startHub();
    times.push(ms);
    await hub.stop();
  }

  const database = await world.createDatabase();
  try {
    const ratios: number[] = [];
    const sizes: { hub: number; bare: number }[] = [];
    for (let i = 0; i < 3; i++) {
      const hub = await database.startHub();
      const bare = await database.startBaseline('yoga.js');
      await ask(hub.url, '/api/graphql', HUB_QUERY);
      await ask(bare.url, '/graphql', QUERY);
      await sleep(IDLE_MS);
      const size = { hub: rssMiB(hub.pid), bare: rssMiB(bare.pid) };
      sizes.push(size);
      ratios.push(size.hub / size.bare);
      await Promise.all([hub.stop(), bare.stop()]);
    }
    const ratio = median(ratios);
    const size = (key: 'hub' | 'bare') => median(sizes.map((each) => each[key])).toFixed(0);
    return {
      target: 'second start at most 1.5 s; idle memory at most 1.45 times a bare Yoga, Pothos and Kysely server',
      reached: median(times) <= 1_500 && ratio <= 1.45,
      lines: [
        `first start ${(first.ms / 1_000).toFixed(1)} s, later ones ${(median(times) / 1_000).toFixed(2)} s (median; min ${(Math.min(...times) / 1_000).toFixed(2)})`,
        `resident memory when idle ${ratio.toFixed(2)} times: hub ${size('hub')} MiB, bare ${size('bare')} MiB`,
      ],
    };
  } finally {
    await database.close();
  }
};

const ask = async (url: string, path: string, body: string): Promise<void> => {
  const http = openHttp(url, 1);
  const { status, text } = await http.post(path, body, { authorization: `Bearer ${ADMIN_TOKEN}` });
  await http.close();
  if (status !== 200 || text.includes('"errors"')) throw new Error(`${path} answered ${status}: ${text}`);
};
