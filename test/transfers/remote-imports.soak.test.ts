import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { packProject } from './archive.ts';
import { serveFile } from './archive-server.ts';
import { type Handler, useServers } from './git-server.ts';

const app = useApp();
const { serve } = useServers();
const settings = (changes: Record<string, unknown>) => app().as(app().root).put('/application/settings', changes);

let archive: Buffer;
let owner: TestUser;
beforeAll(async () => {
  expect((await settings({ allow_local_requests_from_web_hooks_and_services: true })).status).toBe(200);
  archive = await packProject({
    issues: [{ iid: 3, title: 'Remote', description: randomBytes(60_000).toString('base64') }],
  });
  owner = await app().make.user();
});

let count = 0;
const start = (url: string, more: Record<string, unknown> = {}, user = owner) =>
  app()
    .as(user)
    .post('/projects/remote-import', { path: `remote${++count}`, url, ...more });
const importFrom = async (url: string, more: Record<string, unknown> = {}) => {
  const started = await start(url, more);
  expect(started.status, JSON.stringify(started.body)).toBe(201);
  // The job may already have met an error that it retries.
  expect(started.body).toMatchObject({ import_status: 'scheduled', import_type: 'gitlab_project' });
  await app().settle();
  return (await app().as(owner).get(`/projects/${started.body.id}/import`)).body;
};
const issuesOf = async (id: number) =>
  (await app().as(owner).get(`/projects/${id}/issues`)).body.map(({ iid }: { iid: number }) => iid);
const downloadedBytes = async () => {
  const { rows } = await sql<{ bytes: number }>`
    select download_bytes as bytes from project_imports order by id desc limit 1`.execute(app().hub.services.db);
  return rows[0]?.bytes;
};
const storedFiles = async () => {
  const keys: string[] = [];
  for await (const { key } of app().hub.services.storage.list('')) keys.push(key);
  return keys;
};

describe('a remote import', () => {
  it('downloads the archive from a URL, and forgets the URL', async () => {
    const url = await serve((request, response) => serveFile(request, response, { bytes: archive }));
    const signed = `${url}/export.tar.gz?signature=very-secret-value`;
    const record = await importFrom(signed, {
      name: 'Named',
      namespace: owner.username,
      'override_params[description]': 'Mine',
      overwrite: 'True',
    });
    expect(record).toMatchObject({
      name: 'Named',
      description: 'Mine',
      import_status: 'finished',
      failed_relations: [],
    });
    expect(await issuesOf(record.id)).toEqual([3]);
    expect(await storedFiles()).toEqual([]);
    const { pool } = app().hub.services;
    for (const table of ['projects', 'project_imports', 'events', 'graphile_worker._private_jobs']) {
      const { rows } = await pool.query(`select 1 from ${table} t where t::text like '%very-secret-value%'`);
      expect(rows).toEqual([]);
    }
    const { rows } = await pool.query('select source_url, storage_key from project_imports where project_id = $1', [
      record.id,
    ]);
    expect(rows).toEqual([{ source_url: null, storage_key: null }]);
    const { data } = await app()
      .as(owner)
      .graphql(`query ($path: ID!) { project(fullPath: $path) { import { progress downloadedBytes downloadSize } } }`, {
        path: record.path_with_namespace,
      });
    const size = String(archive.length);
    expect(data.project.import).toEqual({ progress: 100, downloadedBytes: size, downloadSize: size });
  });

  it('resumes by range after broken connections', async () => {
    const ranges: (string | undefined)[] = [];
    const url = await serve((request, response) => {
      if (request.method === 'GET') ranges.push(request.headers.range);
      serveFile(request, response, { bytes: archive, breakAfter: 32_768 });
    });
    expect(await importFrom(url)).toMatchObject({ import_status: 'finished' });
    expect(ranges.length).toBeGreaterThan(1);
    expect(ranges[0]).toBeUndefined();
    expect(ranges.slice(1).every((range) => /^bytes=[1-9]\d*-$/.test(range ?? ''))).toBe(true);
  });

  it('skips the known part if the server ignores the range', async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      const isFirst = request.method === 'GET' && ++requests === 1;
      serveFile(request, response, { bytes: archive, ranges: false, ...(isFirst ? { breakAfter: 20_000 } : {}) });
    });
    expect(await importFrom(url)).toMatchObject({ import_status: 'finished' });
    expect(requests).toBe(2);
  });

  it.each([
    ['no ETag', null],
    ['a weak ETag', 'W/"one"'],
  ])('starts over after a broken connection if the server sends %s', async (_name, etag) => {
    const ranges: (string | undefined)[] = [];
    // This file has the same size, so that only its bytes differ.
    const other = Buffer.alloc(archive.length, 1);
    const url = await serve((request, response) => {
      if (request.method === 'GET') ranges.push(request.headers.range);
      const isFirst = ranges.length === 1;
      serveFile(request, response, {
        bytes: isFirst ? other : archive,
        etag,
        ...(isFirst ? { breakAfter: 20_000 } : {}),
      });
    });
    expect(await importFrom(url)).toMatchObject({ import_status: 'finished', failed_relations: [] });
    expect(ranges).toEqual([undefined, undefined]);
  });

  it('fails if the server sends no ETag and the connection breaks again', async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      if (request.method === 'GET') requests++;
      serveFile(request, response, { bytes: archive, breakAfter: 20_000, etag: null });
    });
    expect(await importFrom(url)).toMatchObject({
      import_status: 'failed',
      import_error: expect.stringMatching(/the server sends no strong ETag and no Last-Modified\.$/),
    });
    expect(requests).toBe(2);
    expect(await storedFiles()).toEqual([]);
  });

  it('starts over if the file changes during the download', async () => {
    const received: unknown[] = [];
    const url = await serve(async (request, response) => {
      if (request.method === 'GET') received.push(await downloadedBytes());
      const isFirst = received.length === 1;
      serveFile(request, response, {
        bytes: archive,
        etag: `"${isFirst}"`,
        ...(isFirst ? { breakAfter: 20_000 } : {}),
      });
    });
    expect(await importFrom(url)).toMatchObject({ import_status: 'finished', failed_relations: [] });
    // The third request starts over, and nothing of the first one counts any more.
    expect(received).toEqual([0, 20_000, 0]);
  });

  it('fails if the file changes again', async () => {
    let requests = 0;
    const url = await serve((request, response) => {
      if (request.method === 'GET') requests++;
      serveFile(request, response, { bytes: archive, breakAfter: 20_000, etag: `"${requests}"` });
    });
    expect(await importFrom(url)).toMatchObject({
      import_status: 'failed',
      import_error: 'The file changed while it was downloaded.',
    });
    expect(await storedFiles()).toEqual([]);
  });

  it('replaces a project through GraphQL', async () => {
    const url = await serve((request, response) => serveFile(request, response, { bytes: archive }));
    const group = await app().make.group({}, owner);
    const old = await app().make.project({ namespace_id: group.id, path: 'old' }, owner);
    const start = (input: object) =>
      app()
        .as(owner)
        .graphql(
          `mutation ($input: ProjectRemoteImportInput!) { projectRemoteImport(input: $input) { project { fullPath } errors } }`,
          { input },
        );
    const input = {
      path: 'old',
      name: 'New',
      namespacePath: group.full_path,
      overwrite: true,
      overrideParams: { description: 'Newer' },
    };
    expect((await start({ ...input, url })).data.projectRemoteImport.errors).toEqual([]);
    await app().settle();
    const { body } = await app()
      .as(owner)
      .get(`/projects/${encodeURIComponent(`${group.full_path}/old`)}`);
    expect(body).toMatchObject({ name: 'New', description: 'Newer' });
    expect(body.id).not.toBe(old.id);
    const full = { path: `${group.full_path}/by-full-path`, url };
    expect((await start(full)).data.projectRemoteImport).toMatchObject({ project: { fullPath: full.path } });
    for (const refused of [input, { ...input, url, s3: BUCKET }, { ...input, url, overrideParams: [1] }]) {
      const { data, errors } = await start(refused);
      expect(errors ?? data.projectRemoteImport.errors).not.toEqual([]);
    }
  });
});

const BUCKET = { region: 'eu-1', bucketName: 'exports', fileKey: 'x', accessKeyId: 'a', secretAccessKey: 'b' };

describe('a remote file', () => {
  const GIB = 1024 ** 3;
  const answering =
    (status: number, headers: Record<string, string | number>): Handler =>
    (_request, response) =>
      response.writeHead(status, headers).end();
  const type = 'application/gzip';
  it.each([
    ['is missing', answering(404, {}), 'The server answered 404'],
    ['has another type', answering(200, { 'content-type': 'text/html', 'content-length': 5 }), 'Content-Type'],
    ['has no length', answering(200, { 'content-type': type }), 'Content-Length of the file must be a number'],
    ['is empty', answering(200, { 'content-type': type, 'content-length': 0 }), 'The file is empty'],
    [
      'has more than 10 GB',
      answering(200, { 'content-type': type, 'content-length': 10 * GIB + 1 }),
      'The file is larger than the limit of 10 GB',
    ],
  ] as const)('is refused at once if it %s', async (_name, handler, problem) => {
    const answer = await start(await serve(handler));
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).toContain(problem);
    expect(JSON.stringify(answer.body)).toContain('"url"');
  });

  it('is checked by its download if the server refuses HEAD', async () => {
    const url = await serve((request, response) => {
      if (request.method === 'HEAD') response.writeHead(403).end();
      else serveFile(request, response, { bytes: archive, type: 'text/plain' });
    });
    expect(await importFrom(url)).toMatchObject({
      import_status: 'failed',
      import_error: 'The file must have the Content-Type application/gzip.',
    });
  });

  it('is refused above the limit of this instance, which the error names', async () => {
    await settings({ max_import_remote_file_size: 1 });
    try {
      const url = await serve(answering(200, { 'content-type': type, 'content-length': 1024 * 1024 + 1 }));
      const answer = await start(url);
      expect(answer.body.message.url).toEqual([
        'The file is larger than the limit of 1 MiB (max_import_remote_file_size)',
      ]);
    } finally {
      await settings({ max_import_remote_file_size: 10_240 });
    }
  });
});

describe('an address', () => {
  afterAll(() => settings({ allow_local_requests_from_web_hooks_and_services: true }));

  it('is refused if it leads inside, also by a redirect', async () => {
    const url = await serve((request, response) => serveFile(request, response, { bytes: archive }));
    const redirecting = await serve((_request, response) =>
      response.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data' }).end(),
    );
    for (const address of [
      redirecting,
      'http://169.254.169.254/x',
      'file:///etc/passwd',
      'http://[::ffff:169.254.169.254]/',
    ])
      expect((await start(address)).status, address).toBe(400);
    await settings({ allow_local_requests_from_web_hooks_and_services: false });
    for (const address of [url, url.replace('127.0.0.1', '2130706433'), 'http://localhost./x', 'http://0/x'])
      expect((await start(address)).status, address).toBe(400);
    const { body } = await app().as(owner).get('/projects?owned=true');
    expect(body.map(({ path }: { path: string }) => path)).not.toContain(`remote${count}`);
    await settings({ allow_local_requests_from_web_hooks_and_services: true });
  });

  it('that redirects the download inside fails the import', async () => {
    const url = await serve((request, response) => {
      if (request.method === 'HEAD') serveFile(request, response, { bytes: archive });
      else response.writeHead(302, { location: 'http://169.254.169.254/x' }).end();
    });
    const record = await importFrom(url);
    expect(record.import_status).toBe('failed');
    expect(record.import_error).toMatch(/^The archive could not be downloaded: URL is blocked/);
  });
});

describe('remote imports', () => {
  it('are for those who may import into the namespace, and ask no server for others', async () => {
    let requests = 0;
    const url = await serve((request: IncomingMessage, response) => {
      requests++;
      serveFile(request, response, { bytes: archive });
    });
    const group = await app().make.group({ visibility: 'private' }, owner);
    const developer = await app().make.user();
    await app().make.groupMember(group, developer, 30);
    const stranger = await app().make.user();
    const into = { namespace: group.full_path };
    expect((await start(url, into, developer)).status).toBe(403);
    expect((await start(url, into, stranger)).status).toBe(404);
    expect((await app().anonymous.post('/projects/remote-import', { path: 'x', url })).status).toBe(401);
    expect((await start(url, { override_params: { creator_id: 1 } })).status).toBe(400);
    expect((await start('')).status).toBe(400);
    await settings({ import_project_from_remote_file: false });
    expect((await start(url)).status).toBe(403);
    await settings({ import_project_from_remote_file: true });
    expect(requests).toBe(0);
  });
});
