import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { packProject } from './archive.ts';

const app = useApp();

interface S3rverClass {
  new (options: object): { run(): Promise<{ port: number }>; close(): Promise<unknown> };
}

let directory: string;
let close: () => Promise<unknown>;
const KEYS = { access_key_id: 'S3RVER', secret_access_key: 'S3RVER' };
const OBJECT = { region: 'us-east-1', bucket_name: 'exports', file_key: 'of/a project.tar.gz', ...KEYS };

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'millrace-s3-imports-'));
  await mkdir(join(directory, 's3'));
  const { default: S3rver }: { default: S3rverClass } = await import(createRequire(import.meta.url).resolve('s3rver'));
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory: join(directory, 's3'),
    configureBuckets: [{ name: 'exports' }],
  });
  const { port } = await server.run();
  close = () => server.close();
  process.env.AWS_ENDPOINT_URL_S3 = `http://127.0.0.1:${port}`;
  const client = new S3Client({
    region: 'us-east-1',
    credentials: { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' },
    forcePathStyle: true,
  });
  const Body = await packProject({ issues: [{ iid: 1, title: 'From a bucket' }] });
  await client.send(new PutObjectCommand({ Bucket: 'exports', Key: OBJECT.file_key, Body }));
  client.destroy();
  await app().as(app().root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
});
afterAll(async () => {
  delete process.env.AWS_ENDPOINT_URL_S3;
  await close();
  await rm(directory, { recursive: true, force: true });
});

describe('an import from a bucket', () => {
  it('uses the keys of the caller, at both endpoints and in GraphQL, and forgets them', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const client = app().as(owner);
    const first = await client.post('/projects/remote-import-s3', {
      ...OBJECT,
      path: `${group.full_path}/from-s3`,
      namespace: group.id,
      name: 'From S3',
    });
    expect(first.status, JSON.stringify(first.body)).toBe(201);
    expect(first.body).toMatchObject({ import_status: 'scheduled', import_type: 'gitlab_project', import_error: null });
    const second = await client.post('/projects/remote-import', { ...OBJECT, path: `${group.full_path}/too` });
    expect(second.status, JSON.stringify(second.body)).toBe(201);
    const third = await client.graphql(
      `mutation ($input: ProjectRemoteImportInput!) { projectRemoteImport(input: $input) { project { id } errors } }`,
      {
        input: {
          path: 'three',
          s3: {
            region: OBJECT.region,
            bucketName: OBJECT.bucket_name,
            fileKey: OBJECT.file_key,
            accessKeyId: KEYS.access_key_id,
            secretAccessKey: KEYS.secret_access_key,
          },
        },
      },
    );
    expect(third.data.projectRemoteImport.errors).toEqual([]);
    await app().settle();
    for (const path of [`${group.full_path}/from-s3`, `${group.full_path}/too`, `${owner.username}/three`]) {
      const { body } = await client.get(`/projects/${encodeURIComponent(path)}/import`);
      expect(body).toMatchObject({ path_with_namespace: path, import_status: 'finished' });
      expect((await client.get(`/projects/${body.id}/issues`)).body).toMatchObject([{ title: 'From a bucket' }]);
    }
    const { rows } = await app().hub.services.pool.query('select 1 from project_imports where source_url is not null');
    expect(rows).toEqual([]);
  });

  it.each([
    [{ file_key: 'missing' }, 'file_key'],
    [{ access_key_id: 'WRONG' }, 'file_key'],
    [{ bucket_name: 'evil.example.com/x' }, 'bucket_name'],
    [{ region: 'us-east-1.example.com' }, 'region'],
  ])('is refused at once with %o', async (change, attribute) => {
    const owner = await app().make.user();
    const answer = await app()
      .as(owner)
      .post('/projects/remote-import-s3', { ...OBJECT, path: 'no', ...change });
    expect(answer.status).toBe(400);
    expect(Object.keys(answer.body.message)).toEqual([attribute]);
    expect(JSON.stringify(answer.body)).not.toContain('X-Amz');
  });

  it('needs all of its parameters, and no URL beside them', async () => {
    const owner = await app().make.user();
    const send = (path: string, body: Record<string, unknown>) => app().as(owner).post(path, body);
    const { region, ...partial } = OBJECT;
    expect((await send('/projects/remote-import-s3', { ...partial, path: 'x' })).body.error).toContain('region');
    expect((await send('/projects/remote-import', { ...partial, path: 'x' })).body.error).toBe('region is missing');
    const both = await send('/projects/remote-import', { ...OBJECT, path: 'x', url: 'http://example.com/x' });
    expect(both.body.error).toContain('mutually exclusive');
    expect((await send('/projects/remote-import', { path: 'x' })).status).toBe(400);
    await app().as(app().root).put('/application/settings', { import_project_from_remote_file: false });
    expect((await send('/projects/remote-import-s3', { ...OBJECT, path: 'x' })).status).toBe(403);
    await app().as(app().root).put('/application/settings', { import_project_from_remote_file: true });
  });
});
