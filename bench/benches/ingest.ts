import { setTimeout as sleep } from 'node:timers/promises';
import { compare, type Side } from '../lib/compare.ts';
import { liftLimits, seed } from '../lib/data.ts';
import { envelopesOf } from '../lib/envelopes.ts';
import { type Http, openHttp } from '../lib/http.ts';
import { latencyText, listLatencies, p95 } from '../lib/latencies.ts';
import type { Options } from '../lib/options.ts';
import { cpuMs, forgetPeakRss, peakRssMiB, rssMiB, type Server } from '../lib/processes.ts';
import type { Outcome } from '../lib/report.ts';
import { ADMIN_TOKEN, type Database, type World } from '../lib/world.ts';

const SIZES = [4, 50] as const;
const ACCEPT_AT_LEAST = 0.6;
const CONCURRENCY = 32;
/** Events a second, by size in KiB. */
const DIGEST_AT_LEAST = { 4: 1_500, 50: 400 };
const DIGESTED = { 4: 15_000, 50: 4_000 };
const MAX_BACKLOG = 100_000;
const LIST_TIMES = 2;
const OVER_IDLE_MIB = 150;
const TIMEOUT_MS = 400_000;
/** Loading needs memory that the hub returns after one and a half seconds. */
const START_MS = 3_000;

interface Target {
  readonly projectId: number;
  readonly keyId: number;
  readonly path: string;
}

/**
 * Error ingest: envelopes accepted against the bare ceiling, by a hub that does not digest. Then the rate of the digest,
 * and the latency of lists and the memory of a hub while it works off a backlog.
 */
export const ingest = async (world: World, { only, many }: Options): Promise<Outcome> => {
  const parts: Outcome[] = [];
  const part = async (name: string, measure: () => Promise<Outcome>) => {
    if (only !== undefined && only !== name) return;
    const outcome = await measure();
    for (const line of outcome.lines) console.log(line);
    parts.push(outcome);
  };
  await part('accepting', () => acceptedAgainstCeiling(world));
  await part('digest', () => digestRates(world));
  await part('backlog', () => workOffBacklog(world, Math.min(many, MAX_BACKLOG)));
  return {
    target: parts.map(({ target }) => target).join('; '),
    reached: parts.every(({ reached }) => reached),
    lines: parts.flatMap(({ lines }) => lines),
  };
};

const acceptedAgainstCeiling = async (world: World): Promise<Outcome> => {
  const outcomes: Outcome[] = [];
  for (const size of SIZES) {
    const database = await world.createDatabase();
    try {
      const hub = await database.startHub({ env: { MILLRACE_ROLE: 'web' } });
      const bare = await database.startBaseline('ingest.ts');
      const { path } = await makeTarget(hub);
      const [toHub, toBare] = [openHttp(hub.url, CONCURRENCY), openHttp(bare.url, CONCURRENCY)];
      const sides = { hub: sideOf('hub', hub, toHub, path, size), bare: sideOf('bare', bare, toBare, '/', size) };
      const outcome = await compare({
        ...{ hub: sides.hub, baseline: sides.bare, databaseMs: database.cpuMs, atLeast: ACCEPT_AT_LEAST },
        // A hub that has just started compiles what it runs: after 6,000 requests, threads of V8 still took a third of
        // its CPU. On a busy machine time says little about that.
        ...{ concurrency: CONCURRENCY, rounds: 6, warmUpMs: 5_000, warmUpRequests: 30_000, leastRequests: 600 },
      });
      outcomes.push({ ...outcome, lines: outcome.lines.map((line) => `${size} KiB accepted, ${line}`) });
      await Promise.all([toHub.close(), toBare.close()]);
    } finally {
      await database.close();
    }
  }
  return {
    target: `accepted 4 and 50 KiB envelopes at least ${ACCEPT_AT_LEAST} of the bare ceiling`,
    reached: outcomes.every(({ reached }) => reached),
    lines: outcomes.flatMap(({ lines }) => lines),
  };
};

const sideOf = (name: string, { pid }: Server, http: Http, path: string, size: number): Side => {
  const next = envelopesOf(size * 1_024);
  const send = () => http.drain({ method: 'POST', path, body: next(), headers: {}, leastBytes: 30 });
  return { name, pid, send };
};

const digestRates = async (world: World): Promise<Outcome> => {
  const lines: string[] = [];
  let reached = true;
  for (const size of SIZES) {
    const database = await world.createDatabase();
    try {
      const count = DIGESTED[size];
      await fill(database, size, count);
      const hub = await database.startHub();
      const { perSecond, nodeUs, postgresUs } = await digestAll(database, hub, count);
      reached &&= perSecond >= DIGEST_AT_LEAST[size];
      lines.push(
        `${size} KiB digested: ${perSecond.toFixed(0)} events/s (${count} events, batches of one project)`,
        `${size} KiB digested: CPU per event ${(nodeUs + postgresUs).toFixed(0)} us (node ${nodeUs.toFixed(0)}, postgres ${postgresUs.toFixed(0)})`,
      );
      await hub.stop();
    } finally {
      await database.close();
    }
  }
  return {
    target: `digested at least ${DIGEST_AT_LEAST[4]} and ${DIGEST_AT_LEAST[50]} events/s of 4 and 50 KiB`,
    reached,
    lines,
  };
};

const workOffBacklog = async (world: World, backlog: number): Promise<Outcome> => {
  const database = await world.createDatabase();
  try {
    await liftLimits(database.pool);
    const { token } = await seed(database.pool, { groups: 20, projectsPerGroup: 50, visibility: 'private' });
    const idle = await database.startHub();
    const before = await listLatencies(idle, token, () => true);
    const idleMiB = rssMiB(idle.pid);
    await idle.stop();
    await fill(database, 4, backlog);
    const hub = await database.startHub();
    let isDone = false;
    const digesting = digestAll(database, hub, backlog).finally(() => {
      isDone = true;
    });
    const [busyMs] = await Promise.all([
      listLatencies(hub, token, () => isDone),
      sleep(START_MS).then(() => forgetPeakRss(hub.pid)),
    ]);
    const { perSecond } = await digesting;
    const overIdle = peakRssMiB(hub.pid) - idleMiB;
    // Other work on the machine comes and goes, so idle is what it was before and after.
    const idleMs = [...before, ...(await listLatencies(hub, token, () => true))];
    const ratio = p95(busyMs) / p95(idleMs);
    return {
      target: `backlog of ${backlog} worked off while list p95 stays within ${LIST_TIMES} times idle; at most ${OVER_IDLE_MIB} MiB over idle`,
      reached: ratio <= LIST_TIMES && overIdle <= OVER_IDLE_MIB,
      lines: [
        `backlog of ${backlog}: ${perSecond.toFixed(0)} events/s while lists are asked for`,
        latencyText(busyMs, idleMs),
        `memory at most ${overIdle.toFixed(0)} MiB over idle (${idleMiB.toFixed(0)} MiB)`,
      ],
    };
  } finally {
    await database.close();
  }
};

/** Lets a hub that does not digest take envelopes until so many wait. */
const fill = async (database: Database, size: number, count: number): Promise<Target> => {
  const hub = await database.startHub({ env: { MILLRACE_ROLE: 'web' } });
  const target = await makeTarget(hub);
  const http = openHttp(hub.url, CONCURRENCY);
  const { send } = sideOf('fill', hub, http, target.path, size);
  let left = count;
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      while (left-- > 0) await send();
    }),
  );
  await http.close();
  await hub.stop();
  return target;
};

interface Digested {
  readonly perSecond: number;
  readonly nodeUs: number;
  readonly postgresUs: number;
}

/** Waits until nothing waits any more. Returns the events digested per second, and the CPU time of each. */
const digestAll = async (database: Database, { pid }: Server, count: number): Promise<Digested> => {
  const waiting = async () => {
    const { rows } = await database.pool.query<{ one: number }>('select 1 as one from ingest_envelopes limit 1');
    return rows.length > 0;
  };
  const digested = async () => {
    const { rows } = await database.pool.query<{ count: number }>('select count(*) as count from error_events');
    return rows[0]?.count ?? 0;
  };
  // Starting does not count.
  while ((await digested()) === 0) await sleep(10);
  const before = await digested();
  const [start, nodeMs, postgresMs] = [performance.now(), cpuMs([pid]), database.cpuMs()];
  while (await waiting()) {
    if (performance.now() - start > TIMEOUT_MS) throw new Error('the digest takes too long');
    await sleep(50);
  }
  const seconds = (performance.now() - start) / 1_000;
  const after = await digested();
  if (after !== count) throw new Error(`${after} of ${count} events were digested`);
  const us = (ms: number) => (ms * 1_000) / (after - before);
  return {
    perSecond: (after - before) / seconds,
    nodeUs: us(cpuMs([pid]) - nodeMs),
    postgresUs: us(database.cpuMs() - postgresMs),
  };
};

const makeTarget = async (hub: Server): Promise<Target> => {
  const http = openHttp(hub.url, 1);
  const create = async (path: string, body: object) => {
    const answer = await http.post(`/api/v4${path}`, JSON.stringify(body), { 'private-token': ADMIN_TOKEN });
    if (answer.status !== 201) throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
    return JSON.parse(answer.text);
  };
  const project: { id: number } = await create('/projects', { name: 'ingest' });
  const key: { id: number; public_key: string } = await create(
    `/projects/${project.id}/error_tracking/client_keys`,
    {},
  );
  await http.close();
  const path = `/api/v4/error_tracking/collector/api/${project.id}/envelope/?sentry_key=${key.public_key}&sentry_version=7`;
  return { projectId: project.id, keyId: key.id, path };
};
