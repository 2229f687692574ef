import { setTimeout as sleep } from 'node:timers/promises';
import { median } from '../lib/compare.ts';
import { openHooks } from '../lib/hooks.ts';
import { openHttp } from '../lib/http.ts';
import type { Options } from '../lib/options.ts';
import { cpuMs } from '../lib/processes.ts';
import { openReceiver } from '../lib/receiver.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const SINGLE_EVENTS = 30;
const SHAPES = [
  { key: 'hundred', name: 'one event to 100 hooks', events: 1, hooks: 100, rounds: 15, goal: 0.6 },
  { key: 'burst', name: '5,000 events to one hook', events: 5_000, hooks: 1, rounds: 3, goal: 0.5 },
] as const;

interface Rates {
  readonly ratio: number;
  readonly hub: number;
  readonly bare: number;
  readonly hubUs: number;
  readonly nodeUs: number;
  readonly bareUs: number;
}

/**
 * Throughput: the time from committing push events until all responses of their hooks are recorded, against bare undici
 * with signing and batched log rows. Latency: the time from before the commit of one event until it reaches the
 * receiver, against graphile-worker's time from adding a job to running its handler. `--only hundred`, `burst` or
 * `latency` runs a part.
 */
export const hooks = async (world: World, { only }: Pick<Options, 'only'>): Promise<Outcome> => {
  const database = await world.createDatabase();
  const receiver = await openReceiver();
  const scene = await openHooks(database);
  const bare = await database.startBaseline('hooks.ts');
  const toBare = openHttp(bare.url);
  try {
    await scene.setHooks([receiver.url]);
    const latencies: { hub: number; worker: number }[] = [];
    const singles = only === undefined || only === 'latency' ? SINGLE_EVENTS : 1;
    for (let i = -5; i < singles; i++) {
      const arrival = receiver.next();
      const start = performance.now();
      await scene.commit(1);
      const hubMs = (await arrival) - start;
      await sleep(30);
      const workerMs = Number((await toBare.post('/job', '')).text);
      await sleep(30);
      if (i >= 0) latencies.push({ hub: hubMs, worker: workerMs });
    }
    const hubP50 = median(latencies.map((each) => each.hub));
    const workerP50 = median(latencies.map((each) => each.worker));
    const body = 'x'.repeat(receiver.lastBytes());

    const measure = async (events: number, count: number): Promise<Rates> => {
      const since = await scene.mark();
      const cpu = () => cpuMs([scene.hub.pid]) + database.cpuMs();
      const bareCpu = () => cpuMs([bare.pid]) + database.cpuMs();
      const [cpuBefore, nodeBefore] = [cpu(), cpuMs([scene.hub.pid])];
      const start = performance.now();
      await scene.commit(events);
      await scene.untilRecorded(count, since);
      const hub = count / ((performance.now() - start) / 1_000);
      const hubUs = ((cpu() - cpuBefore) * 1_000) / count;
      const nodeUs = ((cpuMs([scene.hub.pid]) - nodeBefore) * 1_000) / count;
      const bareBefore = bareCpu();
      const bareStart = performance.now();
      await toBare.post(`/deliver?count=${count}&to=${encodeURIComponent(receiver.url)}`, body);
      const bareRate = count / ((performance.now() - bareStart) / 1_000);
      const bareUs = ((bareCpu() - bareBefore) * 1_000) / count;
      return { ratio: hub / bareRate, hub, bare: bareRate, hubUs, nodeUs, bareUs };
    };

    const lines: string[] = [];
    let reached = hubP50 <= 6 && hubP50 <= 2 * workerP50;
    for (const { key, name, events, hooks, rounds, goal } of SHAPES) {
      if (only !== undefined && only !== key) continue;
      await scene.setHooks(Array.from({ length: hooks }, (_, n) => `${receiver.url}${n}`));
      const found: Rates[] = [];
      for (let round = -1; round < rounds; round++) {
        const rates = await measure(events, events * hooks);
        if (round >= 0) found.push(rates);
        // Autovacuum does this within a minute. Until then, plans are made for empty tables.
        else await database.pool.query('analyze');
      }
      const ratios = found.map(({ ratio }) => ratio);
      const of = (key: keyof Rates) => median(found.map((each) => each[key])).toFixed(0);
      reached &&= median(ratios) >= goal;
      lines.push(
        `${name}, deliveries per second ${ratioText(ratios)}: hub ${of('hub')}, bare ${of('bare')} (${body.length} bytes)`,
        `  by CPU ${ratioText(found.map((each) => each.bareUs / each.hubUs))}: hub ${of('hubUs')} us (node ${of('nodeUs')}), bare ${of('bareUs')} us, with Postgres`,
      );
    }
    return {
      target: 'at least 0.6 and 0.5 of bare undici; p50 at most 6 ms and 2 times bare graphile-worker',
      reached,
      lines: [
        ...lines,
        `commit to receiver, p50: hub ${hubP50.toFixed(1)} ms, bare job ${workerP50.toFixed(1)} ms: ${(hubP50 / workerP50).toFixed(1)} times`,
      ],
    };
  } finally {
    receiver.close();
    await Promise.all([scene.close(), toBare.close()]);
    await database.close();
  }
};
