import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

const app = useApp();
const admin = () => app().as(app().root);

let user: TestUser;
let group: TestGroup;
let project: TestProject;

beforeAll(async () => {
  const { make } = app();
  user = await make.user();
  group = await make.group({ visibility: 'private' });
  project = await make.project({ visibility: 'private' });
  await make.groupMember(group, user, 20);
  await make.projectMember(project, user, 30);
  // None of these is a direct membership of the user.
  await make.group({ parent_id: group.id });
  await make.project({ namespace_id: group.id });
  await make.groupMember(await make.group(), user, 40, '2020-01-01');
});

const ofGroup = () => ({
  source_id: group.id,
  source_name: group.path,
  source_type: 'Namespace',
  access_level: '20',
});
const ofProject = () => ({
  source_id: project.id,
  source_name: project.path,
  source_type: 'Project',
  access_level: '30',
});

describe('the list of memberships of a user', () => {
  it('includes only direct ones, with the role as text', async () => {
    const { status, body, headers } = await admin().get(`/users/${user.id}/memberships`);
    expect([status, body]).toEqual([200, [ofGroup(), ofProject()]]);
    expect(headers.get('x-total')).toBe('2');
    expect((await admin().get(`/users/${user.id}/memberships?per_page=1&page=2`)).body).toEqual([ofProject()]);
  });

  it('can be filtered by type', async () => {
    expect((await admin().get(`/users/${user.id}/memberships?type=Project`)).body).toEqual([ofProject()]);
    expect((await admin().get(`/users/${user.id}/memberships?type=Namespace`)).body).toEqual([ofGroup()]);
    for (const type of ['Group', 'project', 'x']) {
      const { status, body } = await admin().get(`/users/${user.id}/memberships?type=${type}`);
      expect([status, body]).toEqual([
        400,
        { error: 'type does not have a valid value (allowed: Project, Namespace)' },
      ]);
    }
  });

  it('requires an administrator, and returns 404 only to them for an unknown user', async () => {
    const stranger = await app().make.user();
    for (const asking of [user, stranger]) {
      const there = await app().as(asking).get(`/users/${user.id}/memberships`);
      const nobody = await app().as(asking).get('/users/987654321/memberships');
      expect([there.status, nobody.status]).toEqual([403, 403]);
      expect(there.body).toEqual(nobody.body);
    }
    expect((await app().anonymous.get(`/users/${user.id}/memberships`)).status).toBe(401);
    const nobody = await admin().get('/users/987654321/memberships');
    expect([nobody.status, nobody.body]).toEqual([404, { message: '404 User Not Found' }]);
  });

  it('is the same over GraphQL', async () => {
    const query = `query($id: UserID) { user(id: $id) {
      groupMemberships { nodes { group { fullPath } accessLevel { integerValue } } }
      projectMemberships { nodes { project { fullPath } accessLevel { integerValue } } } } }`;
    const { data } = await admin().graphql(query, { id: `gid://gitlab/User/${user.id}` });
    expect(data.user).toEqual({
      groupMemberships: { nodes: [{ group: { fullPath: group.full_path }, accessLevel: { integerValue: 20 } }] },
      projectMemberships: {
        nodes: [{ project: { fullPath: project.path_with_namespace }, accessLevel: { integerValue: 30 } }],
      },
    });
  });

  it('is counted over GraphQL only as far as the caller may see the memberships', async () => {
    const stranger = await app().make.user();
    const hidden = await app().make.user();
    await admin().put(`/users/${hidden.id}`, { private_profile: true });
    const count = async (asking: Client, username: string) =>
      (await asking.graphql(`{ user(username: "${username}") { groupCount projectCount } }`)).data.user;
    for (const asking of [admin(), app().as(user)]) {
      expect(await count(asking, user.username)).toEqual({ groupCount: 1, projectCount: 1 });
    }
    expect(await count(app().as(stranger), user.username)).toEqual({ groupCount: 0, projectCount: 0 });
    for (const [asking, username] of [
      [app().as(stranger), hidden.username],
      [app().anonymous, user.username],
    ] as const) {
      expect(await count(asking, username)).toEqual({ groupCount: null, projectCount: null });
    }
  });
});
