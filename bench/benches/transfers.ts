import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ISSUES, type LargeProject, writeIssueArchive, writeLargeArchive } from '../lib/archive.ts';
import { median } from '../lib/compare.ts';
import type { Options } from '../lib/options.ts';
import { cpuMs, peakRssMiB, rssMiB, type Server } from '../lib/processes.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import { createProject, exportByHub, headers, idOf, importByHub, one } from '../lib/transfers.ts';
import type { Database, World } from '../lib/world.ts';

const ROUNDS = 3;
const IDLE_MS = 3_000;

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
      times: 2,
      overIdleMiB: 200,
      target: 'at most 2 times the bare floor, at most 200 MiB over idle',
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
      times: 0.85,
      overIdleMiB: 200,
      target: 'at most 0.85 of the bare floor, at most 200 MiB over idle',
    });
  } finally {
    await database.close();
  }
};

const LARGE: LargeProject = { issues: 100_000, notesPerIssue: 5, repositoryMiB: 256 };
const MAX_GROWTH = 1.1;

/**
 * Imports a generated project, exports it, and imports the export: 100,000 issues with 500,000 notes and a repository,
 * after a tenth of it. `--only tenth` stops there. Compares the memory of both, and counts what arrives.
 */
export const transfersLarge = async (world: World, { only }: Options): Promise<Outcome> => {
  const database = await world.createDatabase();
  try {
    const hub = await database.startHub();
    const tenth = { ...LARGE, issues: LARGE.issues / 10, repositoryMiB: Math.ceil(LARGE.repositoryMiB / 10) };
    const sizes = only === 'tenth' ? [tenth] : [tenth, LARGE];
    const lines: string[] = [];
    const peaks: number[][] = [];
    for (const [index, project] of sizes.entries()) {
      const file = join(world.directory, `large-${index}.tar.gz`);
      await writeLargeArchive(file, project);
      const again = join(world.directory, `again-${index}.tar.gz`);
      const steps = {
        import: () => importByHub(hub, file, `large-${index}`),
        export: async () => {
          const id = await idOf(database, `large-${index}`);
          await exportByHub(hub, id);
          const { body } = await fetch(`${hub.url}/api/v4/projects/${id}/export/download`, { headers });
          if (body) await writeFile(again, body);
        },
        're-import': () => importByHub(hub, again, `again-${index}`),
      };
      const found: number[] = [];
      for (const [name, step] of Object.entries(steps)) {
        await settle(database);
        const idleMiB = rssMiB(hub.pid);
        await writeFile(`/proc/${hub.pid}/clear_refs`, '5');
        const [ms] = await timed(() => [hub.pid], step);
        found.push(peakRssMiB(hub.pid) - idleMiB);
        lines.push(
          `${name} of ${project.issues} issues: ${(ms / 1_000).toFixed(0)} s, ${found.at(-1)?.toFixed(0)} MiB over idle`,
        );
      }
      peaks.push(found);
      for (const path of [`large-${index}`, `again-${index}`])
        await expectProject(database, await idOf(database, path), project);
      for (const each of [file, again]) await rm(each);
    }
    const [small = [], large = small] = peaks;
    return {
      target: 'the same content at the end, and at ten times the size less than a tenth more memory',
      reached: large.every((mebibytes, step) => mebibytes <= (small[step] ?? 0) * MAX_GROWTH),
      lines,
    };
  } finally {
    await database.close();
  }
};

const expectProject = async (
  database: Database,
  project: number,
  { issues, notesPerIssue }: LargeProject,
): Promise<void> => {
  const found = await one<{ issues: number; notes: number; failures: number }>(
    database,
    `select (select count(distinct iid) from issues where project_id = ${project}) as issues,
       (select count(*) from notes where project_id = ${project}) as notes,
       (select count(*) from import_failures where project_id = ${project}) as failures`,
  );
  if (found.issues !== issues || found.notes !== issues * notesPerIssue || found.failures !== 0)
    throw new Error(`the project has ${JSON.stringify(found)}`);
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

const ask = async (bare: Server, path: string): Promise<void> => {
  const answer = await fetch(bare.url + path, { method: 'POST' });
  if (!answer.ok) throw new Error(`the baseline answered ${answer.status}: ${await answer.text()}`);
};

const expectIssues = async (database: Database, project: number): Promise<void> => {
  const { count } = await one<{ count: number }>(
    database,
    `select count(*) as count from issues where project_id = ${project}`,
  );
  if (count !== ISSUES) throw new Error(`the project has ${count} issues`);
};
