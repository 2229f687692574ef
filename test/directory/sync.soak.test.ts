import { Attribute, Change } from 'ldapts';
import { afterAll, describe, expect, it } from 'vitest';
import { syncAll, syncGroup } from '#domains/directory/jobs.ts';
import { Visitor } from '../pages/visitor.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup } from '../support/factories.ts';
import { until } from '../support/until.ts';
import { ADMIN, ADMIN_PASSWORD, Directory, GROUPS, hasSlapd, PEOPLE, PERSON_PASSWORD } from './slapd.ts';

// These tests need Debian's package slapd. They are reported as skipped if it is not installed.
const main = hasSlapd ? await Directory.start() : null;
const other = hasSlapd ? await Directory.start() : null;
const directory = (which: Directory | null = main): Directory => {
  if (!which) throw new Error('slapd is not installed');
  return which;
};
afterAll(() => Promise.all([main?.remove(), other?.remove()]));

const server = (name: string, url: string) => ({
  name,
  url,
  label: `Directory ${name}`,
  bind_dn: ADMIN,
  password: ADMIN_PASSWORD,
  base: PEOPLE,
  group_base: GROUPS,
  timeout_seconds: 5,
});
const app = useApp({
  env: {
    MILLRACE_LDAP_SERVERS: JSON.stringify([
      { ...server('ldapmain', main?.url ?? 'ldap://127.0.0.1:1'), create_users: true },
      { ...server('ldapother', other?.url ?? 'ldap://127.0.0.1:1'), user_filter: '(!(employeeType=robot))' },
      { ...server('ldapwrong', main?.url ?? 'ldap://127.0.0.1:1'), password: 'not it' },
    ]),
  },
});
const db = () => app().hub.services.db;
const root = () => app().as(app().root);

let count = 0;
const name = (): string => `person${++count}`;

/** Creates a user and a person in the directory, linked by an identity in another letter case. */
const known = async (which = directory(), provider = 'ldapmain'): Promise<{ user: TestUser; dn: string }> => {
  const user = await app().make.user();
  const dn = await which.person(name());
  const extern_uid = dn.toUpperCase();
  await db().insertInto('identities').values({ user_id: user.id, provider, extern_uid }).execute();
  return { user, dn };
};

const change = (type: string, value: string): Change =>
  new Change({ operation: 'replace', modification: new Attribute({ type, values: [value] }) });

const membersOf = async (group: TestGroup): Promise<Record<number, number>> => {
  const { body } = await root().get(`/groups/${group.id}/members?per_page=100`);
  const found = body.filter((member: { id: number }) => member.id !== app().root.id);
  return Object.fromEntries(
    found.map((member: { id: number; access_level: number }) => [member.id, member.access_level]),
  );
};

const linkTo = async (group: TestGroup, link: Record<string, unknown>): Promise<void> => {
  const answer = await root().post(`/groups/${group.id}/ldap_group_links`, { provider: 'ldapmain', ...link });
  expect(answer.status).toBe(201);
};

const sync = async (group: TestGroup) => {
  const answer = await root().post(`/groups/${group.id}/ldap_sync`);
  expect(answer).toMatchObject({ status: 202, body: { message: '202 Accepted' } });
  return until('the sync to end', async () => {
    const query = `query($path: ID!) { group(fullPath: $path) {
      ldapSync { state total processed added changed removed error startedAt finishedAt } } }`;
    const { ldapSync } = (await root().graphql(query, { path: group.full_path })).data.group;
    return ['FINISHED', 'FAILED'].includes(ldapSync.state) && ldapSync;
  });
};

const kindsOf = async (group: TestGroup, prefix: string): Promise<string[]> => {
  const rows = await db()
    .selectFrom('events')
    .select('kind')
    .where('kind', 'like', `${prefix}%`)
    .where((where) => where(where.ref('namespace_ids'), '@>', where.val([group.id])))
    .orderBy('id')
    .execute();
  return rows.map(({ kind }) => kind);
};

describe.skipIf(!hasSlapd)('syncing a group with a directory', () => {
  it('adds, changes and removes members, and reports its progress', async () => {
    const [jane, joe, stranger] = [await known(), await known(), await directory().person(name())];
    const group = await app().make.group();
    const [staff, leads] = [name(), name()];
    await directory().group(staff, [jane.dn, joe.dn, stranger]);
    await directory().group(leads, [jane.dn]);
    await linkTo(group, { cn: staff, group_access: 20 });
    await linkTo(group, { cn: leads, group_access: 40 });

    expect(await sync(group)).toMatchObject({ state: 'FINISHED', total: 2, processed: 2, added: 2, changed: 0 });
    expect(await membersOf(group)).toEqual({ [jane.user.id]: 40, [joe.user.id]: 20 });
    expect(await kindsOf(group, 'ldap_sync.')).toEqual([
      'ldap_sync.started',
      'ldap_sync.progressed',
      'ldap_sync.finished',
    ]);
    expect(await sync(group)).toMatchObject({ state: 'FINISHED', added: 0, changed: 0, removed: 0, processed: 2 });

    await directory().group(leads, []);
    await directory().group(staff, [jane.dn]);
    expect(await sync(group)).toMatchObject({ state: 'FINISHED', added: 0, changed: 1, removed: 1 });
    expect(await membersOf(group)).toEqual({ [jane.user.id]: 20 });
    expect(await kindsOf(group, 'member.')).toEqual([
      'member.added',
      'member.added',
      'member.updated',
      'member.removed',
    ]);

    await root().delete(`/groups/${group.id}/ldap_group_links`, { cn: staff, provider: 'ldapmain' });
    expect(await sync(group)).toMatchObject({ state: 'FINISHED', removed: 1 });
    expect(await membersOf(group)).toEqual({});
  });

  it('finds people however an administrator typed their distinguished names', async () => {
    const user = await app().make.user();
    const dn = await directory().person(name());
    const typed = dn.replaceAll(',', ' , ').replace('uid=', 'UID = ');
    await root().put(`/users/${user.id}`, { provider: 'ldapmain', extern_uid: typed });
    const group = await app().make.group();
    await linkTo(group, { filter: `(${dn.split(',')[0]})`, group_access: 20 });
    await sync(group);
    expect(await membersOf(group)).toEqual({ [user.id]: 20 });
  });

  it('finds people by filter and in several directories, and gives them the highest role', async () => {
    const jane = await known();
    const joe = await known(directory(other), 'ldapother');
    const group = await app().make.group();
    await directory().change((client) => client.modify(jane.dn, change('departmentNumber', '42')));
    await linkTo(group, { filter: '(departmentNumber=42)', group_access: 30 });
    const both = name();
    await directory(other).group(both, [joe.dn, jane.dn]);
    await linkTo(group, { cn: both, group_access: 40, provider: 'ldapother' });
    expect(await sync(group)).toMatchObject({ state: 'FINISHED', added: 2 });
    // The same name in the other directory is not Jane.
    expect(await membersOf(group)).toEqual({ [jane.user.id]: 30, [joe.user.id]: 40 });
  });

  it('reads groups that list user names', async () => {
    const { user, dn } = await known();
    const group = await app().make.group();
    const cn = name();
    const uid = /^uid=([^,]+)/.exec(dn)?.[1] ?? '';
    await directory().change((client) =>
      client.add(`cn=${cn},${GROUPS}`, { objectClass: 'posixGroup', gidNumber: '1', memberUid: [uid, '*', 'nobody'] }),
    );
    await linkTo(group, { cn, group_access: 10 });
    await sync(group);
    expect(await membersOf(group)).toEqual({ [user.id]: 10 });
  });

  it('keeps members who were added by hand, roles that were changed by hand, and the last owner', async () => {
    const [byHand, changed, lead] = [await known(), await known(), await known()];
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const [staff, leads] = [name(), name()];
    await app().make.groupMember(group, byHand.user, 10);
    await directory().group(staff, [byHand.dn, changed.dn]);
    await directory().group(leads, [lead.dn]);
    await linkTo(group, { cn: staff, group_access: 30 });
    await linkTo(group, { cn: leads, group_access: 50 });
    await sync(group);
    expect(await membersOf(group)).toEqual({
      [owner.id]: 50,
      [byHand.user.id]: 10,
      [changed.user.id]: 30,
      [lead.user.id]: 50,
    });
    await root().put(`/groups/${group.id}/members/${changed.user.id}`, { access_level: 20 });
    await app().as(lead.user).delete(`/groups/${group.id}/members/${owner.id}`);
    await directory().group(leads, []);
    await sync(group);
    expect(await membersOf(group)).toEqual({ [byHand.user.id]: 10, [changed.user.id]: 20, [lead.user.id]: 50 });
    await directory().group(staff, []);
    await sync(group);
    expect(await membersOf(group)).toEqual({ [byHand.user.id]: 10, [lead.user.id]: 50 });
  });

  it('treats names literally and never as filters', async () => {
    const { dn } = await known();
    const group = await app().make.group();
    const cn = name();
    await directory().group(cn, [dn]);
    for (const trick of ['*', `${cn.slice(0, -1)}*`, `${cn})(objectClass=*`, `x)(|(cn=*)`]) {
      await linkTo(group, { cn: trick, group_access: 50 });
    }
    expect(await sync(group)).toMatchObject({ state: 'FINISHED', total: 0 });
    expect(await membersOf(group)).toEqual({});
  });

  it('fails and changes nothing if a directory cannot be queried', async () => {
    const { user, dn } = await known(directory(other), 'ldapother');
    const group = await app().make.group();
    const cn = name();
    await directory(other).group(cn, [dn]);
    await linkTo(group, { cn, group_access: 30, provider: 'ldapother' });
    await sync(group);
    await directory(other).stop();
    try {
      const failed = await sync(group);
      expect(failed).toMatchObject({ state: 'FAILED', removed: 0 });
      expect(failed.error).toContain('ldapother');
      expect(failed.error).not.toContain(ADMIN_PASSWORD);
      expect(await membersOf(group)).toEqual({ [user.id]: 30 });
      expect((await kindsOf(group, 'ldap_sync.')).at(-1)).toBe('ldap_sync.failed');
    } finally {
      await directory(other).resume();
    }
    expect(await sync(group)).toMatchObject({ state: 'FINISHED', error: null });

    await linkTo(group, { cn, group_access: 40, provider: 'ldapwrong' });
    expect(await sync(group)).toMatchObject({ state: 'FAILED' });
    expect(await membersOf(group)).toEqual({ [user.id]: 30 });
  });

  it('skips links to a provider that is not configured, removes no role meanwhile, and reports it', async () => {
    const [jane, joe] = [await known(), await known()];
    const group = await app().make.group();
    const staff = name();
    await directory().group(staff, [jane.dn, joe.dn]);
    await linkTo(group, { cn: staff, group_access: 40 });
    await sync(group);
    await linkTo(group, { cn: staff, group_access: 40, provider: 'ldapnone' });
    await directory().group(staff, [jane.dn]);
    expect(await sync(group)).toMatchObject({
      state: 'FINISHED',
      removed: 0,
      error: 'Not configured: ldapnone. Their links were skipped, and no role was removed.',
    });
    expect(await membersOf(group)).toEqual({ [jane.user.id]: 40, [joe.user.id]: 40 });
    await root().delete(`/groups/${group.id}/ldap_group_links`, { cn: staff, provider: 'ldapnone' });
    expect(await sync(group)).toMatchObject({ state: 'FINISHED', removed: 1, error: null });
    expect(await membersOf(group)).toEqual({ [jane.user.id]: 40 });
  });

  it('resumes after a process died, and ignores an outdated run', async () => {
    const people = await Promise.all(Array.from({ length: 60 }, () => known()));
    const group = await app().make.group();
    const cn = name();
    await directory().group(
      cn,
      people.map(({ dn }) => dn),
    );
    await linkTo(group, { cn, group_access: 30 });
    await db().insertInto('ldap_syncs').values({ namespace_id: group.id, run: 7, state: 'running' }).execute();
    const run = (number: number) =>
      syncGroup.run(app().context(), { group_id: group.id, run: number }, { attempt: 2, lastAttempt: false });
    await run(6);
    expect(await membersOf(group)).toEqual({});
    // The first batch was committed before the process died.
    await app().make.groupMember(group, people[0]?.user ?? app().root, 30);
    await db()
      .updateTable('members')
      .set({ source: 'ldap' })
      .where('namespace_id', '=', group.id)
      .where('user_id', '=', people[0]?.user.id ?? 0)
      .execute();
    await run(7);
    expect(Object.keys(await membersOf(group))).toHaveLength(60);
    expect((await kindsOf(group, 'member.')).length).toBe(59);
  });

  it('runs hourly for all groups with links', async () => {
    const { user, dn } = await known();
    const group = await app().make.group();
    const cn = name();
    await directory().group(cn, [dn]);
    await linkTo(group, { cn, group_access: 30 });
    await syncAll.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    await until('the member to be added', async () => (await membersOf(group))[user.id] === 30);
  });
});

describe.skipIf(!hasSlapd)('sign-in with a directory', () => {
  const enter = async (provider: string, username: string, password = PERSON_PASSWORD): Promise<Visitor> => {
    const person = new Visitor(app().url);
    await person.get(`/users/auth/ldap/${provider}`);
    await person.submit(`/users/auth/ldap/${provider}`, { username, password });
    return person;
  };

  it('is offered, opens the linked account, and creates an account if that is allowed', async () => {
    const { user, dn } = await known();
    const uid = /^uid=([^,]+)/.exec(dn)?.[1] ?? '';
    const person = new Visitor(app().url);
    expect((await person.get('/users/sign_in')).text).toContain('Sign in with Directory ldapmain');
    const signedIn = await enter('ldapmain', uid);
    expect(signedIn.page).toMatchObject({ status: 303, location: '/' });
    expect((await signedIn.get('/')).text).toContain(`(@${user.username}, `);

    const newcomer = name();
    await directory().person(newcomer);
    const first = await enter('ldapmain', newcomer.toUpperCase());
    expect((await first.get('/')).text).toContain(`(@${newcomer}, `);
    await directory(other).person(newcomer);
    const refused = await enter('ldapother', newcomer);
    expect(refused.page).toMatchObject({ status: 403 });
    expect(refused.page.text).toContain('not linked yet');
  });

  it('refuses wrong and empty passwords, filters instead of names, and people whom the user filter excludes', async () => {
    const { dn } = await known();
    const uid = /^uid=([^,]+)/.exec(dn)?.[1] ?? '';
    const robot = name();
    await directory(other).person(robot, { employeeType: 'robot' });
    for (const [provider, username, password] of [
      ['ldapmain', uid, 'wrong'],
      ['ldapmain', uid, ''],
      ['ldapmain', `${uid.slice(0, -1)}*`, PERSON_PASSWORD],
      ['ldapmain', `${uid})(uid=*`, PERSON_PASSWORD],
      ['ldapmain', 'nobody', PERSON_PASSWORD],
      ['ldapother', robot, PERSON_PASSWORD],
    ] as const) {
      const person = await enter(provider, username, password);
      expect([username, person.page.status]).toEqual([username, 422]);
      expect(person.page.text).toContain('Invalid user name or password.');
    }
    expect((await new Visitor(app().url).get('/users/auth/ldap/ldapnone')).status).toBe(404);
  });

  it('locks a user name after repeated wrong passwords', async () => {
    const { dn } = await known();
    const uid = /^uid=([^,]+)/.exec(dn)?.[1] ?? '';
    for (let tries = 0; tries < 10; tries++) await enter('ldapmain', uid, 'wrong');
    const locked = await enter('ldapmain', uid);
    expect(locked.page.status).toBe(429);
    expect(locked.page.headers.get('retry-after')).not.toBeNull();
  });

  it('reports that a directory is unavailable', async () => {
    expect((await enter('ldapwrong', 'anybody')).page.status).toBe(503);
  });
});
