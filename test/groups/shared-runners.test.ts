import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { packProject } from '../transfers/archive.ts';
import { importArchive, runImport } from '../transfers/support.ts';

// Which groups and projects use the runners of the instance, by the settings of the groups above them.

const app = useApp();

const OVERRIDABLE = 'disabled_and_overridable';
const NONE = 'disabled_and_unoverridable';

const set = (user: TestUser, group: { readonly id: number }, shared_runners_setting: string) =>
  app().as(user).put(`/groups/${group.id}`, { shared_runners_setting });

/** A group with a subgroup, that with a subgroup too, and a project in each. */
const scene = async () => {
  const owner = await app().make.user();
  const top = await app().make.group({}, owner);
  const middle = await app().make.group({ parent_id: top.id }, owner);
  const low = await app().make.group({ parent_id: middle.id }, owner);
  const groups = [top, middle, low];
  const projects: { readonly id: number }[] = [];
  for (const { id } of groups) projects.push(await app().make.project({ namespace_id: id }, owner));
  const client = app().as(owner);
  const settings = () =>
    Promise.all(groups.map(async ({ id }) => (await client.get(`/groups/${id}`)).body.shared_runners_setting));
  const switches = () =>
    Promise.all(projects.map(async ({ id }) => (await client.get(`/projects/${id}`)).body.shared_runners_enabled));
  return { owner, client, top, middle, low, projects, settings, switches };
};

describe('shared_runners_setting of a group', () => {
  it('turns everything below it off and on', async () => {
    const { owner, top, settings, switches } = await scene();
    const other = await app().make.project({}, owner);
    expect((await set(owner, top, NONE)).body.shared_runners_setting).toBe(NONE);
    expect([await settings(), await switches()]).toEqual([Array(3).fill(NONE), Array(3).fill(false)]);
    expect((await app().as(owner).get(`/projects/${other.id}`)).body.shared_runners_enabled).toBe(true);
    // From now on, subgroups decide. None has decided yet.
    expect((await set(owner, top, OVERRIDABLE)).status).toBe(200);
    expect([await settings(), await switches()]).toEqual([[OVERRIDABLE, NONE, NONE], Array(3).fill(false)]);
    expect((await set(owner, top, 'enabled')).status).toBe(200);
    expect([await settings(), await switches()]).toEqual([Array(3).fill('enabled'), Array(3).fill(true)]);
  });

  it('turns everything below it off, and lets it be turned on again', async () => {
    const { owner, client, top, middle, low, projects, settings, switches } = await scene();
    await set(owner, low, OVERRIDABLE);
    expect((await set(owner, top, OVERRIDABLE)).status).toBe(200);
    expect([await settings(), await switches()]).toEqual([
      [OVERRIDABLE, NONE, OVERRIDABLE],
      [false, false, false],
    ]);
    expect((await set(owner, middle, 'enabled')).status).toBe(200);
    expect([await settings(), await switches()]).toEqual([
      [OVERRIDABLE, 'enabled', 'enabled'],
      [false, true, true],
    ]);
    // Repeating a setting changes nothing.
    await client.put(`/projects/${projects[1]?.id}`, { shared_runners_enabled: false });
    await set(owner, middle, 'enabled');
    expect(await switches()).toEqual([false, false, true]);
  });

  it('cannot be looser than a parent that allows nothing below it', async () => {
    const { owner, client, top, middle, settings } = await scene();
    await set(owner, top, NONE);
    const refusals = {
      enabled: 'cannot be enabled because parent group has shared Runners disabled',
      [OVERRIDABLE]: 'cannot be enabled because parent group does not allow it',
    };
    for (const [setting, reason] of Object.entries(refusals)) {
      const answer = { status: 400, body: { message: { shared_runners_setting: [reason] } } };
      expect(await set(owner, middle, setting)).toMatchObject(answer);
      const { data } = await client.graphql(
        `mutation ($path: ID!) { groupUpdate(input: { fullPath: $path, sharedRunnersSetting: ${setting.toUpperCase()} }) { group { id } errors } }`,
        { path: middle.full_path },
      );
      expect(data.groupUpdate).toEqual({ group: null, errors: [`Shared runners setting ${reason}`] });
    }
    expect(await settings()).toEqual(Array(3).fill(NONE));
    expect((await set(owner, middle, NONE)).status).toBe(200);
    expect((await client.put(`/groups/${middle.id}`, { description: 'new' })).status).toBe(200);
  });

  it('is that of the parent for a new subgroup', async () => {
    const { owner, client, top } = await scene();
    for (const setting of [OVERRIDABLE, NONE]) {
      await set(owner, top, setting);
      const { body } = await client.post('/groups', { name: setting, path: `in-${setting}`, parent_id: top.id });
      expect(body.shared_runners_setting).toBe(setting);
    }
  });

  it('becomes that of a stricter new parent when the group moves, with everything below it', async () => {
    const { owner, client, middle, settings, switches } = await scene();
    const strict = await app().make.group({}, owner);
    await set(owner, strict, NONE);
    expect((await client.post(`/groups/${middle.id}/transfer`, { group_id: strict.id })).status).toBe(201);
    expect([await settings(), await switches()]).toEqual([
      ['enabled', NONE, NONE],
      [true, false, false],
    ]);
    // A looser parent changes nothing.
    const loose = await app().make.group({}, owner);
    expect((await client.post(`/groups/${middle.id}/transfer`, { group_id: loose.id })).status).toBe(201);
    expect(await settings()).toEqual(['enabled', NONE, NONE]);
  });

  it('is reported with the change of the group, and only its Owners change it', async () => {
    const { owner, top, settings } = await scene();
    const maintainer = await app().make.user();
    await app().make.groupMember(top, maintainer, 40);
    expect((await set(maintainer, top, NONE)).status).toBe(403);
    expect((await set(await app().make.user(), top, NONE)).status).toBe(404);
    expect(await settings()).toEqual(Array(3).fill('enabled'));
    await set(owner, top, NONE);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select('payload')
      .where('kind', '=', 'group.updated')
      .where('subject_id', '=', top.id)
      .execute();
    expect(events).toMatchObject([
      { payload: { changes: { shared_runners_setting: { previous: 'enabled', current: NONE } } } },
    ]);
  });
});

describe('shared_runners_enabled of a project', () => {
  const refusal = 'cannot be enabled because parent group does not allow it';
  const refused = { status: 400, body: { message: { shared_runners_enabled: [refusal] } } };

  /** The scene with the groups from the middle on kept from the runners. */
  const strictScene = async () => {
    const found = await scene();
    await set(found.owner, found.middle, NONE);
    return found;
  };
  let count = 0;
  const path = () => `runners-${++count}`;

  it('cannot be turned on where the group allows it to nobody', async () => {
    const { owner, client, low, projects, switches } = await strictScene();
    const at = `/projects/${projects[2]?.id}`;
    expect(await client.put(at, { shared_runners_enabled: true })).toMatchObject(refused);
    const name = path();
    expect(await client.post('/projects', { name, namespace_id: low.id, shared_runners_enabled: true })).toMatchObject(
      refused,
    );
    const mutate = async (mutation: string, input: Record<string, unknown>) =>
      (
        await client.graphql(
          `mutation ($input: ${mutation}Input!) { result: ${mutation[0]?.toLowerCase()}${mutation.slice(1)}(input: $input) { project { sharedRunnersEnabled } errors } }`,
          { input },
        )
      ).data.result;
    const { body: project } = await client.get(at);
    const denied = { project: null, errors: [`Shared runners enabled ${refusal}`] };
    expect(
      await mutate('ProjectUpdate', { fullPath: project.path_with_namespace, sharedRunnersEnabled: true }),
    ).toEqual(denied);
    expect(await mutate('ProjectCreate', { name, namespacePath: low.full_path, sharedRunnersEnabled: true })).toEqual(
      denied,
    );
    const names = (await client.get(`/groups/${low.id}/projects`)).body.map((each: { name: string }) => each.name);
    expect(names).not.toContain(name);
    // A change of something else, or of nothing, is no reason to refuse.
    expect((await client.put(at, { shared_runners_enabled: false, description: 'new' })).status).toBe(200);
    const developer = await app().make.user();
    await app().make.groupMember(low, developer, 30);
    expect((await app().as(developer).put(at, { shared_runners_enabled: true })).status).toBe(403);
    expect(
      (
        await app()
          .as(await app().make.user())
          .put(at, { shared_runners_enabled: true })
      ).status,
    ).toBe(project.visibility === 'private' ? 404 : 403);
    expect(await switches()).toEqual([true, false, false]);
    await set(owner, low, NONE);
  });

  it('is off in a new project of a group that has them off', async () => {
    const { owner, client, top, low } = await scene();
    const create = async (more = {}) =>
      (await client.post('/projects', { name: path(), namespace_id: low.id, ...more })).body.shared_runners_enabled;
    expect(await create()).toBe(true);
    await set(owner, low, OVERRIDABLE);
    expect([await create(), await create({ shared_runners_enabled: true })]).toEqual([false, true]);
    await set(owner, top, NONE);
    expect([await create(), await create({ shared_runners_enabled: false })]).toEqual([false, false]);
  });

  it('is turned off in a project that moves or is forked into such a group', async () => {
    const { owner, client, low } = await strictScene();
    const project = await app().make.project({}, owner);
    const named = path();
    const forked = await client.post(`/projects/${project.id}/fork`, {
      namespace_id: low.id,
      path: named,
      name: named,
    });
    expect(forked.body).toMatchObject({ namespace: { id: low.id }, shared_runners_enabled: false });
    const moved = await client.put(`/projects/${project.id}/transfer`, { namespace: low.id });
    expect(moved).toMatchObject({ status: 200, body: { shared_runners_enabled: false } });
    await app().settle();
    const { payload } = await app()
      .hub.services.db.selectFrom('events')
      .select('payload')
      .where('kind', '=', 'project.transferred')
      .where('subject_id', '=', project.id)
      .executeTakeFirstOrThrow();
    expect(payload).toMatchObject({ changes: { shared_runners_enabled: { current: false } } });
    // It stays off where it could be on, and can be turned on again.
    const elsewhere = await app().make.group({}, owner);
    const back = await client.put(`/projects/${project.id}/transfer`, { namespace: elsewhere.id });
    expect(back.body.shared_runners_enabled).toBe(false);
    const again = await client.put(`/projects/${project.id}`, { shared_runners_enabled: true });
    expect(again.body.shared_runners_enabled).toBe(true);
  });

  it('is off in an import, which cannot ask for it either', async () => {
    const { owner, client, middle } = await strictScene();
    const archive = await packProject({}, { 'tree/project.json': JSON.stringify({ shared_runners_enabled: true }) });
    const override = { 'override_params[shared_runners_enabled]': 'true' };
    const into = { namespace: middle.full_path, path: path() };
    expect(await importArchive(app(), owner, archive, { ...into, ...override })).toMatchObject(refused);
    const { id } = await runImport(app(), owner, archive, into);
    expect((await client.get(`/projects/${id}`)).body).toMatchObject({
      import_status: 'finished',
      shared_runners_enabled: false,
    });
  });
});
