import { beforeAll, describe, expect, it } from 'vitest';
import { DEVELOPER, GUEST, MAINTAINER, REPORTER } from '#domains/access/model.ts';
import { gid } from '#graphql/ids.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { expectLists, type ListCase, mutate } from '../support/graphql.ts';

// Sets each argument of the lists and mutations of members, invitations and access requests.

const app = useApp();
let owner: TestUser;
let client: Client;
beforeAll(async () => {
  owner = await app().make.user();
  client = app().as(owner);
});

const places = {
  group: async () => {
    const parent = await app().make.group({ visibility: 'public' }, owner);
    const { id, full_path } = await app().make.group({ visibility: 'public', parent_id: parent.id }, owner);
    return { parent, id, full_path, api: `/groups/${id}`, path: { groupPath: full_path } };
  },
  project: async () => {
    const parent = await app().make.group({ visibility: 'public' }, owner);
    const made = await app().make.project({ visibility: 'public', namespace_id: parent.id }, owner);
    const { id, path_with_namespace: full_path } = made;
    return { parent, id, full_path, api: `/projects/${id}`, path: { projectPath: full_path } };
  },
} as const;

describe.each(['group', 'project'] as const)('the members of a %s', (kind) => {
  it('are listed by each argument', async () => {
    const { parent, id, full_path, api } = await places[kind]();
    const { make } = app();
    const person = (name: string) => make.user({ username: `${kind}-${name}` });
    const [direct, inherited, below, invited] = [
      await person('direct'),
      await person('inherited'),
      await person('below'),
      await person('invited'),
    ];
    await (kind === 'group'
      ? make.groupMember({ id }, direct, DEVELOPER)
      : make.projectMember({ id }, direct, DEVELOPER));
    await make.groupMember(parent, inherited, REPORTER);
    if (kind === 'group') await make.groupMember(await make.group({ parent_id: id }, owner), below, GUEST);
    const guests = await make.group({}, owner);
    await make.groupMember(guests, invited, GUEST);
    await client.post(`${api}/share`, { group_id: guests.id, group_access: GUEST });
    const HERE = [owner.username, direct.username, inherited.username];
    const byRelation: readonly ListCase[] = [
      ['relations: [DIRECT]', kind === 'group' ? [owner.username, direct.username] : [direct.username]],
      ['relations: [INHERITED]', [owner.username, inherited.username]],
      [
        `relations: [${kind === 'group' ? 'SHARED_FROM_GROUPS' : 'INVITED_GROUPS'}]`,
        [owner.username, invited.username],
      ],
      ...(kind === 'group'
        ? ([['relations: [DESCENDANTS]', [owner.username, below.username]]] satisfies ListCase[])
        : []),
    ];
    await expectLists(client, `${kind}(fullPath: "${full_path}")`, `${kind}Members`, 'user { username }', [
      ['', HERE],
      ['search: "DIREC"', [direct.username]],
      [`userIds: ["${gid('User', inherited.id)}", "${gid('User', below.id)}"]`, [inherited.username]],
      ['accessLevels: [DEVELOPER, MAINTAINER]', [direct.username]],
      ...byRelation,
    ]);
  });

  it('are added, changed and removed by id or username, with each attribute', async () => {
    const { api, path } = await places[kind]();
    const member = `${kind}Member`;
    for (const by of ['userId', 'username'] as const) {
      const { id, username } = await app().make.user();
      const who = by === 'userId' ? { ...path, userId: gid('User', id) } : { ...path, username };
      const read = async () => (await client.get(`${api}/members/${id}`)).body;
      await mutate(client, `${member}Add`, { ...who, accessLevel: 'REPORTER', expiresAt: '2999-01-02' });
      expect(await read()).toMatchObject({ access_level: REPORTER, expires_at: '2999-01-02' });
      await mutate(client, `${member}Update`, { ...who, accessLevel: 'MAINTAINER', expiresAt: '2999-03-04' });
      expect(await read()).toMatchObject({ access_level: MAINTAINER, expires_at: '2999-03-04' });
      await mutate(client, `${member}Update`, { ...who, expiresAt: null });
      expect(await read()).toMatchObject({ access_level: MAINTAINER, expires_at: null });
      await mutate(client, `${member}Remove`, who);
      expect((await client.get(`${api}/members/${id}`)).status).toBe(404);
    }
  });

  it('are invited, with each attribute', async () => {
    const { api, path, full_path } = await places[kind]();
    const [email, other] = [`invited@${kind}.example.com`, `other@${kind}.example.com`];
    const read = async () => (await client.get(`${api}/invitations?query=invited`)).body;
    await mutate(client, 'invitationCreate', {
      ...path,
      email,
      accessLevel: 'REPORTER',
      expiresAt: '2999-01-02',
    });
    expect(await read()).toMatchObject([{ invite_email: email, access_level: REPORTER }]);
    expect((await read())[0].expires_at).toMatch(/^2999-01-02/);
    await mutate(client, 'invitationUpdate', { ...path, email, accessLevel: 'DEVELOPER', expiresAt: '2999-03-04' });
    expect(await read()).toMatchObject([{ access_level: DEVELOPER }]);
    expect((await read())[0].expires_at).toMatch(/^2999-03-04/);
    await mutate(client, 'invitationCreate', { ...path, email: other, accessLevel: 'GUEST' });
    await expectLists(client, `${kind}(fullPath: "${full_path}")`, 'invitations', 'email', [
      ['', [email, other]],
      ['search: "OTHER"', [other]],
    ]);
    await mutate(client, 'invitationDelete', { ...path, email });
    expect(await read()).toEqual([]);
  });

  it('request access, and are accepted or refused', async () => {
    const { api, path } = await places[kind]();
    const [welcome, unwelcome] = [await app().make.user(), await app().make.user()];
    for (const person of [welcome, unwelcome])
      await mutate(app().as(person), 'accessRequestCreate', path, 'accessRequest { user { username } }');
    const requests = async () => (await client.get(`${api}/access_requests`)).body.map(({ id }: { id: number }) => id);
    expect(await requests()).toEqual([welcome.id, unwelcome.id]);
    await mutate(client, 'accessRequestApprove', {
      ...path,
      userId: gid('User', welcome.id),
      accessLevel: 'REPORTER',
    });
    await mutate(client, 'accessRequestDeny', { ...path, userId: gid('User', unwelcome.id) });
    expect(await requests()).toEqual([]);
    expect((await client.get(`${api}/members/${welcome.id}`)).body).toMatchObject({ access_level: REPORTER });
    expect((await client.get(`${api}/members/${unwelcome.id}`)).status).toBe(404);
  });
});

describe('the removal of a group member', () => {
  it('spares memberships below the group if asked to', async () => {
    for (const skipSubresources of [true, false]) {
      const person = await app().make.user();
      const group = await app().make.group({}, owner);
      const project = await app().make.project({ namespace_id: group.id }, owner);
      await app().make.groupMember(group, person, GUEST);
      await app().make.projectMember(project, person, DEVELOPER);
      await mutate(client, 'groupMemberRemove', {
        groupPath: group.full_path,
        userId: gid('User', person.id),
        skipSubresources,
      });
      const { status } = await client.get(`/projects/${project.id}/members/${person.id}`);
      expect([skipSubresources, status]).toEqual([skipSubresources, skipSubresources ? 200 : 404]);
    }
  });
});
