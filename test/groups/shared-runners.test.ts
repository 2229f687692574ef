import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

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
