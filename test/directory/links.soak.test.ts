import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup } from '../support/factories.ts';

const server = (name: string) => ({ name, url: 'ldap://127.0.0.1:1', base: 'dc=example,dc=org' });
const app = useApp({ env: { MILLRACE_LDAP_SERVERS: JSON.stringify([server('ldapmain'), server('ldapother')]) } });

let owner: TestUser;
let maintainer: TestUser;
let group: TestGroup;

const letOwners = (allow: boolean) =>
  app().as(app().root).put('/application/settings', { allow_group_owners_to_manage_ldap: allow });

beforeAll(async () => {
  await letOwners(true);
  owner = await app().make.user();
  maintainer = await app().make.user();
  group = await app().make.group({ visibility: 'private' }, owner);
  await app().make.groupMember(group, maintainer, 40);
});

const eventsOf = async (id: number, prefix: string): Promise<string[]> => {
  const rows = await app()
    .hub.services.db.selectFrom('events')
    .select(['kind', 'min_access_level'])
    .where('kind', 'like', `${prefix}%`)
    .where((where) => where(where.ref('namespace_ids'), '@>', where.val([id])))
    .orderBy('id')
    .execute();
  for (const { min_access_level } of rows) expect(min_access_level).toBe(50);
  return rows.map(({ kind }) => kind);
};

describe('LDAP group links', () => {
  const path = () => `/groups/${group.id}/ldap_group_links`;

  it('are created, listed and deleted by name and by filter, and emit events', async () => {
    const client = app().as(owner);
    const own = await app().make.group({}, owner);
    const links = `/groups/${own.id}/ldap_group_links`;
    const byName = { cn: 'Staff', group_access: 30, provider: 'ldapmain' };
    const made = await client.post(links, byName);
    expect(made).toMatchObject({ status: 201, body: { ...byName, filter: null } });
    const byFilter = { filter: '(departmentNumber=42)', group_access: 20, provider: 'ldapother' };
    expect(await client.post(links, byFilter)).toMatchObject({ status: 201, body: { ...byFilter, cn: null } });
    expect((await client.get(links)).body).toEqual([
      { ...byName, filter: null },
      { ...byFilter, cn: null },
    ]);
    expect((await client.get(`/groups/${own.id}`)).body).toMatchObject({ ldap_cn: 'Staff', ldap_access: 30 });

    expect(await client.delete(links, { filter: byFilter.filter, provider: 'ldapother' })).toMatchObject({
      status: 204,
      body: '',
    });
    expect((await client.delete(links, { cn: 'staff', provider: 'ldapother' })).status).toBe(404);
    expect((await client.delete(links, { cn: 'staff', provider: 'ldapmain' })).status).toBe(204);
    expect(await client.get(links)).toMatchObject({ status: 404, body: { message: 'No linked LDAP groups found' } });
    expect((await client.get(`/groups/${own.id}`)).body).toMatchObject({ ldap_cn: null, ldap_access: null });
    expect(await eventsOf(own.id, 'ldap_group_link.')).toEqual([
      'ldap_group_link.created',
      'ldap_group_link.created',
      'ldap_group_link.deleted',
      'ldap_group_link.deleted',
    ]);
  });

  it('are deleted at the deprecated paths too', async () => {
    const client = app().as(owner);
    for (const provider of ['ldapmain', 'ldapother']) {
      for (const cn of ['all/hands', 'team']) await client.post(path(), { cn, group_access: 10, provider });
    }
    expect((await client.delete(`${path()}/ldapmain/all%2Fhands`)).status).toBe(204);
    expect((await client.get(path())).body).toHaveLength(3);
    expect((await client.delete(`${path()}/team`)).status).toBe(204);
    expect((await client.get(path())).body).toMatchObject([{ cn: 'all/hands', provider: 'ldapother' }]);
    expect((await client.delete(`${path()}/team`)).status).toBe(404);
    expect((await client.delete(`${path()}/ldapother/all%2Fhands`)).status).toBe(204);
  });

  it.each([
    [{ group_access: 30, provider: 'ldapmain' }, 'cn, filter are missing'],
    [{ cn: 'a', filter: '(uid=a)', group_access: 30, provider: 'ldapmain' }, 'mutually exclusive'],
    [{ cn: 'a', provider: 'ldapmain' }, 'group_access is missing'],
    [{ cn: 'a', group_access: 30 }, 'provider is missing'],
    [
      { cn: 'a', group_access: 31, provider: 'ldapmain' },
      'group_access does not have a valid value (allowed: 5, 10, 15, 20, 30, 40, 50)',
    ],
    [{ cn: ' ', group_access: 30, provider: 'ldapmain' }, "can't be blank"],
    [{ cn: 'a', group_access: 30, provider: ' ' }, "can't be blank"],
    [{ cn: 'a', group_access: 30, provider: 'l'.repeat(256) }, 'is too long'],
    [{ filter: '(uid=a', group_access: 30, provider: 'ldapmain' }, 'must be a valid LDAP filter'],
    [{ filter: 'uid=a', group_access: 30, provider: 'ldapmain' }, 'must be a valid LDAP filter'],
    [{ filter: '('.repeat(1_900) + ')'.repeat(1_900), group_access: 30, provider: 'ldapmain' }, 'valid LDAP filter'],
  ])('are refused with %o', async (body, reason) => {
    const answer = await app().as(owner).post(path(), body);
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).toContain(reason);
    expect((await app().as(owner).get(path())).status).toBe(404);
  });

  it('are listed in pages, and a page beyond the last is empty', async () => {
    const client = app().as(owner);
    const own = await app().make.group({}, owner);
    const links = `/groups/${own.id}/ldap_group_links`;
    for (const cn of ['a', 'b', 'c']) await client.post(links, { cn, group_access: 10, provider: 'ldapmain' });
    const second = await client.get(`${links}?per_page=2&page=2`);
    expect(second.body).toMatchObject([{ cn: 'c' }]);
    expect(second.headers.get('x-total')).toBe('3');
    expect(await client.get(`${links}?page=9`)).toMatchObject({ status: 200, body: [] });
    const query = `query($path: ID!) { group(fullPath: $path) { ldapGroupLinks(first: 2) {
      count nodes { cn } pageInfo { hasNextPage } } } }`;
    expect((await client.graphql(query, { path: own.full_path })).data.group.ldapGroupLinks).toEqual({
      count: 3,
      nodes: [{ cn: 'a' }, { cn: 'b' }],
      pageInfo: { hasNextPage: true },
    });
  });

  it('are created only once by concurrent requests', async () => {
    const link = { cn: 'once', group_access: 30, provider: 'ldapmain' };
    const answers = await Promise.all([1, 2, 3].map(() => app().as(owner).post(path(), link)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 400, 400]);
    await app().as(owner).delete(path(), link);
  });

  it('are managed by administrators, and by Owners if the setting allows it', async () => {
    const root = app().as(app().root);
    const link = { cn: 'a', group_access: 10, provider: 'ldapmain' };
    const stranger = await app().make.user();
    const ways = (client: ReturnType<typeof app>['anonymous']) =>
      Promise.all([
        client.get(path()),
        client.post(path(), link),
        client.delete(path(), link),
        client.delete(`${path()}/a`),
        client.delete(`${path()}/ldapmain/a`),
      ]).then((answers) => answers.map(({ status }) => status));
    expect(await ways(app().anonymous)).toEqual(Array(5).fill(401));
    expect(await ways(app().as(stranger))).toEqual(Array(5).fill(404));
    expect(await ways(app().as(maintainer))).toEqual(Array(5).fill(403));
    await letOwners(false);
    try {
      expect(await ways(app().as(owner))).toEqual(Array(5).fill(403));
      expect((await root.post(path(), link)).status).toBe(201);
      expect((await root.delete(`${path()}/a`)).status).toBe(204);
    } finally {
      await letOwners(true);
    }
  });

  it('are synced on request of Owners, whatever the setting says', async () => {
    const { id, full_path } = await app().make.group({ visibility: 'private' }, owner);
    await app().make.groupMember({ id }, maintainer, 40);
    const sync = async (client: ReturnType<typeof app>['anonymous']) =>
      (await client.post(`/groups/${id}/ldap_sync`)).status;
    const shown = async (user: TestUser) =>
      (await app().as(user).graphql(`{ group(fullPath: "${full_path}") { ldapSync { state } } }`)).data.group.ldapSync;
    await letOwners(false);
    try {
      expect(await sync(app().anonymous)).toBe(401);
      expect(await sync(app().as(await app().make.user()))).toBe(404);
      expect(await sync(app().as(maintainer))).toBe(403);
      expect(await sync(app().as(owner))).toBe(202);
      expect(await shown(owner)).not.toBeNull();
      expect(await shown(maintainer)).toBeNull();
    } finally {
      await letOwners(true);
    }
  });
});

describe('an Owner who may not search the directory', () => {
  const app = useApp({ env: { MILLRACE_LDAP_SERVERS: JSON.stringify([server('ldapmain')]) } });

  it('cannot run a filter under the bind account by creating a group', async () => {
    const client = app().as(await app().make.user());
    const { id, full_path } = (await client.post('/groups', { name: 'probe', path: 'probe' })).body;
    const probe = { filter: '(description=secret*)', group_access: 10, provider: 'ldapmain' };
    expect((await client.post(`/groups/${id}/ldap_group_links`, probe)).status).toBe(403);
    const { errors } = await client.graphql(
      `mutation ($input: LdapGroupLinkCreateInput!) { ldapGroupLinkCreate(input: $input) { errors } }`,
      { input: { groupPath: full_path, provider: 'ldapmain', filter: probe.filter, groupAccess: 'GUEST' } },
    );
    expect(errors).toBeDefined();
    const { rows } = await app().hub.services.pool.query('select from ldap_group_links');
    expect(rows).toEqual([]);
  });
});

describe('SAML group links', () => {
  const path = () => `/groups/${group.id}/saml_group_links`;

  it('are created, listed, read and deleted, and emit events', async () => {
    const client = app().as(owner);
    const own = await app().make.group({}, owner);
    const links = `/groups/${own.id}/saml_group_links`;
    expect(await client.post(links, { saml_group_name: 'cn=a,dc=b/c', access_level: 40 })).toMatchObject({
      status: 201,
      body: { name: 'cn=a,dc=b/c', access_level: 40, member_role_id: null },
    });
    const custom = { name: 'custom', access_level: 10, member_role_id: 12 };
    expect((await client.post(links, { ...custom, saml_group_name: 'custom' })).body).toEqual(custom);
    expect(await client.get(links)).toMatchObject({ status: 200, body: [{ name: 'cn=a,dc=b/c' }, custom] });
    expect(await client.get(`${links}/cn%3Da%2Cdc%3Db%2Fc`)).toMatchObject({ status: 200, body: { access_level: 40 } });
    expect((await client.get(`${links}/none`)).status).toBe(404);
    expect(await client.delete(`${links}/custom`)).toMatchObject({ status: 204, body: '' });
    expect((await client.delete(`${links}/custom`)).status).toBe(404);
    expect((await client.get(links)).body).toHaveLength(1);
    expect(await eventsOf(own.id, 'saml_group_link.')).toEqual([
      'saml_group_link.created',
      'saml_group_link.created',
      'saml_group_link.deleted',
    ]);
  });

  it.each([
    [{ access_level: 30 }, 'saml_group_name is missing'],
    [{ saml_group_name: 'a' }, 'access_level is missing'],
    [
      { saml_group_name: 'a', access_level: 60 },
      'access_level does not have a valid value (allowed: 5, 10, 15, 20, 30, 40, 50)',
    ],
    [{ saml_group_name: '  ', access_level: 30 }, "can't be blank"],
    [{ saml_group_name: 'a'.repeat(256), access_level: 30 }, 'is too long'],
    [
      { saml_group_name: 'a', access_level: 30, member_role_id: 'x' },
      'member_role_id is invalid (allowed: a whole number)',
    ],
  ])('are refused with %o', async (body, reason) => {
    const answer = await app().as(owner).post(path(), body);
    expect(answer.status).toBe(400);
    expect(JSON.stringify(answer.body)).toContain(reason);
    expect((await app().as(owner).get(path())).body).toEqual([]);
  });

  it('are created only once by concurrent requests, and only by Owners', async () => {
    const link = { saml_group_name: 'once', access_level: 30 };
    const answers = await Promise.all([1, 2, 3].map(() => app().as(owner).post(path(), link)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 400, 400]);
    const stranger = await app().make.user();
    const ways = (client: ReturnType<typeof app>['anonymous']) =>
      Promise.all([
        client.get(path()),
        client.get(`${path()}/once`),
        client.post(path(), link),
        client.delete(`${path()}/once`),
      ]).then((answers) => answers.map(({ status }) => status));
    expect(await ways(app().anonymous)).toEqual([401, 401, 401, 401]);
    expect(await ways(app().as(stranger))).toEqual([404, 404, 404, 404]);
    expect(await ways(app().as(maintainer))).toEqual([403, 403, 403, 403]);
    expect((await app().as(owner).delete(`${path()}/once`)).status).toBe(204);
  });
});

describe('group links over GraphQL', () => {
  const links = `query($path: ID!) { group(fullPath: $path) {
    samlGroupLinks { nodes { name accessLevel { integerValue } memberRoleId } }
    ldapGroupLinks { nodes { provider cn filter groupAccess { integerValue } } }
    ldapSync { state } } }`;

  it('follow the same rules as over REST', async () => {
    const client = app().as(owner);
    const path = group.full_path;
    const saml = `mutation($path: ID!) { samlGroupLinkCreate(input: { groupPath: $path, samlGroupName: "g",
      accessLevel: DEVELOPER }) { samlGroupLink { name } errors } }`;
    expect((await client.graphql(saml, { path })).data.samlGroupLinkCreate).toEqual({
      samlGroupLink: { name: 'g' },
      errors: [],
    });
    expect((await client.graphql(saml, { path })).data.samlGroupLinkCreate).toEqual({
      samlGroupLink: null,
      errors: ['Saml group name has already been taken'],
    });
    const ldap = `mutation($path: ID!, $provider: String!) { ldapGroupLinkCreate(input: { groupPath: $path,
      provider: $provider, filter: "(uid=*)", groupAccess: GUEST }) { ldapGroupLink { cn filter } errors } }`;
    expect((await client.graphql(ldap, { path, provider: 'ldapmain' })).data.ldapGroupLinkCreate).toEqual({
      ldapGroupLink: { cn: null, filter: '(uid=*)' },
      errors: [],
    });
    expect((await client.graphql(ldap, { path, provider: ' ' })).data.ldapGroupLinkCreate.errors).toEqual([
      "Provider can't be blank",
    ]);
    expect((await client.graphql(links, { path })).data.group).toEqual({
      samlGroupLinks: { nodes: [{ name: 'g', accessLevel: { integerValue: 30 }, memberRoleId: null }] },
      ldapGroupLinks: {
        nodes: [{ provider: 'ldapmain', cn: null, filter: '(uid=*)', groupAccess: { integerValue: 10 } }],
      },
      ldapSync: null,
    });
    expect((await app().as(maintainer).graphql(links, { path })).data.group).toEqual({
      samlGroupLinks: null,
      ldapGroupLinks: null,
      ldapSync: null,
    });
    for (const who of [app().as(maintainer), app().as(await app().make.user())]) {
      const { data, errors } = await who.graphql(saml, { path });
      expect(data.samlGroupLinkCreate).toBeNull();
      expect(errors?.[0]?.message).toContain("does not exist or you don't have permission");
      expect((await who.graphql(ldap, { path, provider: 'ldapmain' })).errors).toHaveLength(1);
    }
    const drop = `mutation($path: ID!) {
      samlGroupLinkDelete(input: { groupPath: $path, samlGroupName: "g" }) { errors }
      ldapGroupLinkDelete(input: { groupPath: $path, provider: "ldapmain", filter: "(uid=*)" }) { errors } }`;
    expect((await client.graphql(drop, { path })).errors).toBeUndefined();
    expect((await client.graphql(links, { path })).data.group).toMatchObject({
      samlGroupLinks: { nodes: [] },
      ldapGroupLinks: { nodes: [] },
    });
  });
});
