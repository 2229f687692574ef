import { describe, expect, it } from 'vitest';
import { DEVELOPER, MAINTAINER } from '#domains/access/model.ts';
import { gid } from '#graphql/ids.ts';
import { useApp } from '../support/app.ts';
import { expectLists, mutate } from '../support/graphql.ts';

// Sets the arguments of the smaller domains that their own tests leave out.

const app = useApp({
  env: {
    MILLRACE_LDAP_SERVERS: JSON.stringify([{ name: 'ldapmain', url: 'ldap://127.0.0.1:1', base: 'dc=example,dc=org' }]),
  },
});
const root = () => app().as(app().root);

describe('over GraphQL', () => {
  it('a runner is created with each attribute, and found by whether it is paused', async () => {
    const owner = await app().make.user();
    const { id } = await app().make.group({}, owner);
    const project = await app().make.project({}, owner);
    const attributes = {
      description: 'Builds',
      maintenanceNote: 'Ask Ada',
      paused: true,
      runUntagged: false,
      tagList: ['linux'],
      accessLevel: 'REF_PROTECTED',
      maximumTimeout: 1200,
    };
    const { runner } = await mutate(
      app().as(owner),
      'runnerCreate',
      { runnerType: 'GROUP_TYPE', groupId: gid('Group', id), ...attributes },
      `runner { id group { id } ${Object.keys(attributes).join(' ')} }`,
    );
    expect(runner).toMatchObject({ ...attributes, group: { id: gid('Group', id) } });
    // Only runners of projects can be locked.
    for (const [target, locked] of [
      [{ runnerType: 'GROUP_TYPE', groupId: gid('Group', id) }, false],
      [{ runnerType: 'PROJECT_TYPE', projectId: gid('Project', project.id) }, true],
    ] as const) {
      const input = { ...target, locked: true, tagList: ['x'] };
      const answer = await mutate(app().as(owner), 'runnerCreate', input, 'runner { locked }');
      expect(answer.runner.locked).toBe(locked);
    }
    await mutate(root(), 'runnerCreate', { runnerType: 'INSTANCE_TYPE', description: 'Idle', tagList: ['x'] });
    await expectLists(root(), '', 'runners', 'description', [
      ['paused: true', ['Builds']],
      ['paused: true, search: "idle"', []],
      ['paused: false, search: "idle"', ['Idle']],
      ['tagList: ["x"], paused: false, search: "idle", sort: CONTACTED_DESC', ['Idle']],
    ]);
  });

  it('an upload is deleted by its secret and name', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    const form = new FormData();
    form.append('file', new Blob(['text']), 'notes.txt');
    const { body } = await client.post(`/projects/${project.id}/uploads`, form);
    const [, secret] = /\/uploads\/([0-9a-f]+)\/notes\.txt$/.exec(body.url) ?? [];
    const listed = async () => (await client.get(`/projects/${project.id}/uploads`)).body;
    expect(await listed()).toHaveLength(1);
    await mutate(client, 'uploadDelete', {
      projectPath: project.path_with_namespace,
      secret,
      filename: 'notes.txt',
    });
    expect(await listed()).toEqual([]);
  });

  it('feature flags are read by name', async () => {
    const { data } = await root().graphql('{ metadata { featureFlags(names: ["a", "b"]) { name enabled } } }');
    expect(data.metadata.featureFlags).toEqual([
      { name: 'a', enabled: false },
      { name: 'b', enabled: false },
    ]);
  });

  it('topics are listed by whether a project has them', async () => {
    await root().post('/topics', { name: 'unused', title: 'Unused' });
    await app().make.project({ topics: ['used'] });
    await expectLists(root(), '', 'topics', 'name', [
      ['', ['unused', 'used']],
      ['withoutProjects: true', ['unused']],
    ]);
  });

  it('custom attributes are deleted by key', async () => {
    const { id } = await app().make.user();
    for (const key of ['kept', 'gone']) await root().put(`/users/${id}/custom_attributes/${key}`, { value: 'v' });
    await mutate(root(), 'customAttributeDelete', { ownerId: gid('User', id), key: 'gone' });
    expect((await root().get(`/users/${id}/custom_attributes`)).body).toEqual([{ key: 'kept', value: 'v' }]);
  });

  it('an application of OAuth is written with each attribute', async () => {
    const FIELDS = 'oauthApplication { id redirectUris scopes confidential trusted }';
    const { oauthApplication: made } = await mutate(
      root(),
      'oauthApplicationCreate',
      { name: 'App', redirectUris: ['https://a.example/cb'], scopes: ['api'], confidential: false, forHub: true },
      FIELDS,
    );
    expect(made).toMatchObject({ confidential: false, trusted: false });
    const wanted = {
      redirectUris: ['https://b.example/cb', 'https://c.example/cb'],
      scopes: ['read_api', 'openid'],
      trusted: true,
    };
    const { oauthApplication } = await mutate(root(), 'oauthApplicationUpdate', { id: made.id, ...wanted }, FIELDS);
    expect(oauthApplication).toMatchObject(wanted);
  });

  it('groups are linked to groups of LDAP and SAML', async () => {
    const { id, full_path: groupPath } = await app().make.group();
    const link = { groupPath, provider: 'ldapmain', cn: 'Staff' };
    await mutate(root(), 'ldapGroupLinkCreate', { ...link, groupAccess: 'DEVELOPER' });
    const links = async () => (await root().get(`/groups/${id}/ldap_group_links`)).body;
    expect(await links()).toMatchObject([{ provider: 'ldapmain', cn: 'Staff', group_access: DEVELOPER }]);
    await mutate(root(), 'groupLdapSync', { groupPath });
    const syncs = await app()
      .hub.services.db.selectFrom('ldap_syncs')
      .select('namespace_id')
      .where('namespace_id', '=', id)
      .execute();
    expect(syncs).toEqual([{ namespace_id: id }]);
    await mutate(root(), 'ldapGroupLinkDelete', link);
    const { rows } = await app().hub.services.pool.query('select from ldap_group_links where namespace_id = $1', [id]);
    expect(rows).toEqual([]);
    await mutate(root(), 'samlGroupLinkCreate', {
      groupPath,
      samlGroupName: 'Guild',
      accessLevel: 'MAINTAINER',
      memberRoleId: 7,
    });
    expect((await root().get(`/groups/${id}/saml_group_links`)).body).toEqual([
      { name: 'Guild', access_level: MAINTAINER, member_role_id: 7 },
    ]);
  });

  it('settings are written that restrict tokens, addresses and branches', async () => {
    const client = app().as(await app().make.user());
    const create = async () => {
      const input = { name: 'mine', scopes: ['api'] };
      const { data, errors } = await root().graphql(
        'mutation ($i: PersonalAccessTokenCreateInput!) { personalAccessTokenCreate(input: $i) { errors } }',
        { i: { ...input, userId: gid('User', (await app().make.user()).id) } },
      );
      return errors === undefined && data.personalAccessTokenCreate.errors.length === 0;
    };
    const protection = {
      allowed_to_push: [{ access_level: DEVELOPER }],
      allowed_to_merge: [{ access_level: MAINTAINER }],
      allow_force_push: true,
      developer_can_initial_push: true,
      code_owner_approval_required: false,
    };
    expect([await create(), (await client.get('/user')).status]).toEqual([true, 200]);
    await mutate(root(), 'applicationSettingsUpdate', {
      defaultBranchProtectionDefaults: protection,
      disablePersonalAccessTokens: true,
      emailRestrictionsEnabled: true,
      emailRestrictions: '@refused\\.example$',
    });
    expect([await create(), (await client.get('/user')).status]).toEqual([false, 401]);
    const group = await app().make.group();
    const { default_branch_protection_defaults } = (await root().get(`/groups/${group.id}`)).body;
    expect(default_branch_protection_defaults).toMatchObject(protection);
    const newcomer = (domain: string) =>
      root().post('/users', {
        name: 'N',
        username: `newcomer-${domain}`,
        email: `newcomer@${domain}.example`,
        force_random_password: true,
      });
    expect((await newcomer('refused')).status).toBe(400);
    expect((await newcomer('accepted')).status).toBe(201);
  });
});
