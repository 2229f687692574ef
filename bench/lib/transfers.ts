import { openAsBlob } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openHttp } from './http.ts';
import type { Server } from './processes.ts';
import { ADMIN_TOKEN, type Database } from './world.ts';

const TIMEOUT_MS = 1_200_000;
const POLL_MS = 50;
export const headers = { 'private-token': ADMIN_TOKEN };

/** Returns the id of a new project. */
export const createProject = async (hub: Server, path: string): Promise<number> => {
  const http = openHttp(hub.url, 1);
  const { status, text } = await http.post('/api/v4/projects', JSON.stringify({ path }), {
    ...headers,
    'content-type': 'application/json',
  });
  await http.close();
  if (status !== 201) throw new Error(`the project was answered ${status}: ${text}`);
  return JSON.parse(text).id;
};

/** Uploads an archive and waits until it is imported. */
export const importByHub = async (hub: Server, file: string, path: string): Promise<void> => {
  const form = new FormData();
  form.set('path', path);
  form.set('file', await openAsBlob(file), 'archive.tar.gz');
  const answer = await fetch(`${hub.url}/api/v4/projects/import`, { method: 'POST', headers, body: form });
  const started: { id: number } = JSON.parse(await answer.text());
  if (answer.status !== 201) throw new Error(`the import was answered ${answer.status}: ${JSON.stringify(started)}`);
  await untilFinished(hub, `/api/v4/projects/${started.id}/import`, 'import_status');
};

/** Waits until the project is exported. */
export const exportByHub = async (hub: Server, project: number): Promise<void> => {
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

/** Returns the first row of a query. */
export const one = async <Row extends object>(database: Database, text: string): Promise<Row> => {
  const { rows } = await database.pool.query<Row>(text);
  const [row] = rows;
  if (!row) throw new Error(`nothing found: ${text}`);
  return row;
};

export const idOf = async (database: Database, path: string): Promise<number> =>
  (await one<{ id: number }>(database, `select id from projects where path = '${path}'`)).id;
