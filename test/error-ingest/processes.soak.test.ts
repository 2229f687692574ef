import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Hub, startHub } from '#app/build.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { COLLECTOR, eventEnvelope, eventsOf, makeSender } from './sending.ts';

// Each process caches client keys. A change applies to the next report, in each process.

const app = useApp();
let second: Hub;
let secondDir = '';

beforeAll(async () => {
  secondDir = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  const { config, secretKey } = app().hub.services;
  second = await startHub({
    config: readConfig([], {
      DATABASE_URL: config.databaseUrl ?? '',
      MILLRACE_DATA_DIR: secondDir,
      MILLRACE_PORT: '0',
      MILLRACE_ROLE: 'web',
      MILLRACE_SECRET_KEY: secretKey.toString('base64'),
    }),
    log: createLogger('silent'),
    checkResponses: true,
  });
});
afterAll(async () => {
  await second?.close();
  await rm(secondDir, { recursive: true, force: true });
});

it('every process refuses a deleted key at once, and keeps the reports that it accepted before', async () => {
  const { projectId, key } = await makeSender(app());
  const path = `${COLLECTOR}/${projectId}/envelope/?sentry_key=${key.public_key}`;
  const send = async (url: string) => (await fetch(`${url}${path}`, { method: 'POST', body: eventEnvelope() })).status;
  const urls = [app().url, second.url];
  const sendToAll = () => Promise.all(urls.map(send));
  expect(await sendToAll()).toEqual([200, 200]);
  let isDeleted = false;
  let accepted = 2;
  // Reports arrive at both while the key is being deleted.
  const senders = urls.map(async (url) => {
    while (!isDeleted) if ((await send(url)) === 200) accepted++;
  });
  await until('some reports', () => accepted > 10);
  const keys = `/projects/${projectId}/error_tracking/client_keys`;
  expect((await app().as(app().root).delete(`${keys}/${key.id}`)).status).toBe(204);
  expect(await sendToAll()).toEqual([401, 401]);
  isDeleted = true;
  await Promise.all(senders);
  expect(await eventsOf(app(), projectId)).toHaveLength(accepted);
});

it('a project that takes no errors refuses them in every process, and takes them again later', async () => {
  const { projectId, key } = await makeSender(app());
  const path = `${COLLECTOR}/${projectId}/envelope/?sentry_key=${key.public_key}`;
  const sendToAll = () =>
    Promise.all(
      [app().url, second.url].map(
        async (url) => (await fetch(`${url}${path}`, { method: 'POST', body: eventEnvelope() })).status,
      ),
    );
  const turn = (active: boolean) =>
    app().as(app().root).put(`/projects/${projectId}/error_tracking/settings`, { active });
  expect(await sendToAll()).toEqual([200, 200]);
  await turn(false);
  expect(await sendToAll()).toEqual([401, 401]);
  await turn(true);
  // The event log empties the caches.
  await until('both take errors', async () => (await sendToAll()).every((status) => status === 200));
});
