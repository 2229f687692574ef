import { beforeAll, describe, expect, it } from 'vitest';
import { digestOldRunnersTokens } from '#domains/projects/jobs.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;

let scene: Awaited<ReturnType<typeof makeScene>>;
beforeAll(async () => {
  scene = await makeScene(app());
});

const register = (token: string, input: Record<string, unknown> = {}) =>
  app().anonymous.post('/runners', { token, ...input });

const places = () => [
  { url: '/runners', owner: admin(), type: 'instance_type' },
  { url: `/groups/${scene.group.id}/runners`, owner: scene.owner, type: 'group_type' },
  { url: `/projects/${scene.project.id}/runners`, owner: scene.owner, type: 'project_type' },
];

describe('a registration token', () => {
  it('registers runners of its instance, group or project until it is replaced', async () => {
    for (const { url, owner, type } of places()) {
      const reset = () => owner.post(`${url}/reset_registration_token`);
      const { status, body } = await reset();
      expect([status, body]).toEqual([201, { token: expect.stringMatching(/^GR1348941[\w-]{27}$/) }]);
      // A stock runner tells all of this, and again when it verifies itself.
      const info = {
        name: 'builder',
        version: '18.0.0',
        revision: 'abcdef',
        platform: 'linux',
        architecture: 'amd64',
        executor: 'shell',
        features: { refspecs: true },
      };
      const runner = await register(body.token, { info, locked: true });
      expect(runner.status).toBe(201);
      expect(runner.body).toEqual({
        id: expect.any(Number),
        token: expect.stringMatching(/^glrt-/),
        token_expires_at: null,
      });
      const row = await db()
        .selectFrom('runners')
        .selectAll()
        .where('id', '=', runner.body.id)
        .executeTakeFirstOrThrow();
      expect(row).toMatchObject({
        runner_type: type,
        description: 'builder',
        creator_id: null,
        namespace_id: type === 'group_type' ? scene.group.id : null,
        project_id: type === 'project_type' ? scene.project.id : null,
        locked: type === 'project_type',
      });
      expect((await app().anonymous.post('/runners/verify', { token: runner.body.token })).status).toBe(200);
      const second = await reset();
      expect((await register(body.token)).status).toBe(403);
      expect((await register(second.body.token)).status).toBe(201);
      expect((await app().anonymous.post('/runners/verify', { token: runner.body.token })).status).toBe(200);
    }
    const rows = await db().selectFrom('runner_registration_tokens').selectAll().execute();
    // Projects keep theirs themselves.
    expect(rows).toHaveLength(2);
    await app().settle();
    const events = await db()
      .selectFrom('events')
      .select(['project_id', 'payload'])
      .where('kind', '=', 'runner.registration_token_reset')
      .where('project_id', '=', scene.project.id)
      .execute();
    expect(events.map(({ payload }) => payload)).toEqual(
      Array(2).fill({ namespace_id: null, project_id: scene.project.id }),
    );
  });

  it('of a project is shown in its record from the start, and is the new one after a reset', async () => {
    const path = `/projects/${scene.project.id}`;
    const shown = async () => String((await scene.owner.get(path)).body.runners_token);
    const first = await shown();
    const { status, body } = await register(first);
    expect(status).toBe(201);
    expect((await scene.owner.get(`${path}/runners?type=project_type`)).body).toContainEqual(
      expect.objectContaining({ id: body.id }),
    );
    const { token } = (await scene.owner.post(`${path}/runners/reset_registration_token`)).body;
    expect(await shown()).toBe(token);
    expect([(await register(first)).status, (await register(token)).status]).toEqual([403, 201]);
    // Tokens of an earlier version have no digest yet.
    const forget = { runners_token_digest: null };
    await db().updateTable('projects').set(forget).where('id', '=', scene.project.id).execute();
    expect((await register(token)).status).toBe(403);
    await app()
      .context()
      .transaction(async (tx) => tx.enqueue(digestOldRunnersTokens, {}));
    await app().settle();
    expect([await shown(), (await register(token)).status]).toEqual([token, 201]);
  });

  it('sets the attributes that the runner sends, and refuses invalid values', async () => {
    const { token } = (await scene.owner.post(`/projects/${scene.project.id}/runners/reset_registration_token`)).body;
    const { body } = await register(token, {
      description: 'mine',
      maintenance_note: 'note',
      active: false,
      run_untagged: false,
      tag_list: 'a, b',
      access_level: 'ref_protected',
      maximum_timeout: 700,
    });
    expect((await admin().get(`/runners/${body.id}`)).body).toMatchObject({
      description: 'mine',
      maintenance_note: 'note',
      paused: true,
      run_untagged: false,
      tag_list: ['a', 'b'],
      access_level: 'ref_protected',
      maximum_timeout: 700,
    });
    expect((await admin().get(`/runners/${(await register(token, { paused: true })).body.id}`)).body.paused).toBe(true);
    const count = async () => (await db().selectFrom('runners').select('id').execute()).length;
    const before = await count();
    expect((await register(token, { run_untagged: false })).status).toBe(400);
    expect((await register(token, { paused: true, active: true })).status).toBe(400);
    expect(await register('GR1348941wrong')).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - invalid token supplied' },
    });
    expect(await count()).toBe(before);
  });

  it('is for those who may create runners there', async () => {
    const { people, group, project } = scene;
    const as = (user: keyof typeof people) => app().as(people[user]);
    const statuses = async (url: string, user: keyof typeof people) =>
      (await as(user).post(`${url}/reset_registration_token`)).status;
    expect(await statuses('/runners', 'owner')).toBe(403);
    expect(await statuses(`/projects/${project.id}/runners`, 'maintainer')).toBe(403);
    expect(await statuses(`/groups/${group.id}/runners`, 'maintainer')).toBe(403);
    const stranger = app().as(await app().make.user());
    expect((await stranger.post(`/projects/${project.id}/runners/reset_registration_token`)).status).toBe(404);
    expect((await stranger.post(`/groups/${group.id}/runners/reset_registration_token`)).status).toBe(403);
    expect((await app().anonymous.post('/runners/reset_registration_token')).status).toBe(401);
  });

  it('is replaced over GraphQL', async () => {
    const reset = async (client: typeof scene.owner, input: string) =>
      await client.graphql(`mutation { runnersRegistrationTokenReset(input: {${input}}) { token errors } }`);
    const tokenOf = async (client: typeof scene.owner, input: string) =>
      (await reset(client, input)).data.runnersRegistrationTokenReset.token;
    const ofProject = `type: PROJECT_TYPE, projectId: "gid://gitlab/Project/${scene.project.id}"`;
    expect((await register(await tokenOf(scene.owner, ofProject))).status).toBe(201);
    const ofGroup = `type: GROUP_TYPE, groupId: "gid://gitlab/Group/${scene.group.id}"`;
    expect((await register(await tokenOf(scene.owner, ofGroup))).status).toBe(201);
    expect((await register(await tokenOf(admin(), 'type: INSTANCE_TYPE'))).status).toBe(201);
    const { data } = await reset(scene.owner, 'type: GROUP_TYPE');
    expect(data.runnersRegistrationTokenReset.errors).toEqual([expect.stringContaining('groupId is missing')]);
  });

  it('does nothing while the settings forbid it', async () => {
    const url = `/projects/${scene.project.id}/runners/reset_registration_token`;
    const { token } = (await scene.owner.post(url)).body;
    const set = (settings: Record<string, unknown>) => admin().put('/application/settings', settings);
    await set({ valid_runner_registrars: ['group'] });
    expect((await register(token)).status).toBe(403);
    await set({ valid_runner_registrars: ['group', 'project'], allow_runner_registration_token: false });
    expect(await register(token)).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - runner registration disallowed' },
    });
    expect((await scene.owner.post(url)).status).toBe(403);
    await set({ allow_runner_registration_token: true });
    expect((await register(token)).status).toBe(201);
  });
});
