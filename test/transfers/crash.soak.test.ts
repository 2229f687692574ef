import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { gitIn, packFiles, projectFiles, unpackFiles } from './archive.ts';
import { importArchive } from './support.ts';
import { useWorkers } from './workers.ts';

const ISSUES = 4_000;
/** This issue is refused. */
const BAD = 2_500;

let app: TestApp;
let dataDir: string;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'millrace-crash-'));
  // This app only serves requests. The workers are separate processes that the tests kill.
  app = await startTestApp({ env: { MILLRACE_ROLE: 'web', MILLRACE_DATA_DIR: dataDir } });
});
afterAll(async () => {
  await app.close();
  await rm(dataDir, { recursive: true, force: true });
});

const { start: startWorker, kill } = useWorkers(() => app);

const bigArchive = async (): Promise<Buffer> => {
  const repository = await mkdtemp(join(tmpdir(), 'millrace-crash-git-'));
  gitIn(repository, 'init', '--quiet', '--initial-branch=main');
  gitIn(repository, 'commit', '--quiet', '--allow-empty', '-m', 'First');
  gitIn(repository, 'bundle', 'create', '--quiet', 'project.bundle', '--all');
  const issues = Array.from({ length: ISSUES }, (_, n) => ({
    iid: n + 1,
    title: `Issue ${n + 1}`,
    description: 'x'.repeat(500),
    label_links: [{ label: { title: `label ${n % 50}`, color: '#ff0000' } }],
    notes: [{ note: `Note of ${n + 1}`, author: { name: 'Somebody' } }],
    ...(n === BAD ? { title: '' } : {}),
  }));
  const bundle = await readFile(join(repository, 'project.bundle'));
  await rm(repository, { recursive: true, force: true });
  return packFiles(projectFiles({ issues }, { 'project.bundle': bundle }));
};

describe('kill -9', () => {
  it('loses and duplicates nothing during an import and an export', async () => {
    const { pool, db, storage } = app.hub.services;
    const owner = await app.make.user();
    const started = await importArchive(app, owner, await bigArchive(), { path: 'survivor' });
    expect(started.status, JSON.stringify(started.body)).toBe(201);
    const { id } = started.body;
    const doneIssues = async () => {
      const row = await db
        .selectFrom('project_imports')
        .selectAll()
        .where('project_id', '=', id)
        .executeTakeFirstOrThrow();
      return {
        status: row.status,
        attempt: row.attempt,
        done: Number(Reflect.get(Object(Reflect.get(Object(row.relations), 'issues')), 'done') ?? 0),
      };
    };
    for (const least of [1, 1_500]) {
      const worker = await startWorker();
      await until(`${least} issues are there`, async () => (await doneIssues()).done >= least);
      await kill(worker);
    }
    expect((await doneIssues()).status).toBe('started');
    const survivor = await startWorker();
    await until('it is finished', async () => (await doneIssues()).status === 'finished');
    expect((await doneIssues()).attempt).toBe(3);
    const record = (await app.as(owner).get(`/projects/${id}/import`)).body;
    expect(record.failed_relations).toMatchObject([{ relation_name: 'issues', line_number: BAD }]);
    const { rows } = await sql`
      select (select count(*) from issues where project_id = ${id}) as issues,
        (select count(distinct iid) from issues where project_id = ${id}) as numbers,
        (select count(*) from notes where project_id = ${id}) as notes,
        (select count(*) from labels where project_id = ${id}) as labels,
        (select count(*) from members where project_id = ${id}) as members`.execute(db);
    expect(rows).toEqual([{ issues: ISSUES - 1, numbers: ISSUES - 1, notes: ISSUES - 1, labels: 50, members: 1 }]);
    const { rows: percentages } = await pool.query<{ p: number }>(
      `select (payload ->> 'percentage')::float8 as p from events where kind like 'import.%' order by id`,
    );
    expect(percentages.map(({ p }) => p)).toEqual(percentages.map(({ p }) => p).toSorted((a, b) => a - b));

    // Now kill the worker during the export.
    expect((await app.as(owner).post(`/projects/${id}/export`)).status).toBe(202);
    const exported = async () => (await app.as(owner).get(`/projects/${id}/export`)).body.export_status;
    const attempt = async () =>
      (await db.selectFrom('project_exports').select('attempt').where('project_id', '=', id).executeTakeFirstOrThrow())
        .attempt;
    await until('it runs', async () => (await attempt()) === 1);
    await kill(survivor);
    expect(await exported()).toBe('started');
    await startWorker();
    await until('it is finished', async () => (await exported()) === 'finished');
    const download = await app.as(owner).fetch('GET', `/projects/${id}/export/download`);
    const files = await unpackFiles(Buffer.from(await download.arrayBuffer()));
    const lines = files.get('tree/project/issues.ndjson')?.toString().split('\n').filter(Boolean) ?? [];
    expect(new Set(lines.map((line) => JSON.parse(line).iid)).size).toBe(ISSUES - 1);
    expect(lines).toHaveLength(ISSUES - 1);
    const keys: string[] = [];
    await until('the upload is gone', async () => {
      keys.length = 0;
      for await (const { key } of storage.list('')) keys.push(key);
      return keys.length === 1;
    });
    expect(keys[0]).toMatch(/^exports\//);
    expect(await readdir(join(dataDir, 'tmp')).catch(() => [])).toEqual([]);
  });
});
