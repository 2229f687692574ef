import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { statementsOf } from '../support/statements.ts';

const app = useApp();
const UNAVAILABLE =
  "The resource that you are attempting to access does not exist or you don't have permission to perform this action";

const mutate = (name: string, input: string, payload: string) =>
  `mutation($i: ${input}!) { ${name}(input: $i) { ${payload} errors } }`;

describe('groups over GraphQL', () => {
  it('are created, changed, moved, shared and deleted by the same rules', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const client = as(owner);
    const created = await client.graphql(
      mutate('groupCreate', 'GroupCreateInput', 'group { id fullPath visibility }'),
      {
        i: { name: 'Graph', path: 'graph', visibility: 'internal', twoFactorGracePeriod: 5 },
      },
    );
    const id = created.data.groupCreate.group.id;
    expect(created.data.groupCreate).toEqual({
      group: { id: expect.stringMatching(/^gid:\/\/gitlab\/Group\/\d+$/), fullPath: 'graph', visibility: 'internal' },
      errors: [],
    });
    const taken = await client.graphql(mutate('groupCreate', 'GroupCreateInput', 'group { id }'), {
      i: { name: 'Graph', path: 'Graph' },
    });
    expect(taken.data.groupCreate).toEqual({ group: null, errors: ['Path has already been taken'] });
    const updated = await client.graphql(
      mutate(
        'groupUpdate',
        'GroupUpdateInput',
        'group { id name fullPath description twoFactorGracePeriod emailsDisabled }',
      ),
      { i: { fullPath: 'graph', path: 'graph2', description: 'a <b>', emailsEnabled: false } },
    );
    expect(updated.data.groupUpdate.group).toEqual({
      id,
      name: 'Graph',
      fullPath: 'graph2',
      description: 'a <b>',
      twoFactorGracePeriod: 5,
      emailsDisabled: true,
    });
    const other = await make.group({ name: 'Other' }, owner);
    const shared = await client.graphql(
      mutate(
        'groupShare',
        'GroupShareInput',
        'group { sharedWithGroups { accessLevel { integerValue stringValue } expiresAt sharedWithGroup { fullPath } } }',
      ),
      { i: { fullPath: 'graph2', sharedWithPath: other.path, accessLevel: 'DEVELOPER', expiresAt: '2999-01-01' } },
    );
    expect(shared.data.groupShare.group.sharedWithGroups).toEqual([
      {
        accessLevel: { integerValue: 30, stringValue: 'DEVELOPER' },
        expiresAt: '2999-01-01',
        sharedWithGroup: { fullPath: other.path },
      },
    ]);
    const unshared = await client.graphql(
      mutate('groupUnshare', 'GroupUnshareInput', 'group { sharedWithGroups { expiresAt } }'),
      { i: { fullPath: 'graph2', sharedWithPath: other.path } },
    );
    expect(unshared.data.groupUnshare.group.sharedWithGroups).toEqual([]);
    const moved = await client.graphql(
      mutate('groupTransfer', 'GroupTransferInput', 'group { fullPath parent { name } }'),
      {
        i: { fullPath: other.path, parentPath: 'graph2' },
      },
    );
    expect(moved.data.groupTransfer.group).toEqual({ fullPath: `graph2/${other.path}`, parent: { name: 'Graph' } });
    // REST returns the same values.
    expect((await client.get('/groups/graph2?with_projects=false')).body).toMatchObject({
      description: 'a <b>',
      visibility: 'internal',
      two_factor_grace_period: 5,
    });
    const stranger = as(await make.user());
    const denied = await stranger.graphql(mutate('groupDelete', 'GroupDeleteInput', ''), { i: { fullPath: 'graph2' } });
    expect(denied.errors?.[0]?.message).toBe(UNAVAILABLE);
    const removed = await client.graphql(mutate('groupDelete', 'GroupDeleteInput', ''), { i: { fullPath: 'graph2' } });
    expect(removed.data.groupDelete).toEqual({ errors: [] });
    expect((await client.graphql('{ group(fullPath: "graph2") { id } }')).data.group).toBeNull();
  });

  it('are listed and nested without revealing hidden groups', async () => {
    const { make, as, anonymous } = app();
    const owner = await make.user();
    const stranger = await make.user();
    const top = await make.group({ name: 'Nest', visibility: 'public', description: 'one\n\n<two>' }, owner);
    await make.group({ name: 'Nest open', visibility: 'public', parent_id: top.id }, owner);
    await make.group({ name: 'Nest secret', parent_id: top.id }, owner);
    await make.project({ namespace_id: top.id, visibility: 'public' }, owner);
    const query = `{ groups(search: "Nest", sort: NAME_DESC) { count nodes { name descendantGroupsCount projectsCount groupMembersCount
      descendantGroups(first: 1) { count nodes { name } pageInfo { hasNextPage } } } } }`;
    const seen = (descendants: number, more: boolean) => ({
      name: 'Nest',
      descendantGroupsCount: descendants,
      projectsCount: 1,
      groupMembersCount: 1,
      descendantGroups: { count: descendants, nodes: [{ name: 'Nest open' }], pageInfo: { hasNextPage: more } },
    });
    const mine = (await as(owner).graphql(query)).data.groups;
    expect([mine.count, mine.nodes.map((node: { name: string }) => node.name), mine.nodes.at(-1)]).toEqual([
      3,
      ['Nest secret', 'Nest open', 'Nest'],
      seen(2, true),
    ]);
    for (const client of [as(stranger), anonymous]) {
      const { data } = await client.graphql(query);
      expect([data.groups.count, data.groups.nodes.at(-1)]).toEqual([2, seen(1, false)]);
    }
    const one = await anonymous.graphql(
      `{ group(fullPath: "${top.path}") { descriptionHtml groupMembers { count } maxAccessLevel { stringValue } rootStorageStatistics { storageSize } } }`,
    );
    expect(one.data.group).toEqual({
      descriptionHtml: '<p dir="auto">one</p>',
      groupMembers: null,
      maxAccessLevel: { stringValue: 'NO_ACCESS' },
      rootStorageStatistics: null,
    });
    const own = await as(owner).graphql(`{ group(fullPath: "${top.path}") { rootStorageStatistics { storageSize } } }`);
    expect(own.data.group.rootStorageStatistics).toEqual({ storageSize: 0 });
    const none = await as(stranger).graphql(`{ groups(parentPath: "${top.path}/nothing") { count } }`);
    expect(none.data.groups.count).toBe(0);
  });

  it('share the namespace query with personal namespaces', async () => {
    const { make, as } = app();
    const user = await make.user();
    const { data } = await as(user).graphql(
      `{ namespace(fullPath: "${user.username}") { id fullPath kind visibility webUrl sharedRunnersSetting } }`,
    );
    expect(data.namespace).toEqual({
      id: expect.stringMatching(/^gid:\/\/gitlab\/Namespaces::UserNamespace\/\d+$/),
      fullPath: user.username,
      kind: 'user',
      visibility: 'public',
      webUrl: `${app().url}/${user.username}`,
      sharedRunnersSetting: 'ENABLED',
    });
  });

  it('need only a few statements, however many there are', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const tops = [];
    for (let i = 0; i < 6; i++) tops.push(await make.group({ name: `Many ${i}` }, owner));
    for (const top of tops) await make.group({ parent_id: top.id }, owner);
    const query = `{ groups(search: "Many", first: 20) { nodes { parent { name } descendantGroupsCount rootStorageStatistics { storageSize }
      descendantGroups { count nodes { name } } sharedWithGroups { expiresAt }
      groupMembers { count nodes { user { username } createdBy { username } group { name } accessLevel { integerValue } } } } } }`;
    const client = as(owner);
    await client.graphql(query);
    const { count: statements, result } = await statementsOf(app(), () => client.graphql(query));
    const { data } = result;
    expect(data.groups.nodes).toHaveLength(6);
    expect(data.groups.nodes[0].groupMembers.nodes).toEqual([
      {
        user: { username: owner.username },
        createdBy: { username: owner.username },
        group: { name: 'Many 0' },
        accessLevel: { integerValue: 50 },
      },
    ]);
    expect(statements).toBeGreaterThan(3);
    expect(statements).toBeLessThan(16);
  });
});
