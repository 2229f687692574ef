import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApp, type TestApp } from '../support/app.ts';
import { makeJobScene, upload, zipOf } from './support.ts';

interface S3rverClass {
  new (options: object): { run(): Promise<{ port: number }>; close(): Promise<unknown> };
}

const AWS = { AWS_ACCESS_KEY_ID: 'S3RVER', AWS_SECRET_ACCESS_KEY: 'S3RVER', AWS_REGION: 'us-east-1' };
let directory: string;
let closeS3: () => Promise<unknown>;
let app: TestApp;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'millrace-direct-'));
  const { default: S3rver }: { default: S3rverClass } = await import(createRequire(import.meta.url).resolve('s3rver'));
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory,
    configureBuckets: [{ name: 'hub' }],
  });
  const { port } = await server.run();
  closeS3 = () => server.close();
  Object.assign(process.env, AWS, { AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}` });
  app = await startTestApp({
    env: { MILLRACE_STORAGE: 's3', MILLRACE_S3_BUCKET: 'hub', MILLRACE_S3_DOWNLOADS: 'redirect' },
  });
});

afterAll(async () => {
  await app?.close();
  await closeS3?.();
  for (const name of [...Object.keys(AWS), 'AWS_ENDPOINT_URL_S3']) delete process.env[name];
  await rm(directory, { recursive: true, force: true });
});

describe('artifacts in S3', () => {
  it('are downloaded from there with a redirect, and single files through the hub', async () => {
    const { job, people, reporter, jobPath } = await makeJobScene(app);
    const zip = await zipOf({ 'a/b.txt': 'text'.repeat(10_000), c: 'c' });
    expect((await upload(app, job, zip, { filename: 'my "files".zip' })).status).toBe(201);
    const answer = await reporter.fetch('GET', `${jobPath}/artifacts`);
    expect(answer.status).toBe(302);
    const location = answer.headers.get('location') ?? '';
    expect(location).toContain('X-Amz-Expires=600');
    const direct = await fetch(location);
    expect([direct.status, direct.headers.get('content-type')]).toEqual([200, 'application/octet-stream']);
    expect(Buffer.from(await direct.arrayBuffer()).equals(zip)).toBe(true);
    expect((await reporter.get(`${jobPath}/artifacts/a/b.txt`)).body).toBe('text'.repeat(10_000));

    // Runners follow redirects only if they say so.
    const { db } = app.hub.services;
    await db.updateTable('jobs').set({ user_id: people.reporter.id }).where('id', '=', job.id).execute();
    const asRunner = (query: string) =>
      app.anonymous.fetch('GET', `/jobs/${job.id}/artifacts?${query}`, undefined, { 'job-token': job.token });
    expect((await asRunner('direct_download=true')).status).toBe(302);
    const proxied = await asRunner('direct_download=false');
    expect([proxied.status, Buffer.from(await proxied.arrayBuffer()).equals(zip)]).toEqual([200, true]);
  });
});
