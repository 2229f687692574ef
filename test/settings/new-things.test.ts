import { afterEach, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

// Settings that new groups and projects start with.

const app = useApp();
const set = async (settings: Record<string, unknown>) =>
  expect((await app().as(app().root).put('/application/settings', settings)).status).toBe(200);

afterEach(() => set({ default_project_creation: 2, shared_runners_enabled: true, default_branch_name: 'main' }));

let created = 0;
const freshPath = () => `new-thing-${++created}`;

describe('default_project_creation', () => {
  it('says who can create projects in new groups, over REST and GraphQL', async () => {
    const client = app().as(await app().make.user());
    for (const [number, level] of ['noone', 'maintainer', 'developer', 'administrator', 'owner'].entries()) {
      await set({ default_project_creation: number });
      const path = freshPath();
      const group = await client.post('/groups', { name: path, path });
      expect([number, group.body.project_creation_level]).toEqual([number, level]);
      const { data } = await client.graphql(`mutation {
        groupCreate(input: { name: "x", path: "${freshPath()}" }) { group { projectCreationLevel } errors } }`);
      expect(data.groupCreate).toEqual({ group: { projectCreationLevel: level }, errors: [] });
    }
  });

  it('gives way to the level that the group is given, and leaves existing groups as they are', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const before = await app().make.group({}, owner);
    await set({ default_project_creation: 0 });
    const path = freshPath();
    const own = await client.post('/groups', { name: path, path, project_creation_level: 'owner' });
    expect(own.body.project_creation_level).toBe('owner');
    expect((await client.get(`/groups/${before.id}`)).body.project_creation_level).toBe('developer');
    const parent_id = own.body.id;
    const below = await client.post('/groups', { name: 'Below', path: 'below', parent_id });
    expect(below.body.project_creation_level).toBe('noone');
    const project = await client.post('/projects', { name: 'No', namespace_id: below.body.id });
    expect(project.status).toBe(403);
  });
});

describe('shared_runners_enabled', () => {
  it('decides for new projects that do not say it', async () => {
    const client = app().as(await app().make.user());
    const create = async (body: Record<string, unknown>) => {
      const { status, body: project } = await client.post('/projects', { name: freshPath(), ...body });
      expect(status).toBe(201);
      return project.shared_runners_enabled;
    };
    expect(await create({})).toBe(true);
    await set({ shared_runners_enabled: false });
    expect(await create({})).toBe(false);
    expect(await create({ shared_runners_enabled: true })).toBe(true);
  });
});

describe('default_branch of a group', () => {
  it('names the initial branch of projects in groups below it too, unless a nearer group names one', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const top = await app().make.group({ default_branch: 'trunk' }, owner);
    const child = await app().make.group({ parent_id: top.id }, owner);
    const deep = await app().make.group({ parent_id: child.id }, owner);
    const branchIn = async (namespace_id: number) => {
      const body = { name: freshPath(), namespace_id, initialize_with_readme: true };
      return (await client.post('/projects', body)).body.default_branch;
    };
    expect(await branchIn(deep.id)).toBe('trunk');
    await client.put(`/groups/${child.id}`, { default_branch: 'stem' });
    expect([await branchIn(top.id), await branchIn(child.id), await branchIn(deep.id)]).toEqual([
      'trunk',
      'stem',
      'stem',
    ]);
    await client.put(`/groups/${child.id}`, { default_branch: '' });
    await client.put(`/groups/${top.id}`, { default_branch: null });
    await set({ default_branch_name: 'root' });
    expect([await branchIn(top.id), await branchIn(deep.id)]).toEqual(['root', 'root']);
  });
});
