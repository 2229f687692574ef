import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

const app = useApp();

const PAST = '2020-01-01';
const ROLES = { guest: 10, planner: 15, reporter: 20, developer: 30, maintainer: 40, owner: 50 } as const;

interface World {
  readonly group: TestGroup;
  readonly project: TestProject;
  readonly callers: Readonly<Record<string, Client>>;
}

/** Creates a subgroup with a project, and a caller for every relation to the subgroup. */
const createWorld = async (visibility: string): Promise<World> => {
  const { make, as, anonymous, root } = app();
  const owner = await make.user();
  const parent = await make.group({ visibility }, owner);
  const group = await make.group({ visibility, parent_id: parent.id }, owner);
  const project = await make.project({ visibility, namespace_id: group.id }, owner);
  const callers: Record<string, Client> = { anonymous, administrator: as(root) };
  const add = async (name: string, join: (user: TestUser) => Promise<unknown> = async () => {}, attributes = {}) => {
    const user = await make.user(attributes);
    await join(user);
    callers[name] = as(user);
  };
  await add('stranger');
  await add('external', undefined, { external: true });
  await add('minimal', (user) => make.groupMember(group, user, 5));
  for (const [name, level] of Object.entries(ROLES)) await add(name, (user) => make.groupMember(group, user, level));
  await add('expired owner', (user) => make.groupMember(group, user, 50, PAST));
  await add('inherited maintainer', (user) => make.groupMember(parent, user, 40));
  await add('external developer', (user) => make.groupMember(group, user, 30), { external: true });
  await add('member of the project', (user) => make.projectMember(project, user, 30));
  const invited = await make.group({ visibility: 'private' });
  // The owner cannot invite a group that they cannot see, so the administrator does.
  const unseen = await as(owner).post(`/groups/${group.id}/share`, { group_id: invited.id, group_access: 30 });
  expect(unseen.status).toBe(404);
  const shared = await as(root).post(`/groups/${group.id}/share`, { group_id: invited.id, group_access: 30 });
  expect(shared.status).toBe(200);
  await add('owner of an invited group', (user) => make.groupMember(invited, user, 50));
  await add('guest of an invited group', (user) => make.groupMember(invited, user, 10));
  return { group, project, callers };
};

const ACTIONS: Readonly<Record<string, (caller: Client, world: World) => Promise<{ readonly status: number }>>> = {
  read: (caller, { group }) => caller.get(`/groups/${group.id}`),
  members: (caller, { group }) => caller.get(`/groups/${group.id}/members`),
  project: (caller, { project }) => caller.get(`/projects/${project.id}`),
  update: (caller, { group }) => caller.put(`/groups/${group.id}`, { description: 'changed' }),
  subgroup: (caller, { group }) => {
    const path = `below${Math.random().toString(36).slice(2)}`;
    return caller.post('/groups', { name: path, path, parent_id: group.id, visibility: 'private' });
  },
  createProject: (caller, { group }) => {
    const path = `project${Math.random().toString(36).slice(2)}`;
    return caller.post('/projects', { name: path, path, namespace_id: group.id, visibility: 'private' });
  },
  addMember: async (caller, { group }) => {
    const user = await app().make.user();
    return caller.post(`/groups/${group.id}/members`, { user_id: user.id, access_level: 10 });
  },
  addToProject: async (caller, { project }) => {
    const user = await app().make.user();
    return caller.post(`/projects/${project.id}/members`, { user_id: user.id, access_level: 10 });
  },
};

type Row = readonly [name: string, ...statuses: number[]];
const COLUMNS = Object.keys(ACTIONS);

// read, members, project, update, subgroup, createProject, addMember, addToProject
const MEMBERS: readonly Row[] = [
  ['guest', 200, 200, 200, 403, 403, 403, 403, 403],
  ['planner', 200, 200, 200, 403, 403, 403, 403, 403],
  ['reporter', 200, 200, 200, 403, 403, 403, 403, 403],
  ['developer', 200, 200, 200, 403, 403, 201, 403, 403],
  ['external developer', 200, 200, 200, 403, 403, 201, 403, 403],
  ['maintainer', 200, 200, 200, 403, 201, 201, 403, 201],
  ['inherited maintainer', 200, 200, 200, 403, 201, 201, 403, 201],
  ['owner', 200, 200, 200, 200, 201, 201, 201, 201],
  ['administrator', 200, 200, 200, 200, 201, 201, 201, 201],
  ['owner of an invited group', 200, 200, 200, 403, 403, 201, 403, 403],
  ['guest of an invited group', 200, 200, 200, 403, 403, 403, 403, 403],
  ['member of the project', 200, 200, 200, 403, 403, 403, 403, 403],
];

const outside = (seen: 200 | 404): readonly number[] => {
  const refused = seen === 200 ? 403 : 404;
  return [seen, seen, seen, refused, refused, refused, refused, refused];
};
/** Anonymous callers can read a public group and project. Every other action asks them to authenticate. */
const nameless = (seen: 200 | 404): readonly number[] => [seen, 401, seen, 401, 401, 401, 401, 401];

const TABLE: Readonly<Record<string, readonly Row[]>> = {
  private: [
    ...MEMBERS,
    ['anonymous', ...nameless(404)],
    ['stranger', ...outside(404)],
    ['external', ...outside(404)],
    ['minimal', ...outside(404)],
    ['expired owner', ...outside(404)],
  ],
  internal: [
    ...MEMBERS,
    ['anonymous', ...nameless(404)],
    ['stranger', ...outside(200)],
    ['external', ...outside(404)],
    ['minimal', ...outside(200)],
    ['expired owner', ...outside(200)],
  ],
  public: [
    ...MEMBERS,
    ['anonymous', ...nameless(200)],
    ['stranger', ...outside(200)],
    ['external', ...outside(200)],
    ['minimal', ...outside(200)],
    ['expired owner', ...outside(200)],
  ],
};

describe.each(['private', 'internal', 'public'])('a %s group', (visibility) => {
  let world: World;
  beforeAll(async () => {
    world = await createWorld(visibility);
  });

  it.each(TABLE[visibility] ?? [])('gives the expected answers to the %s', async (name, ...expected) => {
    const caller = world.callers[name];
    if (!caller) throw new Error(`nobody is called ${name}`);
    const found: Record<string, number> = {};
    for (const [action, run] of Object.entries(ACTIONS)) found[action] = (await run(caller, world)).status;
    expect(found).toEqual(Object.fromEntries(COLUMNS.map((column, i) => [column, expected[i]])));
  });

  it('grants the same permissions over GraphQL', async () => {
    const query = `query($path: ID!) { group(fullPath: $path) { id maxAccessLevel { integerValue } userPermissions { adminGroup createProjects createSubgroup } } }`;
    for (const [name, ...statuses] of TABLE[visibility] ?? []) {
      const caller = world.callers[name];
      const answer = await caller?.graphql(query, { path: world.group.full_path });
      expect(answer?.errors, name).toBeUndefined();
      const group = answer?.data.group;
      expect(group !== null, name).toBe(statuses[0] === 200);
      if (!group) continue;
      expect(group.userPermissions, name).toEqual({
        adminGroup: statuses[3] === 200,
        createSubgroup: statuses[4] === 201,
        createProjects: statuses[5] === 201,
      });
    }
  });
});
