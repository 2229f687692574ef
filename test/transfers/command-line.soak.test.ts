import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, type Server, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Api } from '#cli/api.ts';
import { FollowExportDocument, StartExportDocument } from '#cli/operations/generated.ts';
import { formatBytes } from '#cli/progress.ts';
import { exportProject, importProject, Pace } from '#cli/transfers.ts';
import { useApp } from '../support/app.ts';
import { packProject } from './archive.ts';

const app = useApp();
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'millrace-command-line-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const details: string[] = [];
const step = { progress: (_percentage: number | null, detail: string) => void details.push(detail) };

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

const portOf = (server: Server): number => (server.address() as AddressInfo).port;

/** Passes requests on to the hub, and breaks them when told to. */
const openProxy = async (target: string) => {
  let breaks = false;
  let refuses = false;
  let refused = 0;
  const server = createServer((request, response) => {
    if (refuses) {
      refuses = false;
      refused++;
      request.socket.destroy();
      return;
    }
    const { method, headers } = request;
    const passed = send(target + request.url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      const isStream = answer.headers['content-type']?.startsWith('text/event-stream') === true;
      if (!isStream || !breaks) {
        answer.pipe(response);
        return;
      }
      [breaks, refuses] = [false, true];
      response.write(':\n\n', () => {
        request.socket.destroy();
        passed.destroy();
      });
    });
    passed.on('error', () => response.destroy());
    request.pipe(passed);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${portOf(server)}`,
    breakNextStream: () => {
      breaks = true;
    },
    get refused() {
      return refused;
    },
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
};

describe('the command line', () => {
  it('continues an interrupted download of an export, and an import that it had started', async () => {
    const owner = await app().make.user();
    const api = new Api(app().url, await app().tokenOf(owner));
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const group = await app().make.group({}, owner);
    const file = join(directory, 'project_export.tar.gz');
    await exportProject(api, project.path_with_namespace, file, step);
    const whole = await readFile(file);

    // An earlier run got only the first half.
    const url = `/projects/${project.id}/export/download`;
    const head = await app().as(owner).fetch('GET', url, undefined, { range: 'bytes=0-0' });
    await rm(file);
    await writeFile(`${file}.part`, whole.subarray(0, whole.length >> 1));
    await writeFile(`${file}.part.etag`, head.headers.get('etag') ?? '');
    await exportProject(api, project.path_with_namespace, file, step);
    expect((await readFile(file)).equals(whole)).toBe(true);
    const size = formatBytes(whole.length);
    expect(details.at(-1)).toBe(`downloaded ${size} of ${size}`);
    await expect(stat(`${file}.part.etag`)).rejects.toThrow('ENOENT');
    const { rows } = await app().hub.services.pool.query('select 1 from project_exports where project_id = $1', [
      project.id,
    ]);
    expect(rows).toHaveLength(1);

    const target = { path: 'copied', namespace: group.full_path };
    const first = await importProject(api, file, target, step);
    expect(details).toContain(`uploaded ${size} of ${size}`);
    expect(first).toMatchObject({ fullPath: `${group.full_path}/copied`, failures: [] });
    // The import was canceled, and its archive is still there. The command goes on instead of uploading again.
    const { db } = app().hub.services;
    const { id } = await db
      .selectFrom('projects')
      .select('id')
      .where('full_path', '=', first.fullPath)
      .executeTakeFirstOrThrow();
    await app().hub.services.storage.write('tmp/uploads/again', Readable.from([whole]));
    await db
      .updateTable('project_imports')
      .set({
        status: 'failed',
        import_error: 'The import was canceled.',
        storage_key: 'tmp/uploads/again',
        checkpoint: JSON.stringify({ repository: true, numbers: {} }),
      })
      .where('project_id', '=', id)
      .execute();
    const { data } = await app()
      .as(owner)
      .graphql(`query ($path: ID!) { project(fullPath: $path) { id } }`, { path: first.fullPath });
    const mark = { hub: api.url, size: whole.length, mtimeMs: (await stat(file)).mtimeMs, project: data.project.id };
    await writeFile(`${file}.import`, JSON.stringify(mark));
    expect((await importProject(api, file, target, step)).fullPath).toBe(first.fullPath);
    await expect(stat(`${file}.import`)).rejects.toThrow('ENOENT');

    // The import of another file is not taken for its own.
    await db.updateTable('project_imports').set({ status: 'failed' }).where('project_id', '=', id).execute();
    const other = join(directory, 'other.tar.gz');
    await writeFile(other, await packProject({ issues: [{ iid: 1, title: 'Other' }] }));
    await writeFile(`${other}.import`, JSON.stringify(mark));
    for (const file of [other, join(directory, 'gone')])
      await expect(importProject(api, file, target, step)).rejects.toThrow(/already been taken|ENOENT/);
    const started = await importProject(api, other, { ...target, path: 'other' }, step);
    expect(started).toMatchObject({ fullPath: `${group.full_path}/other`, items: 1 });
  });

  it('shows the pace and the remaining time', () => {
    const pace = new Pace();
    const at = (progress: number, done: number) => ({ progress, relations: [{ name: 'issues', done, total: 1_000 }] });
    expect(pace.of(at(10, 100), 0)).toBe('');
    expect(pace.of(at(11, 110), 500)).toBe('');
    expect(pace.of(at(30, 300), 2_000)).toBe('100/s, 7.0 s left');
    expect(pace.of(at(100, 1_000), 9_000)).toBe('');
    expect(new Pace().of(at(30, 300), 2_000)).toBe('');
  });

  it('connects again and goes on if the hub is gone for a while', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const group = await app().make.group({}, owner);
    const proxy = await openProxy(app().url);
    try {
      const api = new Api(proxy.url, await app().tokenOf(owner));
      const file = join(directory, 'patient.tar.gz');
      for (const run of [
        () => exportProject(api, project.path_with_namespace, file, step),
        () => importProject(api, file, { path: 'patient', namespace: group.full_path }, step),
      ]) {
        // The subscription breaks off, and the next connection is refused.
        proxy.breakNextStream();
        await run();
      }
      expect(proxy.refused).toBe(2);
      expect(
        (
          await app()
            .as(owner)
            .get(`/projects/${encodeURIComponent(`${group.full_path}/patient`)}`)
        ).status,
      ).toBe(200);
    } finally {
      proxy.close();
    }
  });

  it('does not take the end of an earlier export for its own', async () => {
    const asked: string[] = [];
    const status = { earlier: 'FINISHED', running: 'REGENERATION_IN_PROGRESS' };
    const update = { cursor: '1', status: status.earlier, progress: 100, bytes: 0, error: null, relations: [] };
    // A hub whose first event is that of an earlier export.
    const server = createServer(async (request, response) => {
      const body = await text(request);
      if (request.method === 'GET') {
        response.end('archive');
        return;
      }
      const { query } = z.object({ query: z.string() }).parse(JSON.parse(body));
      const what = /^(?:mutation|query|subscription) (\w+)/.exec(query)?.[1] ?? '';
      asked.push(what);
      if (what === 'FollowExport') {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const frame = `event: next\ndata: ${JSON.stringify({ data: { projectExportUpdated: update } })}\n\n`;
        response.write(frame + frame);
        return;
      }
      const reads = asked.filter((each) => each === 'ExportStatus').length;
      const state = { status: reads < 3 ? status.running : status.earlier, size: '7', error: null };
      response.end(JSON.stringify({ data: what === 'ExportStatus' ? { project: { id: '1', export: state } } : {} }));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const api = new Api(`http://127.0.0.1:${portOf(server)}`, 'token');
      expect(await exportProject(api, 'mills/sails', join(directory, 'stale.tar.gz'), step)).toEqual({ size: 7 });
      expect(asked.filter((each) => each === 'ExportStatus')).toHaveLength(3);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  it('follows a subscription that is read only after a garbage collection', async () => {
    const owner = await app().make.user();
    const api = new Api(app().url, await app().tokenOf(owner));
    const { path_with_namespace: fullPath } = await app().make.project({}, owner);
    const abort = new AbortController();
    const updates = await api.subscribe(FollowExportDocument, { fullPath }, abort.signal);
    for (let round = 0; round < 3; round++) {
      collectGarbage();
      await setImmediate();
    }
    await api.graphql(StartExportDocument, { projectPath: fullPath });
    const seen: unknown[] = [];
    for await (const { projectExportUpdated } of updates) {
      seen.push(projectExportUpdated?.status);
      if (seen.at(-1) === 'FINISHED') break;
    }
    abort.abort();
    expect(seen).toContain('FINISHED');
  });
});
