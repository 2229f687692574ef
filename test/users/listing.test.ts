import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);

const ids = async (query: string, client = admin()): Promise<number[]> => {
  const { status, body } = await client.get(`/users?per_page=100&${query}`);
  expect(status).toBe(200);
  return body.map(({ id }: { id: number }) => id);
};

const db = () => app().hub.services.db;

describe('a filter for administrators', () => {
  it('finds auditors, administrators, second factors and users without projects', async () => {
    const auditor = await app().make.user({ is_auditor: true });
    const safe = await app().make.user({ two_factor_enabled: true });
    const owner = await app().make.user();
    await app().make.project({}, owner);
    const member = await app().make.user();
    await app().make.projectMember(await app().make.project(), member, 20);
    expect(await ids('auditors=true')).toEqual([auditor.id]);
    expect(await ids('two_factor=enabled')).toEqual([safe.id]);
    const without = await ids('two_factor=disabled');
    expect(without).not.toContain(safe.id);
    expect(without).toContain(owner.id);
    const idle = await ids('without_projects=true');
    expect(idle).toContain(auditor.id);
    expect(idle).not.toContain(owner.id);
    expect(idle).not.toContain(member.id);
    expect(await ids('without_projects=false')).toContain(owner.id);
  });

  it('finds identities by provider and name together', async () => {
    const [saml, ldap, scim] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const insert = (user: TestUser, provider: string, extern_uid: string, saml_provider_id: number | null = null) =>
      db().insertInto('identities').values({ user_id: user.id, provider, extern_uid, saml_provider_id }).execute();
    await insert(saml, 'group_saml', 'same', 31);
    await insert(ldap, 'ldapsecondary', 'same');
    await db()
      .insertInto('scim_identities')
      .values({ user_id: scim.id, group_id: 1, extern_uid: 'same', active: true })
      .execute();
    expect(await ids('provider=group_saml&extern_uid=same')).toEqual([saml.id]);
    expect(await ids('provider=ldapsecondary&extern_uid=same')).toEqual([ldap.id]);
    expect(await ids('provider=scim&extern_uid=same')).toEqual([scim.id]);
    expect(await ids('provider=scim&extern_uid=other')).toEqual([]);
    expect(await ids('saml_provider_id=31')).toEqual([saml.id]);
    const connected = await ids('skip_ldap=true');
    expect(connected).toContain(saml.id);
    expect(connected).not.toContain(ldap.id);
    for (const half of ['provider=scim', 'extern_uid=same']) {
      const { status, body } = await admin().get(`/users?${half}`);
      expect([status, body]).toEqual([400, { error: 'extern_uid, provider provide all or none of parameters' }]);
    }
    expect((await admin().get(`/users/${scim.id}`)).body.scim_identities).toEqual([
      { extern_uid: 'same', group_id: 1, active: true },
    ]);
  });

  it('is ignored for other callers, and so reveals nothing', async () => {
    const user = await app().make.user();
    const client = app().as(user);
    await app().make.user({ is_auditor: true, two_factor_enabled: true });
    const all = await ids('', client);
    for (const query of [
      'admins=true',
      'auditors=true',
      'two_factor=enabled',
      'without_projects=true',
      'provider=ldapmain&extern_uid=x',
      'saml_provider_id=1',
      'skip_ldap=true',
    ]) {
      expect(await ids(query, client), query).toEqual(all);
    }
  });
});

describe('a filter for everyone', () => {
  it('applies only if it is true', async () => {
    const blocked = await app().make.user({ state: 'blocked' });
    const external = await app().make.user({ external: true });
    const client = app().as(await app().make.user());
    expect(await ids('active=false&blocked=false&external=false', client)).toEqual(await ids('', client));
    expect(await ids('blocked=true', client)).toContain(blocked.id);
    expect(await ids('external=true', client)).toContain(external.id);
    expect((await client.get('/users?active=maybe')).body).toEqual({
      error: 'active is invalid (allowed: true, false)',
    });
  });

  it('accepts a period of time, including both ends', async () => {
    const user = await app().make.user({ created_at: '2001-02-03T04:05:06Z' });
    const span = (from: string, to: string) => ids(`created_after=${from}&created_before=${to}`);
    expect(await span('2001-02-03T04:05:06Z', '2001-02-03T04:05:06Z')).toEqual([user.id]);
    expect(await span('2001-02-03T04:05:07Z', '2001-12-31')).toEqual([]);
    expect((await admin().get('/users?created_after=yesterday')).status).toBe(400);
  });

  it('excludes bots of the hub, or those of projects and groups', async () => {
    const [support, project] = [
      await app().make.user({ user_type: 'support_bot' }),
      await app().make.user({ user_type: 'project_bot' }),
    ];
    expect(await ids('exclude_internal=true')).not.toContain(support.id);
    expect(await ids('exclude_internal=true')).toContain(project.id);
    expect(await ids('without_project_bots=true')).not.toContain(project.id);
    expect(await ids('without_project_bots=true')).toContain(support.id);
  });
});

describe('searching', () => {
  it('finds confirmed secondary addresses and private ones for administrators', async () => {
    const user = await app().make.user();
    const [sure, unsure] = [`sure-${user.username}@find.test`, `unsure-${user.username}@find.test`];
    await db()
      .insertInto('emails')
      .values([
        { user_id: user.id, email: sure, confirmed_at: '2024-01-01' },
        { user_id: user.id, email: unsure },
      ])
      .execute();
    const client = app().as(await app().make.user());
    expect(await ids(`search=${sure.toUpperCase()}`)).toEqual([user.id]);
    expect(await ids(`search=${unsure}`)).toEqual([]);
    expect(await ids(`search=${user.username}@example.com`)).toEqual([user.id]);
    expect(await ids(`search=${sure}`, client)).toEqual([]);
    expect(await ids(`search=${user.username}@example.com`, client)).toEqual([]);
    await admin().put(`/users/${user.id}`, { public_email: sure });
    expect(await ids(`search=${sure}`, client)).toEqual([user.id]);
    expect(await ids(`search=${sure.slice(0, -1)}`, client)).toEqual([]);
  });

  it('accepts a single letter, and takes pattern characters literally', async () => {
    const user = await app().make.user({ username: 'q_under', name: 'Qé 50% \\ back' });
    expect(await ids('search=q_u')).toEqual([user.id]);
    expect(await ids('search=q_')).toEqual([user.id]);
    expect(await ids(`search=${encodeURIComponent('0% \\')}`)).toEqual([user.id]);
    expect(await ids(`search=${encodeURIComponent('QÉ 5')}`)).toEqual([user.id]);
    expect(await ids('search=q%25u')).toEqual([]);
    expect((await admin().get(`/users?search=${'x'.repeat(256)}`)).status).toBe(400);
    expect((await admin().get('/users?search=a%00b')).status).toBe(400);
  });

  it('finds names that have each of several words, in any order', async () => {
    const user = await app().make.user({ username: 'wordy_one', name: 'Maria del Carmen Quintero' });
    const other = await app().make.user({ username: 'quintero-maria', name: 'Someone' });
    const found = (words: string) => ids(`search=${encodeURIComponent(words)}`);
    expect(await found('maria QUINTERO')).toEqual([other.id, user.id]);
    expect(await found('  quintero   del ')).toEqual([user.id]);
    expect(await found('el in ca')).toEqual([user.id]);
    // All words are in the name, or all in the user name.
    expect(await found('wordy carmen')).toEqual([]);
    expect(await found('maria quintana')).toEqual([]);
    const many = 'm a r i d e l c n q u';
    expect(await found(many)).toEqual([]);
    expect(await found(many.slice(0, 15))).toContain(user.id);
  });
});

describe('the order', () => {
  it('is by id, newest first, by default', async () => {
    await app().make.user({ username: 'aaa-first', name: 'zzz' });
    await app().make.user({ username: 'zzz-last', name: 'AAA' });
    const all = await ids('');
    expect(all).toEqual(all.toSorted((left, right) => right - left));
    const names = async (query: string) =>
      (await admin().get(`/users?per_page=100&${query}`)).body.map((user: { username: string }) => user.username);
    const byUsername = await names('order_by=username&sort=asc');
    expect(byUsername.indexOf('aaa-first')).toBeLessThan(byUsername.indexOf('zzz-last'));
    expect(await names('order_by=username&sort=desc')).toEqual(byUsername.toReversed());
    expect((await admin().get('/users?order_by=email')).status).toBe(400);
    expect((await admin().get('/users?sort=up')).status).toBe(400);
  });
});
