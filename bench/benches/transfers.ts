import { openAsBlob } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ISSUES, writeIssueArchive } from '../lib/archive.ts';
import { median } from '../lib/compare.ts';
import { openHttp } from '../lib/http.ts';
import { cpuMs, peakRssMiB, rssMiB, type Server } from '../lib/processes.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import { ADMIN_TOKEN, type Database, type World } from '../lib/world.ts';

const ROUNDS = 3;
const TIMEOUT_MS = 180_000;
const POLL_MS = 50;
const IDLE_MS = 3_000;
const headers = { 'private-token': ADMIN_TOKEN };

interface Round {
  readonly hubMs: number;
  readonly bareMs: number;
  readonly hubCpuMs: number;
  readonly bareCpuMs: number;
  readonly overIdleMiB: number;
}

/**
 * The time from sending the archive to `finished`, against gunzip, parse and COPY into the same table with its indexes.
 */
export const importIssues = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  try {
    const hub = await database.startHub();
    const bare = await database.startBaseline('transfers.ts');
    const file = join(world.directory, 'issues.tar.gz');
    const bytes = await writeIssueArchive(file);
    const { id: author } = await one<{ id: number }>(database, `select id from users where username = 'root'`);
    const rounds: Round[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const target = await createProject(hub, `bare-${round}`);
      rounds.push(
        await measure(database, hub, bare, {
          byHub: () => importByHub(hub, file, `imported-${round}`),
          byBare: () => ask(bare, `/import?file=${encodeURIComponent(file)}&project=${target}&author=${author}`),
        }),
      );
      for (const project of [target, await idOf(database, `imported-${round}`)]) await expectIssues(database, project);
    }
    return outcomeOf(rounds, bytes, {
      times: 3,
      overIdleMiB: 256,
      target: 'at most 3 times the bare floor, at most 256 MiB over idle',
    });
  } finally {
    await database.close();
  }
};

/** The time from requesting the export to `finished`, against a cursor, tar and one gzip stream. */
export const exportIssues = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  try {
    const hub = await database.startHub();
    const bare = await database.startBaseline('transfers.ts');
    const file = join(world.directory, 'to-export.tar.gz');
    const bytes = await writeIssueArchive(file);
    await importByHub(hub, file, 'exported');
    const project = await idOf(database, 'exported');
    await expectIssues(database, project);
    const out = join(world.directory, 'exported.tar.gz');
    await writeFile(out, '');
    const rounds: Round[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      rounds.push(
        await measure(database, hub, bare, {
          byHub: () => exportByHub(hub, project),
          byBare: () => ask(bare, `/export?file=${encodeURIComponent(out)}&project=${project}`),
        }),
      );
    }
    return outcomeOf(rounds, bytes, {
      times: 1.1,
      overIdleMiB: Number.POSITIVE_INFINITY,
      target: 'at most 1.1 times the bare floor',
    });
  } finally {
    await database.close();
  }
};

const measure = async (
  database: Database,
  hub: Server,
  bare: Server,
  { byHub, byBare }: { byHub: () => Promise<unknown>; byBare: () => Promise<unknown> },
): Promise<Round> => {
  // Both sides write to the same tables. The checkpoint prevents either from paying for the other's writes.
  await settle(database);
  const idleMiB = rssMiB(hub.pid);
  await writeFile(`/proc/${hub.pid}/clear_refs`, '5');
  const [hubMs, hubCpuMs] = await timed(() => [hub.pid, ...database.backends()], byHub);
  const overIdleMiB = peakRssMiB(hub.pid) - idleMiB;
  await settle(database);
  const [bareMs, bareCpuMs] = await timed(() => [bare.pid, ...database.backends()], byBare);
  return { hubMs, bareMs, hubCpuMs, bareCpuMs, overIdleMiB };
};

const settle = async (database: Database): Promise<void> => {
  await database.pool.query('checkpoint');
  await sleep(IDLE_MS);
};

const timed = async (pids: () => number[], run: () => Promise<unknown>): Promise<[number, number]> => {
  const cpu = cpuMs(pids());
  const start = performance.now();
  await run();
  return [performance.now() - start, cpuMs(pids()) - cpu];
};

const outcomeOf = (
  rounds: readonly Round[],
  bytes: number,
  limit: { times: number; overIdleMiB: number; target: string },
): Outcome => {
  const ratios = rounds.map((each) => each.hubMs / each.bareMs);
  const byCpu = rounds.map((each) => each.hubCpuMs / each.bareCpuMs);
  const overIdle = Math.max(...rounds.map((each) => each.overIdleMiB));
  const seconds = (key: 'hubMs' | 'bareMs' | 'hubCpuMs' | 'bareCpuMs') =>
    (median(rounds.map((each) => each[key])) / 1_000).toFixed(1);
  return {
    target: limit.target,
    reached: median(ratios) <= limit.times && overIdle <= limit.overIdleMiB,
    lines: [
      `time ${ratioText(ratios)}: hub ${seconds('hubMs')} s, bare ${seconds('bareMs')} s; ${ISSUES} issues, ${(bytes / 1e6).toFixed(0)} MB`,
      `CPU with Postgres ${ratioText(byCpu)}: hub ${seconds('hubCpuMs')} s, bare ${seconds('bareCpuMs')} s`,
      `peak memory of the hub over idle: ${overIdle.toFixed(0)} MiB`,
    ],
  };
};

const createProject = async (hub: Server, path: string): Promise<number> => {
  const http = openHttp(hub.url, 1);
  const { status, text } = await http.post('/api/v4/projects', JSON.stringify({ path }), {
    ...headers,
    'content-type': 'application/json',
  });
  await http.close();
  if (status !== 201) throw new Error(`the project was answered ${status}: ${text}`);
  return JSON.parse(text).id;
};

const importByHub = async (hub: Server, file: string, path: string): Promise<void> => {
  const form = new FormData();
  form.set('path', path);
  form.set('file', await openAsBlob(file), 'archive.tar.gz');
  const answer = await fetch(`${hub.url}/api/v4/projects/import`, { method: 'POST', headers, body: form });
  const started: { id: number } = JSON.parse(await answer.text());
  if (answer.status !== 201) throw new Error(`the import was answered ${answer.status}: ${JSON.stringify(started)}`);
  await untilFinished(hub, `/api/v4/projects/${started.id}/import`, 'import_status');
};

const exportByHub = async (hub: Server, project: number): Promise<void> => {
  const url = `/api/v4/projects/${project}/export`;
  const answer = await fetch(hub.url + url, { method: 'POST', headers });
  if (answer.status !== 202) throw new Error(`the export was answered ${answer.status}`);
  await untilFinished(hub, url, 'export_status');
};

const untilFinished = async (hub: Server, path: string, key: string): Promise<void> => {
  for (const deadline = performance.now() + TIMEOUT_MS; ; await sleep(POLL_MS)) {
    const answer = await fetch(hub.url + path, { headers });
    const state: Record<string, unknown> = JSON.parse(await answer.text());
    if (state[key] === 'finished') return;
    if (state[key] === 'failed' || performance.now() > deadline)
      throw new Error(`it did not finish: ${JSON.stringify(state)}`);
  }
};

const ask = async (bare: Server, path: string): Promise<void> => {
  const answer = await fetch(bare.url + path, { method: 'POST' });
  if (!answer.ok) throw new Error(`the baseline answered ${answer.status}: ${await answer.text()}`);
};

const one = async <Row extends object>(database: Database, text: string): Promise<Row> => {
  const { rows } = await database.pool.query<Row>(text);
  const [row] = rows;
  if (!row) throw new Error(`nothing found: ${text}`);
  return row;
};

const idOf = async (database: Database, path: string): Promise<number> =>
  (await one<{ id: number }>(database, `select id from projects where path = '${path}'`)).id;

const expectIssues = async (database: Database, project: number): Promise<void> => {
  const { count } = await one<{ count: number }>(
    database,
    `select count(*) as count from issues where project_id = ${project}`,
  );
  if (count !== ISSUES) throw new Error(`the project has ${count} issues`);
};
