import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createClient } from 'graphql-sse';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { mutate } from '../support/graphql.ts';
import { until } from '../support/until.ts';
import { packProject, unpackFiles } from './archive.ts';
import { fillProject, importArchive } from './support.ts';

const app = useApp();

interface Update {
  readonly cursor: string;
  readonly status: string;
  readonly progress: number;
  readonly relations: readonly { name: string; done: number; total: number }[];
}

const FIELDS = 'cursor status progress bytes error relations { name done total }';

/** Follows a subscription. Returns the updates and failures so far, and a function to close it. */
const follow = async (user: { id: number; username: string }, field: string, fullPath: string, after?: string) => {
  const client = createClient({
    url: `${app().url}/api/graphql`,
    headers: await app().as(user).headers(),
    retryAttempts: 0,
  });
  const updates: Update[] = [];
  const failures: unknown[] = [];
  client.subscribe<Record<string, Update>>(
    {
      query: `subscription($p: ID!, $a: String) { ${field}(fullPath: $p, after: $a) { ${FIELDS} } }`,
      variables: { p: fullPath, a: after },
    },
    {
      next: ({ data, errors }) => {
        const update = data?.[field];
        if (update) updates.push(update);
        if (errors) failures.push(errors);
      },
      error: (error) => failures.push(error),
      complete: () => {},
    },
  );
  return { updates, failures, close: () => client.dispose() };
};

describe('progress', () => {
  it('can be followed live for an export and an import, and again from a cursor', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    await fillProject(app(), project.id, owner);
    const stream = await follow(owner, 'projectExportUpdated', project.path_with_namespace);
    await app().as(owner).get('/version');
    const { data } = await app()
      .as(owner)
      .graphql(
        'mutation($i: ProjectExportInput!) { projectExport(input: $i) { errors export { status } project { fullPath } } }',
        { i: { projectPath: project.path_with_namespace } },
      );
    expect(data.projectExport.errors).toEqual([]);
    expect(['QUEUED', 'STARTED']).toContain(data.projectExport.export.status);
    await until('the export is told to be finished', () => stream.updates.some(({ status }) => status === 'FINISHED'));
    const { updates } = stream;
    expect(updates.map((each) => each.progress)).toEqual(
      updates.map((each) => each.progress).toSorted((a, b) => a - b),
    );
    expect(updates.at(-1)).toMatchObject({ progress: 100 });
    expect(updates.at(-1)?.relations.find(({ name }) => name === 'issues')).toEqual({
      name: 'issues',
      done: 7,
      total: 7,
    });
    stream.close();

    const again = await follow(owner, 'projectExportUpdated', project.path_with_namespace, updates[0]?.cursor);
    await until('the rest has come again', () => again.updates.length === updates.length - 1);
    expect(again.updates).toEqual(updates.slice(1));
    again.close();

    const archive = Buffer.from(
      await (await app().as(owner).fetch('GET', `/projects/${project.id}/export/download`)).arrayBuffer(),
    );
    const started = await importArchive(app(), owner, archive, { path: 'followed' });
    const imported = await follow(
      owner,
      'projectImportUpdated',
      started.body.path_with_namespace,
      updates.at(-1)?.cursor,
    );
    await until('the import is told to be finished', () =>
      imported.updates.some(({ status }) => status === 'FINISHED'),
    );
    expect(imported.updates.at(0)).toMatchObject({ status: 'SCHEDULED', progress: 0 });
    expect(imported.updates.at(-1)).toMatchObject({ status: 'FINISHED', progress: 100 });
    for (const { done, total } of imported.updates.at(-1)?.relations ?? []) expect(done).toBe(total);
    imported.close();
    const { data: read } = await app()
      .as(owner)
      .graphql(
        'query($p: ID!) { project(fullPath: $p) { importStatus import { status type progress relations { name done total } failedRelations { count nodes { lineNumber } } } } }',
        { p: started.body.path_with_namespace },
      );
    expect(read.project).toMatchObject({
      importStatus: 'finished',
      import: { status: 'FINISHED', type: 'gitlab_project', progress: 100, failedRelations: { count: 0, nodes: [] } },
    });
  });

  it('is refused to users who may not export', async () => {
    const owner = await app().make.user();
    const reporter = await app().make.user();
    const project = await app().make.project({}, owner);
    await app().make.projectMember(project, reporter, 20);
    for (const user of [reporter, await app().make.user()]) {
      const stream = await follow(user, 'projectExportUpdated', project.path_with_namespace);
      await until('it is refused', () => stream.failures.length > 0);
      stream.close();
    }
    const { data } = await app()
      .as(reporter)
      .graphql('query($p: ID!) { project(fullPath: $p) { export { status } } }', { p: project.path_with_namespace });
    expect(data.project.export).toBeNull();
  });

  it('is followed at the final path if an import replaces a project', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const before = await follow(owner, 'events', project.path_with_namespace).catch(() => null);
    before?.close();
    const started = await importArchive(
      app(),
      owner,
      await packProject({ labels: [{ title: 'a', color: '#ff0000' }] }),
      { path: project.path, overwrite: 'true' },
    );
    expect(started.status).toBe(201);
    const stream = await follow(owner, 'projectImportUpdated', project.path_with_namespace, await firstCursor());
    await until('it is told to be finished', () => stream.updates.some(({ status }) => status === 'FINISHED'));
    stream.close();
  });
});

const firstCursor = async (): Promise<string> => {
  const { encodeCursor } = await import('#platform/cursor.ts');
  return encodeCursor([1]);
};

describe('upload', () => {
  it('sends the finished archive to the given URL with the given method', async () => {
    const received: {
      method: string | undefined;
      type: string | undefined;
      length: string | undefined;
      body: Buffer;
    }[] = [];
    const server = createServer(async (request, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk);
      received.push({
        method: request.method,
        type: request.headers['content-type'],
        length: request.headers['content-length'],
        body: Buffer.concat(chunks),
      });
      const isBusy = request.url === '/busy' && received.length < 3;
      response.writeHead(request.url === '/refuses' ? 403 : isBusy ? 503 : 200).end();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address: AddressInfo | string | null = server.address();
    const base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`;
    const root = app().as(app().root);
    const project = await app().make.project();
    const export_ = (url: string, method?: string) =>
      root.post(`/projects/${project.id}/export`, { upload: { url, ...(method ? { http_method: method } : {}) } });
    expect((await export_(`${base}/x`)).status).toBe(400);
    await root.put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    try {
      expect((await export_(`${base}/x`, 'DELETE')).status).toBe(400);
      for (const method of [undefined, 'POST']) {
        expect((await export_(`${base}/x`, method)).status).toBe(202);
        await app().settle();
        const got = received.pop();
        expect(got).toMatchObject({
          method: method ?? 'PUT',
          type: 'application/gzip',
          length: String(got?.body.length),
        });
        expect((await unpackFiles(got?.body ?? Buffer.alloc(0))).has('tree/project.json')).toBe(true);
      }
      await mutate(root, 'projectExport', {
        projectPath: project.path_with_namespace,
        description: 'Described in the archive',
        upload: { url: `${base}/x`, httpMethod: 'POST' },
      });
      await app().settle();
      const sent = received.pop();
      expect(sent?.method).toBe('POST');
      const written = (await unpackFiles(sent?.body ?? Buffer.alloc(0))).get('tree/project.json');
      expect(JSON.parse(String(written))).toMatchObject({ description: 'Described in the archive' });
      expect((await export_(`${base}/busy`)).status).toBe(202);
      await app().settle();
      expect(received).toHaveLength(3);
      expect((await root.get(`/projects/${project.id}/export`)).body.export_error).toBeNull();
      expect((await export_(`${base}/refuses`)).status).toBe(202);
      await app().settle();
      expect((await root.get(`/projects/${project.id}/export`)).body).toMatchObject({
        export_status: 'finished',
        export_error: 'The upload failed: the server answered 403.',
      });
      // The archive can be downloaded nevertheless.
      expect((await root.get(`/projects/${project.id}/export/download`)).status).toBe(200);
      const { data } = await root.graphql('query($p: ID!) { project(fullPath: $p) { export { status error } } }', {
        p: project.path_with_namespace,
      });
      expect(data.project.export).toEqual({ status: 'FINISHED', error: 'The upload failed: the server answered 403.' });
    } finally {
      await root.put('/application/settings', { allow_local_requests_from_web_hooks_and_services: false });
      server.close();
    }
  });
});
