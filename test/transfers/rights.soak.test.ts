import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { removeFailedProjects } from '#domains/transfers/importing/leftovers.ts';
import { useApp } from '../support/app.ts';
import { untilBlocked } from '../support/locks.ts';
import { packProject } from './archive.ts';
import { downloadExport, importArchive, runImport } from './support.ts';

const app = useApp();
let count = 0;
const path = () => `place${++count}`;
const importsOf = async () =>
  Number(
    (
      await app()
        .hub.services.db.selectFrom('project_imports')
        .select(({ fn }) => fn.countAll<number>().as('n'))
        .executeTakeFirstOrThrow()
    ).n,
  );

describe('an export', () => {
  it('requires a Maintainer', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const project = await app().make.project({ namespace_id: group.id }, owner);
    const url = `/projects/${project.id}/export`;
    const developer = await app().make.user();
    const maintainer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    await app().make.projectMember(project, maintainer, 40);
    const outsider = await app().make.user();
    for (const [client, status] of [
      [app().anonymous, 401],
      [app().as(outsider), 404],
      [app().as(developer), 403],
    ] as const) {
      expect((await client.post(url)).status).toBe(status);
      expect((await client.get(url)).status).toBe(status);
      expect((await client.get(`${url}/download`)).status).toBe(status);
    }
    expect((await app().as(owner).get(url)).body.export_status).toBe('none');
    const none = await app().as(maintainer).get(`${url}/download`);
    expect([none.status, none.body]).toEqual([404, { message: '404 Not found or has expired' }]);
    const asked = await app().as(maintainer).post(url, { description: 'Another' });
    expect([asked.status, asked.body]).toEqual([202, { message: '202 Accepted' }]);
    await app().settle();
    const { body } = await app().as(maintainer).get(url);
    expect(body).toMatchObject({
      id: project.id,
      export_status: 'finished',
      path_with_namespace: project.path_with_namespace,
      _links: { api_url: `${app().url}/api/v4/projects/${project.id}/export/download` },
    });
    expect((await app().as(maintainer, ['read_api']).post(url)).status).toBe(403);
    const head = await app().as(maintainer).head(`${url}/download`);
    expect([head.status, head.headers.get('content-type')]).toEqual([200, 'application/gzip']);
  });

  it('runs one at a time, and the earlier file stays until the next one is ready', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const first = await downloadExport(app(), owner, project.id);
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => app().as(owner).post(`/projects/${project.id}/export`)),
    );
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([202]));
    const { db } = app().hub.services;
    const rows = await db.selectFrom('project_exports').select('id').where('project_id', '=', project.id).execute();
    expect(rows.length).toBeLessThan(22);
    const state = (await app().as(owner).get(`/projects/${project.id}/export`)).body;
    expect(['regeneration_in_progress', 'finished']).toContain(state.export_status);
    const during = await app().as(owner).fetch('GET', `/projects/${project.id}/export/download`);
    expect(during.status).toBe(200);
    expect((await during.arrayBuffer()).byteLength).toBeGreaterThan(first.bytes.length / 2);
    await app().settle();
  });

  it('refuses another upload or description while one is running', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const url = `/projects/${project.id}/export`;
    const { db } = app().hub.services;
    const row = { project_id: project.id, description: 'Mine', upload_url: null, upload_method: null };
    const { id } = await db.insertInto('project_exports').values(row).returning('id').executeTakeFirstOrThrow();
    const post = async (body: Record<string, unknown>) => (await app().as(owner).post(url, body)).status;
    await app().as(app().root).put('/application/settings', {
      allow_local_requests_from_web_hooks_and_services: true,
    });
    expect(await post({})).toBe(202);
    expect(await post({ description: 'Mine' })).toBe(202);
    expect(await post({ upload: {} })).toBe(202);
    expect(await post({ upload: { http_method: 'PUT' } })).toBe(400);
    expect(await post({ description: 'Other' })).toBe(409);
    expect(await post({ description: 'Mine', upload: { url: 'http://127.0.0.1:18080/x' } })).toBe(409);
    const rows = await db.selectFrom('project_exports').select('id').where('project_id', '=', project.id).execute();
    expect(rows).toEqual([{ id }]);
    await app().as(app().root).put('/application/settings', {
      allow_local_requests_from_web_hooks_and_services: false,
    });
    await db.deleteFrom('project_exports').where('id', '=', id).execute();
  });

  it('keeps the earlier file if a later export failed, and shows the reason in GraphQL', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const { services } = app().hub;
    const { disk_path } = await services.db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    await downloadExport(app(), owner, project.id);
    await app()
      .as(owner)
      .post(`/projects/${project.id}/export`, { upload: { url: 'http://192.0.2.1/x', http_method: 'PUT' } })
      .then((answer) => {
        expect(answer.status).toBe(400);
        expect(JSON.stringify(answer.body)).toContain('upload[url]');
      });
    await services.db
      .insertInto('project_exports')
      .values({ project_id: project.id, status: 'failed', error: 'It was too large.' })
      .execute();
    expect((await app().as(owner).get(`/projects/${project.id}/export`)).body.export_status).toBe('finished');
    const { data } = await app()
      .as(owner)
      .graphql('query($p: ID!) { project(fullPath: $p) { export { status error size apiUrl } } }', {
        p: project.path_with_namespace,
      });
    expect(data.project.export).toMatchObject({
      status: 'FINISHED',
      error: 'It was too large.',
      size: expect.any(String),
    });
    expect(disk_path).toMatch(/^@hashed/);
  });

  it('can be disabled', async () => {
    const root = app().as(app().root);
    const project = await app().make.project();
    await root.put('/application/settings', { project_export_enabled: false });
    try {
      expect((await root.post(`/projects/${project.id}/export`)).status).toBe(404);
    } finally {
      await root.put('/application/settings', { project_export_enabled: true });
    }
  });
});

describe('an import', () => {
  it('requires a file, a path, and the right to create projects in the namespace', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'public' }, owner);
    const hidden = await app().make.group({ visibility: 'private' }, owner);
    const developer = await app().make.user();
    const maintainer = await app().make.user();
    await app().make.groupMember(group, developer, 30);
    await app().make.groupMember(group, maintainer, 40);
    const archive = await packProject();
    const before = await importsOf();
    const into = (namespace: { id: number }) => ({ path: path(), namespace: String(namespace.id) });
    expect((await importArchive(app(), developer, archive, into(group))).status).toBe(403);
    expect((await importArchive(app(), developer, archive, into(hidden))).status).toBe(404);
    expect((await importArchive(app(), developer, archive, { path: path(), namespace: owner.username })).status).toBe(
      403,
    );
    expect((await importArchive(app(), developer, archive, {})).status).toBe(400);
    expect((await importArchive(app(), developer, archive, { path: '../up' })).status).toBe(400);
    expect(
      (await importArchive(app(), developer, archive, { path: path(), 'override_params[merge_method]': 'never' }))
        .status,
    ).toBe(400);
    expect((await app().as(developer).post('/projects/import', { path: path() })).status).toBe(400);
    const form = new FormData();
    form.set('path', 'x');
    form.set('file', new Blob(['x']));
    expect((await app().anonymous.post('/projects/import', form)).status).toBe(401);
    expect(await importsOf()).toBe(before);
    const keys: string[] = [];
    for await (const { key } of app().hub.services.storage.list('tmp/')) keys.push(key);
    expect(keys).toEqual([]);

    const started = await importArchive(app(), maintainer, archive, {
      path: path(),
      name: 'A name',
      namespace: group.full_path,
    });
    expect(started.body).toMatchObject({
      name: 'A name',
      import_status: 'scheduled',
      correlation_id: expect.any(String),
      failed_relations: [],
    });
    const { rows } = {
      rows: await app()
        .hub.services.db.selectFrom('members')
        .select(['user_id', 'access_level'])
        .where('project_id', '=', started.body.id)
        .execute(),
    };
    expect(rows).toEqual([{ user_id: maintainer.id, access_level: 40 }]);
    await app().settle();
  });

  it('needs the role that creates projects in the group too', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const archive = await packProject();
    const developer = await app().make.user();
    const maintainer = await app().make.user();
    await app().make.groupMember(group, developer, 30);
    await app().make.groupMember(group, maintainer, 40);
    const people = [developer, maintainer, owner, app().root];
    const before = await importsOf();
    const answers: Record<string, number[]> = {};
    const shown: Record<string, boolean[]> = {};
    for (const level of ['noone', 'administrator', 'owner', 'maintainer', 'developer']) {
      await app().as(app().root).put(`/groups/${group.id}`, { project_creation_level: level });
      answers[level] = [];
      shown[level] = [];
      for (const person of people) {
        const { status } = await importArchive(app(), person, archive, { path: path(), namespace: String(group.id) });
        answers[level].push(status);
        const { data } = await app()
          .as(person)
          .graphql('query($p: ID!) { group(fullPath: $p) { userPermissions { importProjects } } }', {
            p: group.full_path,
          });
        shown[level].push(data.group.userPermissions.importProjects);
      }
    }
    expect(answers).toEqual({
      noone: [403, 403, 403, 201],
      administrator: [403, 403, 403, 201],
      owner: [403, 403, 201, 201],
      maintainer: [403, 201, 201, 201],
      developer: [403, 201, 201, 201],
    });
    expect(shown).toEqual(
      Object.fromEntries(Object.entries(answers).map(([level, all]) => [level, all.map((status) => status === 201)])),
    );
    expect(await importsOf()).toBe(before + 10);
    await app().settle();
  });

  it('shows its errors only to Maintainers', async () => {
    const { make, as, anonymous, hub } = app();
    const owner = await make.user();
    const project = await make.project({ visibility: 'public' }, owner);
    const [maintainer, developer, stranger] = [await make.user(), await make.user(), await make.user()];
    await make.projectMember(project, maintainer, 40);
    await make.projectMember(project, developer, 30);
    const { db } = hub.services;
    await db
      .insertInto('project_imports')
      .values({
        project_id: project.id,
        import_type: 'git',
        status: 'failed',
        import_error: 'a secret server is away',
        finished_at: '2026-01-02T03:04:05Z',
      })
      .execute();
    await db
      .updateTable('projects')
      .set({ import_url: 'http://elsewhere.example.com/x.git' })
      .where('id', '=', project.id)
      .execute();
    await db
      .insertInto('import_failures')
      .values({
        project_id: project.id,
        exception_class: 'E',
        exception_message: 'a secret title is too long',
        source: 's',
        relation_name: 'issues',
        line_number: 0,
      })
      .execute();
    const query = `{ project(fullPath: "${project.path_with_namespace}") {
      import { status error failedRelations { count nodes { exceptionMessage } } }
      detailedImportStatus { id status url lastError lastUpdateAt lastSuccessfulUpdateAt } } }`;
    for (const client of [as(owner), as(maintainer)]) {
      const { body } = await client.get(`/projects/${project.id}/import`);
      expect(body).toMatchObject({
        import_type: 'git',
        import_error: 'a secret server is away',
        failed_relations: [{ exception_message: 'a secret title is too long' }],
      });
      const shown = (await client.graphql(query)).data.project;
      expect(shown.detailedImportStatus).toEqual({
        id: expect.stringContaining('gid://gitlab/ProjectImportState/'),
        status: 'failed',
        url: 'http://elsewhere.example.com/x.git',
        lastError: 'a secret server is away',
        lastUpdateAt: '2026-01-02T03:04:05.000Z',
        lastSuccessfulUpdateAt: null,
      });
      expect(shown.import).toEqual({
        status: 'FAILED',
        error: 'a secret server is away',
        failedRelations: { count: 1, nodes: [{ exceptionMessage: 'a secret title is too long' }] },
      });
    }
    for (const client of [as(developer), as(stranger)]) {
      const { status, body } = await client.get(`/projects/${project.id}/import`);
      expect(status).toBe(200);
      expect(body).toMatchObject({ import_type: 'git', import_error: null, failed_relations: [] });
    }
    expect((await anonymous.get(`/projects/${project.id}/import`)).status).toBe(401);
    expect((await anonymous.graphql(query)).data.project).toEqual({ import: null, detailedImportStatus: null });
    for (const client of [as(developer), as(stranger)]) {
      const { data, errors } = await client.graphql(query);
      expect(errors).toBeUndefined();
      expect(data.project.import).toEqual({ status: 'FAILED', error: null, failedRelations: null });
      expect(data.project.detailedImportStatus).toMatchObject({ status: 'failed', url: null, lastError: null });
    }
  });

  it('succeeds once for twenty concurrent requests to one path', async () => {
    const owner = await app().make.user();
    const archive = await packProject({ issues: [{ iid: 1, title: 'One' }] });
    const place = path();
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => importArchive(app(), owner, archive, { path: place })),
    );
    expect(answers.filter((answer) => answer.status === 201)).toHaveLength(1);
    for (const answer of answers.filter(({ status }) => status !== 201)) {
      expect(answer.status).toBe(400);
      expect(answer.body.message).toMatchObject({ path: ['has already been taken'] });
    }
    await app().settle();
    const repositories = await app().as(owner).get('/projects?owned=true');
    expect(repositories.body).toHaveLength(1);
  });

  it('leaves no project behind for good if it should have replaced one and failed', async () => {
    const owner = await app().make.user();
    const { db } = app().hub.services;
    const old = await app().make.project({}, owner);
    const fail = () => runImport(app(), owner, Buffer.from('nothing'), { path: old.path, overwrite: 'true' });
    const [first, renamed, fresh] = [await fail(), await fail(), await fail()];
    await app().as(owner).put(`/projects/${renamed.id}`, { path: 'my-own-now', name: 'Mine' });
    await db
      .updateTable('project_imports')
      .set({ finished_at: sql`now() - interval '25 hours'` })
      .where('project_id', 'in', [first.id, renamed.id])
      .execute();
    await removeFailedProjects(app().context());
    await app().settle();
    const statuses = await Promise.all(
      [old, first, renamed, fresh].map(async ({ id }) => (await app().as(owner).get(`/projects/${id}`)).status),
    );
    expect(statuses).toEqual([200, 404, 200, 200]);
  });

  it('keeps the project of a failed import that is retried when it would be removed', async () => {
    const owner = await app().make.user();
    const { db } = app().hub.services;
    const old = await app().make.project({}, owner);
    const { id } = await runImport(app(), owner, Buffer.from('nothing'), { path: old.path, overwrite: 'true' });
    const finished_at = sql<string>`now() - interval '25 hours'`;
    await db.updateTable('project_imports').set({ finished_at }).where('project_id', '=', id).execute();
    const { removal } = await db.transaction().execute(async (trx) => {
      await trx.updateTable('project_imports').set({ status: 'scheduled' }).where('project_id', '=', id).execute();
      const removal = removeFailedProjects(app().context());
      await untilBlocked(app());
      return { removal };
    });
    await removal;
    expect((await app().as(owner).get(`/projects/${id}`)).status).toBe(200);
    await db.updateTable('project_imports').set({ status: 'failed' }).where('project_id', '=', id).execute();
  });

  it('replaces a project only when it is complete', async () => {
    const owner = await app().make.user();
    const old = await app().make.project({ initialize_with_readme: true, description: 'Old' }, owner);
    const url = `/projects/${encodeURIComponent(old.path_with_namespace)}`;
    const archive = await packProject({ issues: [{ iid: 3, title: 'New' }] });
    expect((await importArchive(app(), owner, archive, { path: old.path })).status).toBe(400);

    // A failed import keeps the old project.
    const failed = await runImport(app(), owner, Buffer.from('nothing'), { path: old.path, overwrite: 'true' });
    expect(failed.import_status).toBe('failed');
    expect((await app().as(owner).get(url)).body).toMatchObject({ id: old.id, description: 'Old' });

    // Nor can it take the name of a third project. The name of the old one is free.
    const third = await app().make.project({}, owner);
    const before = await importsOf();
    const named = await importArchive(app(), owner, archive, { path: old.path, name: third.name, overwrite: 'true' });
    expect([named.status, named.body]).toEqual([400, { message: { name: ['has already been taken'] } }]);
    expect(await importsOf()).toBe(before);

    // A user who may not delete the project cannot replace it.
    const group = await app().make.group({}, owner);
    const shared = await app().make.project({ namespace_id: group.id }, owner);
    const maintainer = await app().make.user();
    await app().make.groupMember(group, maintainer, 40);
    expect(
      (
        await importArchive(app(), maintainer, archive, {
          path: shared.path,
          namespace: String(group.id),
          overwrite: 'true',
        })
      ).status,
    ).toBe(403);

    const answers = await Promise.all(
      Array.from({ length: 5 }, () => importArchive(app(), owner, archive, { path: old.path, overwrite: 'true' })),
    );
    const won = answers.filter((answer) => answer.status === 201);
    expect(answers.filter(({ status }) => status !== 201 && status !== 409)).toEqual([]);
    await app().settle();
    const now = (await app().as(owner).get(url)).body;
    expect(won.map((answer) => answer.body.id)).toContain(now.id);
    expect(now).toMatchObject({
      description: 'From elsewhere',
      path: old.path,
      name: old.path,
      import_status: 'finished',
    });
    expect((await app().as(owner).get(`/projects/${old.id}`)).status).toBe(404);
    const { services } = app().hub;
    const paths = await services.db.selectFrom('projects').select('disk_path').execute();
    expect(paths.length).toBeGreaterThan(0);
  });
});
