import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

// The parameters of members, invitations and access requests, on groups as on projects.

const app = useApp();

const EXPIRY = '2099-01-31';
let owner: TestUser;
let client: Client;
let group: TestGroup;
let project: TestProject;

beforeAll(async () => {
  owner = await app().make.user();
  client = app().as(owner);
  group = await app().make.group({ visibility: 'public' }, owner);
  project = await app().make.project({ namespace_id: group.id, visibility: 'public' }, owner);
});

const pathOf = (kind: 'groups' | 'projects') => `/${kind}/${kind === 'groups' ? group.id : project.id}`;

describe.each(['groups', 'projects'] as const)('members of %s', (kind) => {
  it('are found by name, chosen and left out by id', async () => {
    const [ann, bob] = [
      await app().make.user({ name: `Ann Heron of ${kind}` }),
      await app().make.user({ name: `Bob Egret of ${kind}` }),
    ];
    for (const user of [ann, bob]) {
      if (kind === 'groups') await app().make.groupMember(group, user, 30);
      else await app().make.projectMember(project, user, 30);
    }
    for (const list of ['members', 'members/all']) {
      const found = async (query: string) => {
        const { status, body } = await client.get(`${pathOf(kind)}/${list}?${query}`);
        expect([status, body]).toEqual([200, expect.any(Array)]);
        return body.map(({ id }: { id: number }) => id).filter((id: number) => id === ann.id || id === bob.id);
      };
      expect(await found('')).toEqual([ann.id, bob.id]);
      expect(await found('query=HERON')).toEqual([ann.id]);
      expect(await found(`query=${bob.username}`)).toEqual([bob.id]);
      expect(await found('query=nobody')).toEqual([]);
      expect(await found(`user_ids=${bob.id}`)).toEqual([bob.id]);
      expect(await found(`user_ids[]=${bob.id}&user_ids[]=${ann.id}`)).toEqual([ann.id, bob.id]);
      expect(await found(`skip_users=${bob.id}`)).toEqual([ann.id]);
    }
  });

  it('are added by username, with an expiry that can be moved and removed', async () => {
    const user = await app().make.user();
    const made = await client.post(`${pathOf(kind)}/members`, {
      username: user.username,
      access_level: 20,
      expires_at: EXPIRY,
    });
    expect(made).toMatchObject({ status: 201, body: { id: user.id, access_level: 20, expires_at: EXPIRY } });
    const at = `${pathOf(kind)}/members/${user.id}`;
    const later = { access_level: 30, expires_at: '2099-02-28' };
    expect((await client.put(at, later)).body).toMatchObject(later);
    expect((await client.get(at)).body).toMatchObject(later);
    expect((await client.put(at, { access_level: 30, expires_at: null })).body).toMatchObject({ expires_at: null });
  });

  it('are invited with an expiry, and the invitations are found and changed', async () => {
    const path = `${pathOf(kind)}/invitations`;
    const email = `guest-of-${kind}@example.com`;
    const other = `other-of-${kind}@example.org`;
    const sent = await client.post(path, { email: `${email},${other}`, access_level: 10, expires_at: EXPIRY });
    expect([sent.status, sent.body]).toEqual([201, { status: 'success' }]);
    const found = async (query: string) =>
      (await client.get(`${path}?query=${query}`)).body.map((each: { invite_email: string }) => each.invite_email);
    expect(await found(`GUEST-of-${kind}`)).toEqual([email]);
    expect(await found('nobody')).toEqual([]);
    const [row] = (await client.get(`${path}?query=guest`)).body;
    expect(row).toMatchObject({ invite_email: email, access_level: 10, expires_at: EXPIRY });
    const changed = { access_level: 20, expires_at: '2099-02-28' };
    expect((await client.put(`${path}/${encodeURIComponent(email)}`, changed)).body).toMatchObject(changed);
    expect((await client.get(`${path}?query=guest`)).body).toMatchObject([changed]);
  });

  it('get the approved level when they asked for access', async () => {
    const user = await app().make.user();
    expect(
      (
        await app()
          .as(user)
          .post(`${pathOf(kind)}/access_requests`)
      ).status,
    ).toBe(201);
    const approved = await client.put(`${pathOf(kind)}/access_requests/${user.id}/approve`, { access_level: 20 });
    expect(approved).toMatchObject({ status: 201, body: { id: user.id, access_level: 20 } });
    expect((await client.get(`${pathOf(kind)}/members/${user.id}`)).body).toMatchObject({ access_level: 20 });
  });
});

it('members have pages in both directions over GraphQL, and none without a relation', async () => {
  const people = [await app().make.user(), await app().make.user(), await app().make.user()];
  const paged = await app().make.group({}, owner);
  for (const user of people) await app().make.groupMember(paged, user, 10);
  const members = async (args: string) => {
    const { data, errors } = await client.graphql(
      `{ group(fullPath: "${paged.full_path}") { groupMembers(${args}) {
        nodes { user { username } } pageInfo { startCursor endCursor hasNextPage hasPreviousPage } } } }`,
    );
    expect(errors).toBeUndefined();
    const { nodes, pageInfo } = data.group.groupMembers;
    return { names: nodes.map(({ user }: { user: { username: string } }) => user.username), ...pageInfo };
  };
  const all = [owner, ...people].map(({ username }) => username);
  const first = await members('first: 2');
  expect(first).toMatchObject({ names: all.slice(0, 2), hasNextPage: true });
  expect(await members(`first: 2, after: "${first.endCursor}"`)).toMatchObject({
    names: all.slice(2),
    hasNextPage: false,
  });
  const last = await members('last: 1');
  expect(last.names).toEqual(all.slice(3));
  expect(await members(`last: 2, before: "${last.startCursor}"`)).toMatchObject({
    names: all.slice(1, 3),
    hasPreviousPage: true,
  });
  expect((await members('relations: []')).names).toEqual([]);
});
