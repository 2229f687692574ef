import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();

const encoded = (path: string) => encodeURIComponent(path);
const kindsOf = async (projectId: number) =>
  (
    await app()
      .hub.services.db.selectFrom('events')
      .select('kind')
      .where('subject_type', '=', 'Project')
      .where('subject_id', '=', projectId)
      .orderBy('id')
      .execute()
  ).map((each) => each.kind);

describe('GET /projects/:id', () => {
  it('finds a project by number and by path in any case', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ path: 'Found.It' }, user);
    const client = app().as(user);
    for (const id of [
      project.id,
      encoded(project.path_with_namespace),
      encoded(project.path_with_namespace.toLowerCase()),
    ]) {
      expect((await client.get(`/projects/${id}`)).body.id).toBe(project.id);
    }
    const head = await client.head(`/projects/${project.id}`);
    expect([head.status, head.body]).toEqual([200, '']);
    const unknown = { status: 404, body: { message: '404 Project Not Found' } };
    expect(
      await app()
        .as(await app().make.user())
        .get(`/projects/${project.id}`),
    ).toMatchObject(unknown);
    expect(await app().anonymous.get(`/projects/${project.id}`)).toMatchObject(unknown);
    expect(await client.get('/projects/no%2Fwhere')).toMatchObject(unknown);
    expect(await client.get('/projects/99999999999999')).toMatchObject(unknown);
  });

  it('shows permissions by project and by group', async () => {
    const { make } = app();
    const [owner, member] = [await make.user(), await make.user()];
    const group = await make.group({}, owner);
    const project = await make.project({ namespace_id: group.id }, owner);
    await make.groupMember(group, member, 20);
    await make.projectMember(project, member, 30);
    const { permissions, runners_token } = (await app().as(member).get(`/projects/${project.id}`)).body;
    expect(permissions).toMatchObject({ project_access: { access_level: 30 }, group_access: { access_level: 20 } });
    expect(runners_token).toBeUndefined();
    expect((await app().as(app().root).get(`/projects/${project.id}`)).body).toMatchObject({
      permissions: { project_access: null },
      repository_storage: 'default',
    });
  });
});

describe('PUT /projects/:id', () => {
  it('changes settings and reports the changes', async () => {
    const user = await app().make.user();
    const project = await app().make.project({}, user);
    const { status, body } = await app()
      .as(user)
      .put(`/projects/${project.id}`, {
        description: 'new',
        only_allow_merge_if_pipeline_succeeds: true,
        jobs_enabled: 0,
        topics: ['x'],
      });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      description: 'new',
      only_allow_merge_if_pipeline_succeeds: true,
      builds_access_level: 'disabled',
      jobs_enabled: false,
      topics: ['x'],
    });
    const event = await app()
      .hub.services.db.selectFrom('events')
      .select('payload')
      .where('kind', '=', 'project.updated')
      .where('subject_id', '=', project.id)
      .executeTakeFirstOrThrow();
    expect(event.payload).toMatchObject({
      changes: {
        description: { previous: null, current: 'new' },
        builds_access_level: { previous: 'enabled', current: 'disabled' },
        topics: { previous: [], current: ['x'] },
      },
    });
    await app().as(user).put(`/projects/${project.id}`, { description: 'new' });
    expect((await kindsOf(project.id)).filter((kind) => kind === 'project.updated')).toHaveLength(1);
    expect((await app().as(user).put(`/projects/${project.id}`, { description: null })).body.description).toBeNull();
  });

  it('renames the project, and redirects from the old path', async () => {
    const user = await app().make.user();
    const client = app().as(user);
    const project = await app().make.project({ path: 'before' }, user);
    expect((await client.put(`/projects/${project.id}`, { path: 'after', name: 'After' })).body).toMatchObject({
      path_with_namespace: `${user.username}/after`,
      name: 'After',
    });
    const old = encoded(`${user.username}/before`);
    const moved = await client.get(`/projects/${old}?statistics=true`);
    expect([moved.status, moved.headers.get('location')]).toEqual([
      301,
      `${app().url}/api/v4/projects/${project.id}?statistics=true`,
    ]);
    expect(moved.headers.get('content-type')).toMatch(/^text\/plain/);
    expect((await client.put(`/projects/${old}`, { description: 'x' })).status).toBe(404);
    expect(
      (
        await app()
          .as(await app().make.user())
          .get(`/projects/${old}`)
      ).status,
    ).toBe(404);
    const successor = await app().make.project({ path: 'before' }, user);
    expect((await client.get(`/projects/${old}`)).body.id).toBe(successor.id);
    expect(await client.put(`/projects/${project.id}`, { path: 'Before' })).toMatchObject({
      status: 400,
      body: { message: { path: ['has already been taken'] } },
    });
    const { body } = await client.get(`/projects/${project.id}`);
    expect(body.path).toBe('after');
  });

  it('changes the default branch only to an existing branch', async () => {
    const user = await app().make.user();
    const client = app().as(user);
    const empty = await app().make.project({}, user);
    expect((await client.put(`/projects/${empty.id}`, { default_branch: 'trunk' })).body.default_branch).toBe('trunk');
    const full = await app().make.project({ initialize_with_readme: true }, user);
    expect(await client.put(`/projects/${full.id}`, { default_branch: 'nowhere' })).toMatchObject({
      status: 400,
      body: { message: { base: ["Could not change HEAD: branch 'nowhere' does not exist"] } },
    });
    expect((await client.get(`/projects/${full.id}`)).body.default_branch).toBe('main');
  });

  it('requires the role', async () => {
    const { make } = app();
    const owner = await make.user();
    const project = await make.project({ visibility: 'internal' }, owner);
    const at = async (level: number | null): Promise<TestUser> => {
      const user = await make.user();
      if (level !== null) await make.projectMember(project, user, level);
      return user;
    };
    const put = async (user: TestUser, body: Record<string, unknown>) =>
      (await app().as(user).put(`/projects/${project.id}`, body)).status;
    expect(await put(await at(null), { description: 'x' })).toBe(403);
    expect(await put(await at(30), { description: 'x' })).toBe(403);
    const maintainer = await at(40);
    expect(await put(maintainer, { visibility: 'private' })).toBe(403);
    expect(await put(maintainer, { description: 'by the maintainer' })).toBe(200);
    expect((await app().anonymous.put(`/projects/${project.id}`, { description: 'x' })).status).toBe(401);
    expect((await app().as(owner).get(`/projects/${project.id}`)).body).toMatchObject({
      description: 'by the maintainer',
      visibility: 'internal',
    });
    expect(await put(owner, { visibility: 'private' })).toBe(200);
  });
});

describe('archive, star and delete', () => {
  it('archives and unarchives', async () => {
    const { make } = app();
    const [owner, maintainer] = [await make.user(), await make.user()];
    const project = await make.project({}, owner);
    await make.projectMember(project, maintainer, 40);
    expect((await app().as(maintainer).post(`/projects/${project.id}/archive`)).status).toBe(403);
    const archived = await app().as(owner).post(`/projects/${project.id}/archive`);
    expect(archived).toMatchObject({ status: 201, body: { archived: true, can_create_merge_request_in: false } });
    expect((await app().as(owner).post(`/projects/${project.id}/archive`)).status).toBe(201);
    expect((await app().as(owner).post(`/projects/${project.id}/unarchive`)).body.archived).toBe(false);
    expect(await kindsOf(project.id)).toEqual(['project.created', 'project.archived', 'project.unarchived']);
  });

  it('counts each star once', async () => {
    const { make } = app();
    const [owner, fan] = [await make.user(), await make.user()];
    const project = await make.project({ visibility: 'internal' }, owner);
    const client = app().as(fan);
    expect(await client.post(`/projects/${project.id}/star`)).toMatchObject({ status: 201, body: { star_count: 1 } });
    expect((await client.post(`/projects/${project.id}/star`)).status).toBe(304);
    expect((await app().anonymous.post(`/projects/${project.id}/star`)).status).toBe(401);
    expect((await client.get(`/projects/${project.id}`)).body.star_count).toBe(1);
    expect(await client.post(`/projects/${project.id}/unstar`)).toMatchObject({ status: 201, body: { star_count: 0 } });
    expect((await client.post(`/projects/${project.id}/unstar`)).status).toBe(304);
  });

  it('deletes the repository and the files too', async () => {
    const { make } = app();
    const [owner, maintainer] = [await make.user(), await make.user()];
    const { services } = app().hub;
    const project = await make.project({ initialize_with_readme: true, visibility: 'public' }, owner);
    await make.projectMember(project, maintainer, 40);
    const { disk_path } = await services.db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    expect((await app().as(maintainer).delete(`/projects/${project.id}`)).status).toBe(403);
    expect((await app().anonymous.delete(`/projects/${project.id}`)).status).toBe(401);
    expect(await services.git.exists(disk_path)).toBe(true);
    expect(await app().as(owner).delete(`/projects/${project.id}`)).toMatchObject({
      status: 202,
      body: { message: '202 Accepted' },
    });
    expect((await app().as(owner).get(`/projects/${project.id}`)).status).toBe(404);
    await app().settle();
    expect(await services.git.exists(disk_path)).toBe(false);
    expect((await kindsOf(project.id)).at(-1)).toBe('project.deleted');
  });
});

it('updates last_activity_at on activity, but not on a star', async () => {
  const user = await app().make.user();
  const project = await app().make.project({}, user);
  const { db } = app().hub.services;
  await app().settle();
  await db
    .updateTable('projects')
    .set({ last_activity_at: '2020-01-01T00:00:00Z' })
    .where('id', '=', project.id)
    .execute();
  const before = (await app().as(user).get(`/projects/${project.id}`)).body.last_activity_at;
  await app().as(user).post(`/projects/${project.id}/star`);
  await app().settle();
  expect((await app().as(user).get(`/projects/${project.id}`)).body.last_activity_at).toBe(before);
  await app().as(user).put(`/projects/${project.id}`, { description: 'active' });
  await app().settle();
  const { last_activity_at } = (await app().as(user).get(`/projects/${project.id}`)).body;
  expect(Date.parse(last_activity_at)).toBeGreaterThan(Date.parse(before));
});
