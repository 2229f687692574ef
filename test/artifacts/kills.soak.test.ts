import { randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createDatabase, tolerateLosses } from '#platform/db/pool.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { insertPipeline } from '../merge-requests/support.ts';
import { ADMIN_TOKEN, PASSWORD } from '../support/administrator.ts';
import { createHubDatabase, type TestDatabase } from '../support/database.ts';
import { until } from '../support/until.ts';
import { type Process, startProcess } from '../system/process.ts';
import { randomFrom } from '../torture/bounded.ts';
import { zipOf } from './support.ts';

/**
 * Each round starts a hub, which is what costs most. These two have one kill during uploads and one after them. More
 * rounds find rarer moments: `MILLRACE_KILLS=50`.
 */
const ROUNDS = Number(process.env.MILLRACE_KILLS ?? 2);
const UPLOADS_PER_ROUND = 4;
const SEED = 13;

let database: TestDatabase;
let directory: string;
let pool: pg.Pool;
let hub: Process;

const start = async (): Promise<string> => {
  hub = startProcess({
    DATABASE_URL: database.url,
    MILLRACE_DATA_DIR: directory,
    MILLRACE_PORT: '0',
    MILLRACE_LOG_LEVEL: 'error',
    MILLRACE_ADMIN_TOKEN: ADMIN_TOKEN,
    MILLRACE_ADMIN_PASSWORD: PASSWORD,
  });
  return hub.url();
};

const kill = async (): Promise<void> => {
  hub.child.kill('SIGKILL');
  await hub.ended;
};

beforeAll(async () => {
  database = await createHubDatabase();
  directory = await mkdtemp(join(tmpdir(), 'millrace-kills-'));
  // Dropping the database may end a connection that is still closing.
  pool = tolerateLosses(new pg.Pool({ connectionString: database.url, max: 4 }));
});

afterAll(async () => {
  await kill();
  await pool.end();
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

/** The stored files by key, with their sizes. */
const storedFiles = async (): Promise<Map<string, number>> => {
  const root = join(directory, 'storage/files');
  const names = await readdir(root, { recursive: true }).catch(() => []);
  const found = new Map<string, number>();
  for (const name of names.filter((each) => each.startsWith('artifacts/'))) {
    const status = await stat(join(root, name));
    if (status.isFile()) found.set(name, status.size);
  }
  return found;
};

it('leaves no file without a row and no row without its file, whenever the hub is killed', async () => {
  const random = randomFrom(SEED);
  const base = await start();
  const call = async (url: string, method: string, path: string, body?: object) => {
    const headers = { 'private-token': ADMIN_TOKEN, 'content-type': 'application/json' };
    return fetch(`${url}/api/v4${path}`, { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) });
  };
  const project = await (await call(base, 'POST', '/projects', { name: 'kills', path: 'kills' })).json();
  const token = `glcbt-${randomToken()}`;
  const db = createDatabase(pool);
  const jobs = Array.from({ length: ROUNDS * UPLOADS_PER_ROUND }, (_, n) => ({
    name: `job ${n}`,
    stage: 'build',
    status: 'running',
  }));
  const inserted = await insertPipeline(db, { project_id: project.id, status: 'running' }, jobs);
  // This pool reads large integers as texts.
  const ids = inserted.jobs.map(Number);
  const tokenOf = (id: number) => `${token}${id}`;
  for (const id of ids) {
    await db
      .updateTable('jobs')
      .set({ token_digest: digestToken(tokenOf(id)) })
      .where('id', '=', id)
      .execute();
  }
  const acknowledged = new Set<number>();
  let url = base;
  for (let round = 0; round < ROUNDS; round++) {
    const work = ids.slice(round * UPLOADS_PER_ROUND, (round + 1) * UPLOADS_PER_ROUND).map(async (id, n) => {
      const zip = await zipOf({ 'a/b': randomBytes(Math.floor(20_000 + n * 300_000)), c: 'c' });
      const form = new FormData();
      form.append('file', new Blob([new Uint8Array(zip)]), 'artifacts.zip');
      const headers = { 'job-token': tokenOf(id) };
      const answer = await fetch(`${url}/api/v4/jobs/${id}/artifacts`, { method: 'POST', body: form, headers });
      if (answer.status !== 201) return;
      acknowledged.add(id);
      // Every third artifact is deleted again.
      if (id % 3 !== 0) return;
      acknowledged.delete(id);
      await call(url, 'DELETE', `/projects/${project.id}/jobs/${id}/artifacts`);
    });
    const settled = Promise.allSettled(work);
    // In every third round the uploads end before the kill, so that something is kept on a slow machine too.
    if (round % 3 === 1) await settled;
    else await sleep(random() * 800);
    await kill();
    await settled;
    url = await start();
  }
  await pool.query('update storage_removals set due_at = now()');
  const listed = async () => (await pool.query('select count(*)::int as count from storage_removals')).rows[0]?.count;
  await until('the listed files to be removed', async () => (await listed()) === 0, 120_000);
  const rows: { job_id: number; storage_key: string; index_key: string; size: string }[] = (
    await pool.query('select job_id, storage_key, index_key, size from job_artifacts')
  ).rows;
  const files = await storedFiles();
  expect([...files.keys()].sort()).toEqual(rows.flatMap((row) => [row.storage_key, row.index_key]).sort());
  for (const row of rows) expect(files.get(row.storage_key)).toBe(Number(row.size));
  const kept = new Set(rows.map(({ job_id }) => Number(job_id)));
  expect([...acknowledged].filter((id) => !kept.has(id))).toEqual([]);
  const statistics = await pool.query(
    'select job_artifacts_size::int as size from project_statistics where project_id = $1',
    [project.id],
  );
  expect(statistics.rows[0]?.size).toBe(rows.reduce((sum, row) => sum + Number(row.size), 0));
  await until('the drafts of dead processes to be removed', async () => {
    const drafts = await readdir(join(directory, 'storage/tmp')).catch(() => []);
    return drafts.length === 0;
  });
  expect(rows.length).toBeGreaterThan(0);
}, 600_000);
