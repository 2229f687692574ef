import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

describe('POST /projects', () => {
  it('creates a project in the personal namespace with the full record', async () => {
    const user = await app().make.user();
    const { status, body } = await app()
      .as(user)
      .post('/projects', { name: 'My first project', description: 'a <b> & c' });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      name: 'My first project',
      path: 'my-first-project',
      path_with_namespace: `${user.username}/my-first-project`,
      name_with_namespace: `${user.username} / My first project`,
      visibility: 'private',
      default_branch: 'main',
      packages_enabled: true,
      empty_repo: true,
      description_html: '<p dir="auto">a <b> &amp; c</b></p>',
      creator_id: user.id,
      import_status: 'none',
      issues_enabled: true,
      owner: { id: user.id },
      namespace: { kind: 'user', full_path: user.username, web_url: `${app().url}/${user.username}` },
      permissions: { project_access: { access_level: 50, notification_level: 3 }, group_access: null },
      _links: { self: `${app().url}/api/v4/projects/${body.id}` },
    });
    expect(body.runners_token).toMatch(/^GR1348941/);
    const row = await app()
      .hub.services.db.selectFrom('projects')
      .select('disk_path')
      .where('id', '=', body.id)
      .executeTakeFirstOrThrow();
    expect(row.disk_path).toMatch(/^@hashed\/[0-9a-f]{2}\/[0-9a-f]{2}\/[0-9a-f]{64}\.git$/);
    expect(await app().hub.services.git.isEmpty(row.disk_path)).toBe(true);
    expect(await app().hub.services.git.head(row.disk_path)).toBe('main');
    const protection = await app()
      .hub.services.db.selectFrom('protected_branches as b')
      .innerJoin('protection_levels as l', 'l.protected_branch_id', 'b.id')
      .select(['b.name', 'l.action', 'l.access_level'])
      .where('b.project_id', '=', body.id)
      .orderBy('l.action')
      .execute();
    expect(protection).toEqual([
      { name: 'main', action: 'merge', access_level: 40 },
      { name: 'main', action: 'push', access_level: 40 },
    ]);
  });

  it('accepts all settings and their older names, and adds a readme', async () => {
    const user = await app().make.user();
    const { status, body } = await app()
      .as(user)
      .post('/projects', {
        path: 'with-readme',
        visibility: 'public',
        default_branch: 'trunk',
        initialize_with_readme: 'True',
        topics: 'one,two',
        wiki_enabled: false,
        snippets_enabled: 'true',
        snippets_access_level: 'private',
        merge_method: 'ff',
        squash_option: 'always',
        build_timeout: '7200',
        ci_config_path: 'ci.yml',
        emails_disabled: true,
        container_expiration_policy: { enabled: true, keep_n: 5 },
      });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      name: 'with-readme',
      visibility: 'public',
      default_branch: 'trunk',
      empty_repo: false,
      readme_url: `${app().url}/${user.username}/with-readme/-/blob/trunk/README.md`,
      topics: ['one', 'two'],
      tag_list: ['one', 'two'],
      wiki_enabled: false,
      wiki_access_level: 'disabled',
      snippets_access_level: 'private',
      merge_method: 'ff',
      squash_option: 'always',
      build_timeout: 7200,
      ci_config_path: 'ci.yml',
      emails_enabled: false,
      emails_disabled: true,
      container_expiration_policy: { enabled: true, keep_n: 5, cadence: '1d' },
    });
    const { body: read } = await app().as(user).get(`/projects/${body.id}?statistics=true`);
    expect(read.statistics).toMatchObject({ commit_count: 1 });
    expect(read.statistics.storage_size).toBe(read.statistics.repository_size);
    expect(read.statistics.repository_size).toBeGreaterThan(0);
  });

  it('writes the readme with the commit email of its author', async () => {
    const user = await app().make.user({ commit_email: '_private' });
    const project = await app().make.project({ initialize_with_readme: true }, user);
    const { body } = await app().as(user).get(`/projects/${project.id}/repository/branches/main`);
    expect(body.commit.author_email).toBe(`${user.id}-${user.username}@users.noreply.127.0.0.1`);
  });

  it('refuses taken names and paths, and changes nothing', async () => {
    const user = await app().make.user();
    await app().make.project({ name: 'Taken', path: 'taken' }, user);
    const again = await app().as(user).post('/projects', { name: 'TAKEN', path: 'Taken' });
    expect(again).toMatchObject({
      status: 400,
      body: { message: { name: ['has already been taken'], path: ['has already been taken'] } },
    });
    const { body: list } = await app().as(user).get(`/users/${user.id}/projects`);
    expect(list).toHaveLength(1);
  });

  it.each([
    [{}, { error: 'name, path are missing, at least one parameter must be provided' }],
    [{ name: '' }, { message: '400 Bad request - name or path is missing' }],
    [{ name: '!' }, { message: { name: [expect.stringContaining('can contain only')], path: ["can't be blank"] } }],
    [{ path: 'x.git' }, { message: { path: [expect.stringContaining('can contain only')] } }],
    [{ path: 'tree' }, { message: { path: ['tree is a reserved name'] } }],
    [
      { path: 'ok', visibility: 'secret' },
      { error: 'visibility does not have a valid value (allowed: private, internal, public)' },
    ],
    [
      { path: 'ok', merge_method: 'squash' },
      { error: 'merge_method does not have a valid value (allowed: merge, rebase_merge, ff)' },
    ],
    [{ path: 'ok', build_timeout: 1 }, { message: { build_timeout: ['must be greater than or equal to 600'] } }],
    [{ path: 'ok', default_branch: 'a..b' }, { message: { default_branch: ['is invalid'] } }],
    [{ path: 'ok', lfs_enabled: 'maybe' }, { error: 'lfs_enabled is invalid (allowed: true, false)' }],
  ])('refuses %j', async (input, body) => {
    const user = await app().make.user();
    expect(await app().as(user).post('/projects', input)).toMatchObject({ status: 400, body });
    expect((await app().as(user).get('/projects?owned=true')).body).toEqual([]);
  });

  it.each(['../x.yml', 'ci/../../x.yml', '/x.yml', '../x.yml@group/project'])(
    'refuses the CI file %s',
    async (path) => {
      const user = await app().make.user();
      const { status, body } = await app().as(user).post('/projects', { path: 'ok', ci_config_path: path });
      const message = { ci_config_path: ['cannot include leading slash or directory traversal.'] };
      expect([status, body]).toEqual([400, { message }]);
      expect((await app().as(user).get('/projects?owned=true')).body).toEqual([]);
    },
  );

  it('requires authentication and the scope', async () => {
    const user = await app().make.user();
    expect((await app().anonymous.post('/projects', { path: 'x' })).status).toBe(401);
    expect((await app().as(user, ['read_api']).post('/projects', { path: 'x' })).status).toBe(403);
  });

  it('follows the project creation level of the group', async () => {
    const { make } = app();
    const group = await make.group({ project_creation_level: 'maintainer', visibility: 'public' });
    const [developer, maintainer, stranger] = [await make.user(), await make.user(), await make.user()];
    await make.groupMember(group, developer, 30);
    await make.groupMember(group, maintainer, 40);
    const create = (user: typeof developer, path: string) =>
      app().as(user).post('/projects', { path, namespace_id: group.id });
    expect((await create(stranger, 'a')).status).toBe(403);
    expect((await create(developer, 'b')).status).toBe(403);
    const { status, body } = await create(maintainer, 'c');
    expect(status).toBe(201);
    expect(body.permissions).toEqual({
      project_access: null,
      group_access: { access_level: 40, notification_level: 3 },
    });
    const hidden = await make.group({ visibility: 'private' });
    expect(await app().as(stranger).post('/projects', { path: 'd', namespace_id: hidden.id })).toMatchObject({
      status: 404,
      body: { message: '404 Namespace Not Found' },
    });
    expect(await app().as(stranger).post('/projects', { path: 'd', namespace_id: hidden.full_path })).toMatchObject({
      status: 404,
    });
  });

  it('refuses a visibility above that of the group', async () => {
    const group = await app().make.group({ visibility: 'internal' });
    const root = app().as(app().root);
    expect(await root.post('/projects', { path: 'p', namespace_id: group.id, visibility: 'public' })).toMatchObject({
      status: 400,
      body: { message: { visibility_level: ['public is not allowed since the group is internal.'] } },
    });
    expect(
      (await root.post('/projects', { path: 'p', namespace_id: group.id, visibility: 'internal' })).body.visibility,
    ).toBe('internal');
  });

  it('counts against the limit of the owner', async () => {
    const user = await app().make.user({ projects_limit: 1 });
    await app().make.project({}, user);
    expect(await app().as(user).post('/projects', { path: 'second' })).toMatchObject({
      status: 400,
      body: { message: { limit_reached: [expect.stringContaining('Your project limit is 1 projects!')] } },
    });
  });

  it('lets administrators create projects for other users', async () => {
    const user = await app().make.user();
    const made = await app().as(app().root).post(`/projects/user/${user.id}`, { name: 'gift' });
    expect(made).toMatchObject({
      status: 201,
      body: { path_with_namespace: `${user.username}/gift`, creator_id: user.id },
    });
    expect((await app().as(user).post(`/projects/user/${user.id}`, { name: 'gift2' })).status).toBe(403);
  });

  it('emits an event with the documented payload', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ name: 'Evented' }, user);
    const event = await app()
      .hub.services.db.selectFrom('events')
      .selectAll()
      .where('kind', '=', 'project.created')
      .where('subject_id', '=', project.id)
      .executeTakeFirstOrThrow();
    expect(event).toMatchObject({ actor_id: user.id, project_id: project.id });
    expect(event.payload).toMatchObject({ name: 'Evented', hook_only: { owners: [{ email: '[REDACTED]' }] } });
  });

  it('gives a path to only one of several concurrent requests', async () => {
    const user = await app().make.user();
    const answers = await Promise.all([1, 2, 3, 4].map(() => app().as(user).post('/projects', { path: 'race' })));
    expect(answers.map((each) => each.status).sort()).toEqual([201, 400, 400, 400]);
  });
});
