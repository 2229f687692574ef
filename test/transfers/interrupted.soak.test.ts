import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { removeProject } from '#domains/projects/deletion.ts';
import { getProject } from '#domains/projects/queries.ts';
import { sealSource } from '#domains/transfers/downloading/source.ts';
import { runExport } from '#domains/transfers/exporting/run.ts';
import { runImport } from '#domains/transfers/importing/run.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { packProject } from './archive.ts';
import { serveFile } from './archive-server.ts';
import { useServers } from './git-server.ts';
import { importArchive } from './support.ts';

// No workers run here, because the tests run the jobs themselves.
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });
const { serve } = useServers();
const run = { attempt: 1, lastAttempt: false };
const PART = 8 * 1024 * 1024;

let archive: Buffer;
beforeAll(async () => {
  await app().as(app().root).put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  const file = `uploads/${'a'.repeat(32)}/random.bin`;
  archive = await packProject({ issues: [{ iid: 3, title: 'Remote' }] }, { [file]: randomBytes(PART + PART / 2) });
});

const filesOf = async (folder: string) => {
  const keys: string[] = [];
  for await (const { key } of app().hub.services.storage.list(folder)) keys.push(key);
  return keys.sort();
};

/** Serves the archive. Each download stops after its first part, as long as `isStuck` says so. */
const serveStuck = async () => {
  const state = { isStuck: true, etag: '"one"', ranges: [] as (string | undefined)[] };
  const url = await serve((request, response) => {
    const { isStuck, etag } = state;
    if (request.method === 'HEAD') return serveFile(request, response, { bytes: archive, etag });
    state.ranges.push(request.headers.range);
    if (!isStuck) return serveFile(request, response, { bytes: archive, etag });
    response.writeHead(200, { 'content-type': 'application/gzip', 'content-length': archive.length, etag });
    response.write(archive.subarray(0, PART + 1_000));
  });
  return { url, state };
};

const started = async (url: string, path: string) => {
  const owner = await app().make.user();
  const { status, body } = await app().as(owner).post('/projects/remote-import', { path, url });
  expect(status, JSON.stringify(body)).toBe(201);
  const row = () =>
    app()
      .hub.services.db.selectFrom('project_imports')
      .selectAll()
      .where('project_id', '=', body.id)
      .executeTakeFirstOrThrow();
  const { id } = await row();
  /** Runs a worker until it has recorded the first part. Returns how to kill it, and its end. */
  const untilPart = async () => {
    const process = new AbortController();
    const end = runImport({ ...app().context(), signal: process.signal }, id, run).catch((error: unknown) => error);
    await until('the first part is there', async () => (await row()).download_parts.length === 1);
    return { kill: () => process.abort(), end };
  };
  return { owner, base: `/projects/${body.id}`, id, row, untilPart };
};

describe('a download', () => {
  it('continues after its process was killed, and after it was canceled and retried', async () => {
    const { url, state } = await serveStuck();
    const { owner, base, id, row, untilPart } = await started(url, 'resumed');
    const { kill, end } = await untilPart();
    kill();
    await end;
    // A part that the killed process has not recorded.
    await app().hub.services.storage.write(`imports/${id}/1-9.part`, Readable.from([Buffer.from('rest')]));

    const second = runImport(app().context(), id, run);
    await until('the rest was requested', () => state.ranges.length === 2);
    expect((await app().as(owner).post(`${base}/import/cancel`)).status).toBe(201);
    expect(await second).toBe('ended');
    expect(await row()).toMatchObject({ status: 'failed', import_error: 'The import was canceled.' });
    expect(await filesOf(`imports/${id}/`)).toEqual((await row()).download_parts);

    state.isStuck = false;
    // The import that is retried does not count towards the limit itself.
    const limit = (value: number) =>
      app().as(app().root).put('/application/settings', { concurrent_url_imports_limit: value });
    await limit(1);
    expect((await app().as(owner).post(`${base}/import/retry`)).status).toBe(201);
    await limit(20);
    expect(await runImport(app().context(), id, run)).toBe('downloaded');
    expect(state.ranges).toEqual([undefined, `bytes=${PART}-`, `bytes=${PART}-`]);
    expect(await row()).toMatchObject({ source_url: null, download_bytes: archive.length });
    expect((await row()).download_parts).toHaveLength(2);

    // From here on a retry needs no server.
    await app().as(owner).post(`${base}/import/cancel`);
    expect((await app().as(owner).post(`${base}/import/retry`)).status).toBe(201);
    expect(await runImport(app().context(), id, run)).toBe('ended');
    expect((await app().as(owner).get(`${base}/import`)).body).toMatchObject({
      import_status: 'finished',
      stats: { imported: { issue: 1 } },
    });
    expect((await row()).download_parts).toEqual([]);
  });

  it('starts over if the file has changed meanwhile, or the server does not identify it', async () => {
    const { url, state } = await serveStuck();
    const { id, row, untilPart } = await started(url, 'changed');
    const first = await untilPart();
    first.kill();
    await first.end;
    const [part] = (await row()).download_parts;
    Object.assign(state, { isStuck: false, etag: '"two"' });
    expect(await runImport(app().context(), id, run)).toBe('downloaded');
    expect(state.ranges).toEqual([undefined, `bytes=${PART}-`, undefined]);
    expect((await row()).download_parts).toHaveLength(2);
    expect(await filesOf(`imports/${id}/`)).toEqual((await row()).download_parts);
    expect((await row()).download_parts).not.toContain(part);

    const untagged = await serveStuck();
    untagged.state.etag = 'W/"weak"';
    const other = await started(untagged.url, 'untagged');
    const killed = await other.untilPart();
    killed.kill();
    await killed.end;
    untagged.state.isStuck = false;
    expect(await runImport(app().context(), other.id, run)).toBe('downloaded');
    expect(untagged.state.ranges).toEqual([undefined, undefined]);
  });

  it('from a bucket is not retried, because the keys are not kept', async () => {
    const { url } = await serveStuck();
    const { owner, base, id, row } = await started(url, 'bucket');
    const s3 = { region: 'eu-1', bucket_name: 'exports', file_key: 'x', access_key_id: 'a', secret_access_key: 'b' };
    const { db } = app().hub.services;
    const source_url = sealSource(app().context(), { s3 });
    await db.updateTable('project_imports').set({ source_url }).where('id', '=', id).execute();
    expect((await app().as(owner).post(`${base}/import/cancel`)).status).toBe(201);
    expect((await row()).source_url).toBeNull();
    const retried = await app().as(owner).post(`${base}/import/retry`);
    expect([retried.status, retried.body.message]).toEqual([409, expect.stringContaining('keys of buckets')]);
  });

  it('leaves nothing behind if the project is deleted meanwhile', async () => {
    const { url } = await serveStuck();
    const { owner, base, id, untilPart } = await started(url, 'deleted');
    const { end } = await untilPart();
    await app().as(owner).delete(base);
    const { path_with_namespace: full_path } = (await app().as(owner).get(base)).body;
    await app().as(owner).delete(base, { permanently_remove: true, full_path });
    expect(await end).toBe('ended');
    const { rows } = await app().hub.services.pool.query(
      `select payload from graphile_worker._private_jobs where payload::text like '%imports/${id}/1-0.part%'`,
    );
    expect(rows).toHaveLength(1);
    expect(await filesOf(`imports/${id}/`)).toEqual([`imports/${id}/1-0.part`]);
  });
});

describe('an upload', () => {
  it('ends if its export is canceled', async () => {
    const requests: IncomingMessage[] = [];
    const url = await serve((request) => {
      requests.push(request);
      request.resume();
    });
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const base = `/projects/${project.id}/export`;
    await app().as(owner).post(base, { upload: { url } });
    const { id } = await app()
      .hub.services.db.selectFrom('project_exports')
      .select('id')
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    const end = runExport(app().context(), id, run);
    await until('the upload has begun', () => requests.length === 1);
    const [request] = requests;
    const closed = request ? once(request.socket, 'close') : null;
    expect((await app().as(owner).post(`${base}/cancel`)).status).toBe(201);
    await Promise.all([end, closed]);
    expect(requests).toHaveLength(1);
    expect((await app().as(owner).get(base)).body).toMatchObject({ export_error: 'The export was canceled.' });
    // The archive was complete, so the cancellation schedules its removal.
    const [key = ''] = await filesOf(`exports/${project.id}/`);
    const { rows } = await app().hub.services.pool.query(
      'select 1 from graphile_worker._private_jobs where payload::text like $1',
      [`%"${key}"%`],
    );
    expect(rows).toHaveLength(1);
  });
});

describe('an import', () => {
  it.each([
    ['an upload', `uploads/${'b'.repeat(32)}/note.txt`, 'uploads/'],
    ['a kept file', `lfs-objects/${'c'.repeat(64)}`, 'kept/'],
  ])('leaves no file if its project is deleted while %s is stored', async (_what, name, folder) => {
    const owner = await app().make.user();
    const { storage, db } = app().hub.services;
    const sent = await packProject({}, { [name]: Buffer.from('content') });
    const { body } = await importArchive(app(), owner, sent, { path: 'goes' });
    const { id: importId } = await db
      .selectFrom('project_imports')
      .select('id')
      .where('project_id', '=', body.id)
      .executeTakeFirstOrThrow();
    const before = await filesOf(folder);
    const write = storage.write.bind(storage);
    const spy = vi.spyOn(storage, 'write').mockImplementation(async (key, ...rest) => {
      if (key.startsWith(folder))
        await removeProject(app().context(), await getProject(app().context(), { id: body.id }));
      return write(key, ...rest);
    });
    await runImport(app().context(), importId, run).catch(() => undefined);
    expect(spy.mock.calls.filter(([key]) => key.startsWith(folder))).toHaveLength(1);
    spy.mockRestore();
    expect(await filesOf(folder)).toEqual(before);
  });
});
