import { Readable } from 'node:stream';
import { createClient } from 'graphql-sse';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { runRelationImport } from '#domains/transfers/relation-imports/run.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { fixtureFiles, packFiles, packProject } from './archive.ts';

const app = useApp();

const send = (user: TestUser, bytes: Buffer, fields: Readonly<Record<string, string>>) => {
  const form = new FormData();
  form.set('file', new Blob([new Uint8Array(bytes)], { type: 'application/gzip' }), 'export.tar.gz');
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  return app().as(user).post('/projects/import-relation', form);
};
const importInto = async (user: TestUser, bytes: Buffer, path: string, relation: string) => {
  const { status, body } = await send(user, bytes, { path, relation });
  expect(status, JSON.stringify(body)).toBe(201);
  expect(body).toEqual({ id: expect.any(Number), project_path: path, relation, status: 'created' });
  await app().settle();
};
const statusesOf = async (user: TestUser, id: number) =>
  (await app().as(user).get(`/projects/${id}/relation-imports`)).body;
const titles = async (user: TestUser, path: string) =>
  (await app().as(user).get(`${path}?sort=asc&order_by=created_at`)).body.map(
    ({ iid, title }: { iid: number; title: string }) => `${iid} ${title}`,
  );

const issue = (iid: number, title: string) => ({ iid, title, created_at: `2026-01-0${iid}T00:00:00Z` });
const archiveOf = () =>
  packProject({
    labels: [{ title: 'not imported', color: '#ff0000' }],
    issues: [issue(1, 'Taken here'), issue(2, 'Two'), issue(5, 'Five'), '{"broken', { iid: 6 }],
    milestones: [
      { iid: 1, title: 'v1' },
      { iid: 4, title: 'v4' },
    ],
    merge_requests: [{ iid: 3, title: 'Request', source_branch: 'a', target_branch: 'main', author_id: 1 }],
    ci_pipelines: [
      { iid: 2, ref: 'main', sha: 'b'.repeat(40), status: 'success', stages: [] },
      { ref: 'main', sha: 'c'.repeat(40), status: 'success', created_at: '2026-01-01T00:00:00.123Z' },
    ],
  });

describe('an import of a single relation', () => {
  it('adds the records that the project lacks, and nothing the second time', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await app().as(owner).post(`/projects/${project.id}/issues`, { title: 'Mine' });
    const path = project.path_with_namespace;
    const archive = await archiveOf();
    for (let round = 0; round < 2; round++)
      for (const relation of ['issues', 'milestones', 'merge_requests', 'ci_pipelines'])
        await importInto(owner, archive, path, relation);
    const base = `/projects/${project.id}`;
    expect(new Set(await titles(owner, `${base}/issues`))).toEqual(new Set(['1 Mine', '2 Two', '5 Five']));
    expect((await app().as(owner).get(`${base}/milestones`)).body).toHaveLength(2);
    expect(await titles(owner, `${base}/merge_requests`)).toEqual(['3 Request']);
    expect((await app().as(owner).get(`${base}/pipelines`)).body).toHaveLength(2);
    expect((await app().as(owner).get(`${base}/labels`)).body).toEqual([]);
    const statuses = await statusesOf(owner, project.id);
    expect(statuses).toHaveLength(8);
    expect(statuses[0]).toEqual({
      id: expect.any(Number),
      project_path: path,
      relation: 'ci_pipelines',
      status: 'finished',
      created_at: expect.any(String),
      updated_at: expect.any(String),
    });
    // The next issue gets a number above all of the archive.
    expect((await app().as(owner).post(`${base}/issues`, { title: 'Next' })).body.iid).toBe(7);
    expect((await app().as(owner).get(base)).body.open_issues_count).toBe(4);
    const failures = (await app().as(owner).get(`${base}/import`)).body.failed_relations;
    expect(failures.map((each: { line_number: number }) => each.line_number).sort()).toEqual([3, 3, 4, 4]);
    const { data } = await app()
      .as(owner)
      .graphql(
        `query ($path: ID!) { project(fullPath: $path) {
          relationImports(last: 1) { nodes { relation status done total skipped error createdAt finishedAt } } } }`,
        { path },
      );
    expect(data.project.relationImports.nodes).toMatchObject([
      { relation: 'ISSUES', status: 'FINISHED', done: 5, total: 5, skipped: 1, error: null },
    ]);
    const keys: string[] = [];
    for await (const { key } of app().hub.services.storage.list('')) keys.push(key);
    expect(keys).toEqual([]);
  });

  it('refuses numbers that would use up those of the project', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const request = { source_branch: 'a', target_branch: 'main' };
    const archive = await packProject({
      issues: [issue(1, 'One'), { iid: '1', title: 'Again' }, { iid: 2_000_000_000, title: 'Far' }],
      merge_requests: [{ iid: 2_147_483_647, title: 'Far', ...request }],
      ci_pipelines: [{ iid: 1_000_000_001, ref: 'main', sha: 'c'.repeat(40), status: 'success' }],
      milestones: [{ iid: 2_147_483_647, title: 'Numbered anew' }],
    });
    for (const relation of ['issues', 'milestones', 'merge_requests', 'ci_pipelines'])
      await importInto(owner, archive, project.path_with_namespace, relation);
    const base = `/projects/${project.id}`;
    expect(await titles(owner, `${base}/issues`)).toEqual(['1 One']);
    expect(await titles(owner, `${base}/milestones`)).toEqual(['1 Numbered anew']);
    for (const list of ['merge_requests', 'pipelines'])
      expect((await app().as(owner).get(`${base}/${list}`)).body).toEqual([]);
    expect((await app().as(owner).post(`${base}/issues`, { title: 'Next' })).body.iid).toBe(2);
    const failures: Record<string, unknown>[] = (await app().as(owner).get(`${base}/import`)).body.failed_relations;
    expect(failures.map((each) => `${String(each.relation_name)} ${String(each.line_number)}`).sort()).toEqual([
      'ci_pipelines 0',
      'issues 1',
      'issues 2',
      'merge_requests 0',
    ]);
    expect(failures.at(-1)?.exception_message).toMatch(/iid/);
  });

  it('imports each relation of an archive of a real platform once', async () => {
    const files = fixtureFiles();
    if (!files) return;
    const project = await app().make.project({}, app().root);
    const archive = await packFiles(files);
    const count = async (relation: string) => {
      await importInto(app().root, archive, project.path_with_namespace, relation);
      const { rows } = await sql<{ n: number }>`select
        (select count(*) from issues where project_id = ${project.id})
        + (select count(*) from pipelines where project_id = ${project.id}) as n`.execute(app().hub.services.db);
      return rows[0]?.n;
    };
    for (const relation of ['issues', 'ci_pipelines']) {
      const first = await count(relation);
      expect(first).toBeGreaterThan(0);
      expect(await count(relation)).toBe(first);
    }
  });

  it('can be followed', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const path = project.path_with_namespace;
    const client = createClient({
      url: `${app().url}/api/graphql`,
      headers: await app().as(owner).headers(),
      retryAttempts: 0,
    });
    const updates: Record<string, unknown>[] = [];
    client.subscribe<{ relationImportUpdated: Record<string, unknown> }>(
      {
        query: `subscription ($path: ID!, $after: String) { relationImportUpdated(fullPath: $path, after: $after) {
          cursor at importId relation status done total skipped error } }`,
        variables: { path },
      },
      {
        next: ({ data }) => {
          if (data) updates.push(data.relationImportUpdated);
        },
        error: () => {},
        complete: () => {},
      },
    );
    await app().as(owner).get('/version');
    await importInto(owner, await archiveOf(), path, 'milestones');
    await until('the import has finished', () => updates.some(({ status }) => status === 'FINISHED'));
    expect(updates[0]).toMatchObject({ status: 'CREATED', relation: 'MILESTONES', error: null });
    expect(updates.at(-1)).toMatchObject({ done: 2, total: 2, skipped: 0 });
    client.dispose();
  });
});

describe('relation imports', () => {
  it('run one at a time, and are taken over from a process that died', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const path = project.path_with_namespace;
    const { services } = app().hub;
    await services.db
      .insertInto('relation_imports')
      .values({ project_id: project.id, user_id: owner.id, relation: 'issues', status: 'started', attempt: 1 })
      .execute();
    expect((await send(owner, await archiveOf(), { path, relation: 'issues' })).status).toBe(409);
    const key = 'tmp/uploads/of-a-relation';
    await services.storage.write(key, Readable.from([await archiveOf()]));
    const row = await services.db
      .updateTable('relation_imports')
      .set({ storage_key: key })
      .where('project_id', '=', project.id)
      .returning('id')
      .executeTakeFirstOrThrow();
    const run = { attempt: 2, lastAttempt: false };
    // Both attempts start, and only the newer one can write.
    await Promise.all([
      runRelationImport(app().context(), row.id, run),
      runRelationImport(app().context(), row.id, run),
    ]);
    expect(await statusesOf(owner, project.id)).toMatchObject([{ status: 'finished' }]);
    expect((await app().as(owner).get(`/projects/${project.id}/issues`)).body).toHaveLength(3);
  });

  it('fail with a reason if the archive cannot be read', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await importInto(owner, Buffer.from('nothing'), project.path_with_namespace, 'issues');
    expect(await statusesOf(owner, project.id)).toMatchObject([{ status: 'failed' }]);
    const { error } = await app()
      .hub.services.db.selectFrom('relation_imports')
      .select('error')
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow();
    expect(error).toMatch(/^[A-Z][^\n]{10,200}\.$/);
  });

  it('are for Maintainers, and hidden from strangers', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'private' }, owner);
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    const stranger = await app().make.user();
    const archive = await archiveOf();
    const fields = { path: project.path_with_namespace, relation: 'issues' };
    expect((await send(developer, archive, fields)).status).toBe(403);
    expect((await send(stranger, archive, fields)).status).toBe(404);
    expect((await send(owner, archive, { ...fields, relation: 'labels' })).status).toBe(400);
    expect((await app().as(developer).get(`/projects/${project.id}/relation-imports`)).status).toBe(403);
    expect((await app().as(stranger).get(`/projects/${project.id}/relation-imports`)).status).toBe(404);
    expect((await app().as(owner).post(`/projects/${project.id}/archive`)).status).toBe(201);
    expect((await send(owner, archive, fields)).status).toBe(403);
    expect(await statusesOf(owner, project.id)).toEqual([]);
    const { data } = await app()
      .as(developer)
      .graphql(`query ($path: ID!) { project(fullPath: $path) { relationImports { nodes { id } } } }`, {
        path: project.path_with_namespace,
      });
    expect(data.project.relationImports).toBeNull();
  });
});
