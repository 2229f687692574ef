import { beforeAll, describe, expect, it } from 'vitest';
import { digestToken } from '#platform/secrets.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;

let owner: TestUser;
let maintainer: TestUser;
let stranger: TestUser;
let group: TestGroup;
let project: TestProject;

beforeAll(async () => {
  const { make } = app();
  [owner, maintainer, stranger] = [await make.user(), await make.user(), await make.user()];
  group = await make.group({ visibility: 'private' }, owner);
  project = await make.project({ namespace_id: group.id, visibility: 'private' }, owner);
  await make.groupMember(group, maintainer, 40);
});

const create = (user: TestUser, input: Record<string, unknown>, scopes?: readonly string[]) =>
  app().as(user, scopes).post('/user/runners', input);

const stored = (id: number) => db().selectFrom('runners').selectAll().where('id', '=', id).executeTakeFirstOrThrow();

const countOf = async (creator: TestUser) =>
  (await db().selectFrom('runners').select('id').where('creator_id', '=', creator.id).execute()).length;

describe('creating a runner', () => {
  it('returns the token once, and stores only its digest', async () => {
    const { status, body } = await create(app().root, {
      runner_type: 'instance_type',
      description: 'big',
      paused: true,
      run_untagged: false,
      tag_list: ['docker', ' linux ', 'docker', ''],
      access_level: 'ref_protected',
      maximum_timeout: '3600',
      maintenance_note: 'x'.repeat(1024),
    });
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.any(Number),
      token: expect.stringMatching(/^glrt-[A-Za-z0-9_-]{27}$/),
      token_expires_at: null,
    });
    const row = await stored(body.id);
    expect(row).toMatchObject({
      runner_type: 'instance_type',
      namespace_id: null,
      project_id: null,
      creator_id: app().root.id,
      description: 'big',
      paused: true,
      run_untagged: false,
      tags: ['docker', 'linux'],
      access_level: 'ref_protected',
      maximum_timeout: 3600,
      locked: false,
    });
    expect(row.digest).toEqual(digestToken(body.token));
    const events = await db().selectFrom('events').selectAll().where('kind', '=', 'runner.created').execute();
    expect(events.find(({ subject_id }) => subject_id === body.id)).toMatchObject({ actor_id: app().root.id });
    expect(JSON.stringify(events)).not.toContain(body.token);
  });

  it('requires an Owner of its group or project', async () => {
    const ofGroup = await create(owner, { runner_type: 'group_type', group_id: group.id });
    expect(ofGroup.status).toBe(201);
    expect(await stored(ofGroup.body.id)).toMatchObject({ namespace_id: group.id, project_id: null, locked: false });
    const ofProject = await create(owner, { runner_type: 'project_type', project_id: project.id, locked: true });
    expect(ofProject.status).toBe(201);
    expect(await stored(ofProject.body.id)).toMatchObject({ namespace_id: null, project_id: project.id, locked: true });
    expect((await create(app().root, { runner_type: 'project_type', project_id: project.id })).status).toBe(201);
    const mine = await app().make.project({}, stranger);
    expect((await create(stranger, { runner_type: 'project_type', project_id: mine.id })).status).toBe(201);
  });

  it('is refused to everyone else: 403 if they can see the parent, else 404', async () => {
    const inputs = [
      { runner_type: 'group_type', group_id: group.id },
      { runner_type: 'project_type', project_id: project.id },
    ];
    for (const input of inputs) {
      expect((await create(maintainer, input)).status).toBe(403);
      expect((await create(stranger, input)).status).toBe(404);
      expect((await app().anonymous.post('/user/runners', input)).status).toBe(401);
    }
    const absent = await create(stranger, { runner_type: 'group_type', group_id: 987_654_321 });
    expect(absent.body).toEqual((await create(stranger, inputs[0] ?? {})).body);
    expect((await create(owner, { runner_type: 'instance_type' })).status).toBe(403);
    expect(await countOf(maintainer)).toBe(0);
  });

  it('requires at least the scope create_runner', async () => {
    const input = { runner_type: 'group_type', group_id: group.id };
    expect((await create(owner, input, ['create_runner'])).status).toBe(201);
    const { status, body } = await create(owner, input, ['read_api', 'read_user']);
    expect([status, body.error]).toEqual([403, 'insufficient_scope']);
    expect(body.scope).toContain('create_runner');
    // The scope allows nothing else.
    expect((await app().as(owner, ['create_runner']).get(`/groups/${group.id}`)).status).toBe(403);
  });

  it.each([
    [{ runner_type: undefined }, { error: 'runner_type is missing' }],
    [
      { runner_type: 'other' },
      { error: 'runner_type does not have a valid value (allowed: instance_type, group_type, project_type)' },
    ],
    [{ runner_type: 'group_type' }, { error: 'group_id is missing' }],
    [{ runner_type: 'project_type' }, { error: 'project_id is missing' }],
    [{ runner_type: 'group_type', group_id: 'x' }, { error: 'group_id is invalid (allowed: a whole number)' }],
    [
      { access_level: 'protected' },
      { error: 'access_level does not have a valid value (allowed: not_protected, ref_protected)' },
    ],
    [{ paused: 'maybe' }, { error: 'paused is invalid (allowed: true, false)' }],
    [{ maximum_timeout: 'long' }, { error: 'maximum_timeout is invalid (allowed: a whole number)' }],
    [{ maximum_timeout: 0 }, { message: { maximum_timeout: ['must be greater than 0'] } }],
    [
      { maintenance_note: 'x'.repeat(1025) },
      { message: { maintenance_note: ['is too long (maximum is 1024 characters)'] } },
    ],
    [
      { run_untagged: false },
      { message: { tag_list: ['can not be empty when runner is not allowed to pick untagged jobs'] } },
    ],
    [
      { tag_list: Array.from({ length: 51 }, (_, n) => `tag${n}`) },
      { message: { tag_list: ['has too many tags (maximum is 50)'] } },
    ],
    [{ tag_list: [{ a: 1 }] }, { error: 'tag_list is invalid (allowed: a string)' }],
  ])('refuses %j', async (wrong, expected) => {
    const before = await countOf(app().root);
    const { status, body } = await create(app().root, { runner_type: 'instance_type', ...wrong });
    expect([status, body]).toEqual([400, expected]);
    expect(await countOf(app().root)).toBe(before);
  });

  it('sets the expiry of the token from the settings or the project, whichever is earlier', async () => {
    const settings = '/application/settings';
    const runner = async (input: Record<string, unknown>) => {
      const { body } = await create(app().root, input);
      return body.token_expires_at === null ? null : (Date.parse(body.token_expires_at) - Date.now()) / 3_600_000;
    };
    const changed = await admin().put(settings, {
      runner_token_expiration_interval: 7_200,
      group_runner_token_expiration_interval: 36_000,
      project_runner_token_expiration_interval: 72_000,
    });
    expect(changed.status).toBe(200);
    try {
      expect(await runner({ runner_type: 'instance_type' })).toBeCloseTo(2, 1);
      expect(await runner({ runner_type: 'group_type', group_id: group.id })).toBeCloseTo(10, 1);
      expect(await runner({ runner_type: 'project_type', project_id: project.id })).toBeCloseTo(20, 1);
      await admin().put(`/projects/${project.id}`, { runner_token_expiration_interval: 14_400 });
      expect(await runner({ runner_type: 'project_type', project_id: project.id })).toBeCloseTo(4, 1);
    } finally {
      const { status, body } = await admin().put(settings, {
        runner_token_expiration_interval: null,
        group_runner_token_expiration_interval: null,
        project_runner_token_expiration_interval: null,
      });
      expect([status, body.runner_token_expiration_interval]).toEqual([200, null]);
    }
    expect(await runner({ runner_type: 'instance_type' })).toBeNull();
  });

  it('requires an administrator if the settings say so', async () => {
    const input = { runner_type: 'project_type', project_id: project.id };
    await admin().put('/application/settings', { valid_runner_registrars: ['group'] });
    try {
      expect((await create(owner, input)).status).toBe(403);
      expect((await create(owner, { runner_type: 'group_type', group_id: group.id })).status).toBe(201);
      expect((await create(app().root, input)).status).toBe(201);
    } finally {
      await admin().put('/application/settings', { valid_runner_registrars: ['group', 'project'] });
    }
    expect((await create(owner, input)).status).toBe(201);
  });
});

describe('a runner over GraphQL', () => {
  const CREATE = `mutation($input: RunnerCreateInput!) { runnerCreate(input: $input) {
    errors runner { id runnerType tagList ephemeralAuthenticationToken group { fullPath } ownerProject { fullPath } } } }`;
  const READ = `query($id: CiRunnerID!) { runner(id: $id) {
    id description status paused runUntagged accessLevel ephemeralAuthenticationToken createdBy { username } } }`;

  const gidOf = (model: string, id: number) => `gid://gitlab/${model}/${id}`;

  it('is created under the same rules', async () => {
    const input = { runnerType: 'PROJECT_TYPE', projectId: gidOf('Project', project.id), tagList: ['a'] };
    const { data } = await app().as(owner).graphql(CREATE, { input });
    expect(data.runnerCreate).toEqual({
      errors: [],
      runner: {
        id: expect.stringMatching(/^gid:\/\/gitlab\/Ci::Runner\/\d+$/),
        runnerType: 'PROJECT_TYPE',
        tagList: ['a'],
        ephemeralAuthenticationToken: expect.stringMatching(/^glrt-/),
        group: null,
        ownerProject: { fullPath: project.path_with_namespace },
      },
    });
    for (const user of [maintainer, stranger]) {
      const refused = await app().as(user).graphql(CREATE, { input });
      expect(refused.data.runnerCreate).toBeNull();
      expect(refused.errors?.[0]?.message).toMatch(/does not exist or you don't have permission/);
    }
    const wrong = { ...input, tagList: [], runUntagged: false };
    expect((await app().as(owner).graphql(CREATE, { input: wrong })).data.runnerCreate).toEqual({
      errors: ['Tag list can not be empty when runner is not allowed to pick untagged jobs'],
      runner: null,
    });
  });

  it('is visible to administrators and owners, without its token', async () => {
    const { body } = await create(owner, { runner_type: 'group_type', group_id: group.id, description: 'a group' });
    const id = gidOf('Ci::Runner', body.id);
    for (const user of [owner, app().root]) {
      const { data } = await app().as(user).graphql(READ, { id });
      expect(data.runner).toEqual({
        id,
        description: 'a group',
        status: 'NEVER_CONTACTED',
        paused: false,
        runUntagged: true,
        accessLevel: 'NOT_PROTECTED',
        ephemeralAuthenticationToken: null,
        createdBy: { username: owner.username },
      });
    }
    for (const client of [app().as(maintainer), app().as(stranger), app().anonymous]) {
      expect((await client.graphql(READ, { id })).data.runner).toBeNull();
    }
  });

  it('is listed for administrators', async () => {
    const { body } = await create(owner, {
      runner_type: 'group_type',
      group_id: group.id,
      description: 'to be found',
      tag_list: ['rare', 'other'],
    });
    const query = `query { runners(tagList: ["rare"], type: GROUP_TYPE, status: NEVER_CONTACTED, search: "BE FOUND") {
      count nodes { id } } }`;
    expect((await admin().graphql(query)).data.runners).toEqual({
      count: 1,
      nodes: [{ id: gidOf('Ci::Runner', body.id) }],
    });
    expect((await app().as(owner).graphql(query)).data.runners).toBeNull();
    expect((await app().anonymous.graphql(query)).data.runners).toBeNull();
  });
});
