import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private' }, owner);
  const base = `/projects/${project.id}`;
  const actions = [{ action: 'create', file_path: 'file', content: '1' }];
  await app().as(owner).post(`${base}/repository/commits`, { branch: 'main', commit_message: 'First', actions });
  return { owner, project, base, path: `${base}/protected_tags` };
};
const memberOf = async (project: { id: number }, level: number): Promise<TestUser> => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, level);
  return user;
};
const level = (access_level: number | null, access_level_description: string, user_id: number | null = null) => ({
  id: expect.any(Number),
  access_level,
  access_level_description,
  deploy_key_id: null,
  user_id,
  group_id: null,
});

describe('a protected tag', () => {
  it('is created, listed, shown and deleted', async () => {
    const { owner, project, path } = await setUp();
    const client = app().as(owner);
    const developer = await memberOf(project, 30);
    const made = await client.post(path, { name: 'v*' });
    expect([made.status, made.body]).toEqual([201, { name: 'v*', create_access_levels: [level(40, 'Maintainers')] }]);
    const other = await client.post(path, {
      name: 'release/1',
      create_access_level: 0,
      allowed_to_create: [{ user_id: developer.id }],
    });
    expect(other.body.create_access_levels).toEqual([
      level(0, 'No one'),
      level(null, `Name of ${developer.username}`, developer.id),
    ]);
    const list = await client.get(path);
    expect(list.body).toEqual([other.body, made.body]);
    expect(list.headers.get('x-total')).toBe('2');
    expect((await client.get(`${path}/release%2F1`)).body).toEqual(other.body);
    expect((await client.post(path, { name: 'v*' })).status).toBe(409);
    expect((await client.post(path, { name: 'a b' })).status).toBe(400);
    expect((await client.post(path, { name: 'x', create_access_level: 20 })).status).toBe(400);
    const stranger = await app().make.user();
    expect((await client.post(path, { name: 'x', allowed_to_create: [{ user_id: stranger.id }] })).status).toBe(422);
    expect((await client.post(path, { name: 'x', allowed_to_create: [{}] })).status).toBe(400);
    expect((await client.delete(`${path}/v*`)).status).toBe(204);
    expect((await client.delete(`${path}/v*`)).status).toBe(404);
    expect((await client.get(`${path}/v*`)).status).toBe(404);
    const { rows } = await app().hub.services.pool.query(
      "select kind, payload->>'name' as name, min_access_level from events where project_id = $1 and kind like 'protected_tag.%' order by id",
      [project.id],
    );
    expect(rows).toEqual([
      { kind: 'protected_tag.created', name: 'v*', min_access_level: 30 },
      { kind: 'protected_tag.created', name: 'release/1', min_access_level: 30 },
      { kind: 'protected_tag.deleted', name: 'v*', min_access_level: 30 },
    ]);
  });

  it('can be created only by users whom it names, and cannot be deleted', async () => {
    const { owner, project, base, path } = await setUp();
    const [developer, named] = [await memberOf(project, 30), await memberOf(project, 30)];
    const client = app().as(owner);
    await client.post(path, { name: 'v*' });
    await client.post(path, { name: 'v-mine-*', allowed_to_create: [{ user_id: named.id }] });
    const make = (user: TestUser, tag_name: string) =>
      app().as(user).post(`${base}/repository/tags`, { tag_name, ref: 'main' });
    const refused = await make(developer, 'v1');
    expect([refused.status, refused.body.message]).toEqual([
      403,
      '403 Forbidden - You are not allowed to create this tag as it is protected.',
    ]);
    expect((await make(developer, 'w1')).status).toBe(201);
    expect((await make(named, 'v-mine-1')).status).toBe(201);
    expect((await make(named, 'v2')).status).toBe(403);
    const made = await make(owner, 'v1');
    expect([made.status, made.body.protected]).toEqual([201, true]);
    const release = { tag_name: 'v3', ref: 'main' };
    expect((await app().as(developer).post(`${base}/releases`, release)).status).toBe(403);
    const kept = await client.delete(`${base}/repository/tags/v1`);
    expect([kept.status, kept.body.message]).toEqual([403, '403 Forbidden - Protected tags cannot be deleted.']);
    expect((await client.get(`${base}/repository/tags/v1`)).status).toBe(200);
    await client.delete(`${path}/v*`);
    expect((await client.delete(`${base}/repository/tags/v1`)).status).toBe(204);
  });

  it('is changed by Maintainers, and visible to Developers', async () => {
    const { owner, project, path } = await setUp();
    await app().as(owner).post(path, { name: 'v*' });
    for (const [user, read, write] of [
      [await app().make.user(), 404, 404],
      [await memberOf(project, 20), 403, 403],
      [await memberOf(project, 30), 200, 403],
    ] as const) {
      const client = app().as(user);
      expect((await client.get(path)).status).toBe(read);
      expect((await client.get(`${path}/v*`)).status).toBe(read);
      expect((await client.post(path, { name: 'mine' })).status).toBe(write);
      expect((await client.delete(`${path}/v*`)).status).toBe(write);
    }
    expect((await app().anonymous.get(path)).status).toBe(401);
    expect((await app().anonymous.post(path, { name: 'x' })).status).toBe(401);
    expect((await app().as(owner).get(path)).body).toHaveLength(1);
  });
});

describe('GraphQL', () => {
  it('reads commits, and creates and protects tags under the same rules as REST', async () => {
    const { owner, project, base } = await setUp();
    const client = app().as(owner);
    const run = async (mutation: string, input: Record<string, unknown>, fields: string) => {
      const name = `${mutation.charAt(0).toUpperCase()}${mutation.slice(1)}Input`;
      const { data, errors } = await client.graphql(
        `mutation($input: ${name}!) { ${mutation}(input: $input) { errors ${fields} } }`,
        { input: { projectPath: project.path_with_namespace, ...input } },
      );
      expect(errors).toBeUndefined();
      return data[mutation];
    };
    const commit = (input: Record<string, unknown>) =>
      run('commitCreate', { message: 'By GraphQL', ...input }, 'commit { sha title } commitPipelinePath content');
    const made = await commit({
      branch: 'topic',
      startBranch: 'main',
      actions: [
        { action: 'UPDATE', filePath: 'file', content: 'Mg==', encoding: 'BASE64' },
        { action: 'MOVE', filePath: 'moved', previousPath: 'file' },
        { action: 'CHMOD', filePath: 'moved', executeFilemode: true },
      ],
    });
    const sha = (await client.get(`${base}/repository/branches/topic`)).body.commit.id;
    expect(made).toEqual({
      errors: [],
      commit: { sha, title: 'By GraphQL' },
      commitPipelinePath: null,
      content: ['Mg=='],
    });
    expect(await commit({ branch: 'none', actions: [{ action: 'DELETE', filePath: 'file' }] })).toEqual({
      errors: ['You can only create or edit files when you are on a branch'],
      commit: null,
      commitPipelinePath: null,
      content: null,
    });
    expect((await commit({ branch: 'topic', actions: [] })).errors).toEqual(['actions is empty']);
    const protection = await run(
      'protectedTagCreate',
      { name: 'v*', allowedToCreate: [{ accessLevel: 40 }] },
      'protectedTag { name createAccessLevels { accessLevel } }',
    );
    expect(protection.protectedTag).toEqual({ name: 'v*', createAccessLevels: [{ accessLevel: 40 }] });
    const tag = await run(
      'tagCreate',
      { name: 'v1', ref: 'topic', message: 'One' },
      'tag { name message protected commit { sha } }',
    );
    expect(tag.tag).toEqual({ name: 'v1', message: 'One', protected: true, commit: { sha } });
    expect((await run('tagCreate', { name: 'v1', ref: 'topic' }, 'tag { name }')).errors).toEqual([
      'Tag v1 already exists',
    ]);
    expect((await run('protectedTagDestroy', { name: 'v*' }, 'protectedTag { name }')).protectedTag.name).toBe('v*');
    expect((await run('tagDelete', { name: 'v1' }, 'tag { name }')).tag.name).toBe('v1');
    const developer = app().as(await memberOf(project, 30));
    const refused = await developer.graphql(
      'mutation($input: CommitCreateInput!) { commitCreate(input: $input) { errors } }',
      {
        input: {
          projectPath: project.path_with_namespace,
          branch: 'main',
          message: 'x',
          actions: [{ action: 'DELETE', filePath: 'file' }],
        },
      },
    );
    expect(refused.errors).toHaveLength(1);
  });
});
