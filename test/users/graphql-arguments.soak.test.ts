import { describe, expect, it } from 'vitest';
import { gid } from '#graphql/ids.ts';
import { useApp } from '../support/app.ts';
import { expectLists, mutate } from '../support/graphql.ts';
import { mailsTo } from '../support/mails.ts';

// Sets each argument of the lists and mutations of users that the tests of their domain leave out.

const app = useApp();
const root = () => app().as(app().root);
const db = () => app().hub.services.db;

describe('users', () => {
  it('are listed by each argument', async () => {
    const [early, late] = [
      await app().make.user({ username: 'argued-early', created_at: '2024-06-01T00:00:00Z' }),
      await app().make.user({ username: 'argued-late' }),
    ];
    await app().make.user({ username: 'argued-bot', user_type: 'support_bot', created_at: '2025-01-01T00:00:00Z' });
    const { id: saml_provider_id } = await app().make.group();
    await db()
      .insertInto('identities')
      .values([
        { user_id: early.id, provider: 'ldapmain', extern_uid: 'uid=early' },
        { user_id: late.id, provider: 'group_saml', extern_uid: 'late', saml_provider_id },
      ])
      .execute();
    const SEARCH = 'search: "argued"';
    const [EARLY, LATE, BOT] = ['argued-early', 'argued-late', 'argued-bot'];
    await expectLists(root(), '', 'users', 'username', [
      [SEARCH, [EARLY, LATE, BOT]],
      [`ids: ["${gid('User', early.id)}", "${gid('User', late.id)}"]`, [EARLY, LATE]],
      [`${SEARCH}, createdAfter: "2024-07-01T00:00:00Z"`, [LATE, BOT]],
      [`${SEARCH}, createdBefore: "2024-07-01T00:00:00Z"`, [EARLY]],
      [`${SEARCH}, excludeInternal: true`, [EARLY, LATE]],
      ['provider: "ldapmain", externUid: "uid=early"', [EARLY]],
      ['provider: "ldapmain", externUid: "uid=late"', []],
      [`samlProviderId: ${saml_provider_id}`, [LATE]],
      [`${SEARCH}, skipLdap: true`, [LATE, BOT]],
    ]);
    for (const half of ['provider: "ldapmain"', 'externUid: "uid=early"']) {
      const { errors } = await root().graphql(`{ users(${half}) { nodes { id } } }`);
      expect(errors?.[0]?.message).toBe('provider and the external id can only be given together');
    }
  });

  it('are created and changed with each attribute', async () => {
    const { id: groupIdForSaml } = await app().make.group();
    const { user } = await mutate(
      root(),
      'userCreate',
      {
        name: 'EncodedJson',
        username: 'written',
        email: 'written@example.com',
        publicEmail: 'written@example.com',
        commitEmail: 'written@example.com',
        admin: true,
        auditor: true,
        forceRandomPassword: true,
        skipConfirmation: true,
        provider: 'saml',
        externUid: 'written-saml',
      },
      'user { id }',
    );
    const path = `/users/${user.id.split('/').at(-1)}`;
    const read = async () => (await root().get(path)).body;
    expect(await read()).toMatchObject({
      is_admin: true,
      is_auditor: true,
      public_email: 'written@example.com',
      commit_email: 'written@example.com',
      identities: [{ provider: 'saml', extern_uid: 'written-saml' }],
    });
    await root().post(`${path}/emails`, { email: 'second@example.com', skip_confirmation: true });
    await mutate(root(), 'userUpdate', {
      id: user.id,
      username: 'rewritten',
      email: 'second@example.com',
      skipReconfirmation: true,
      auditor: false,
      publicEmail: 'second@example.com',
      commitEmail: 'second@example.com',
      provider: 'group_saml',
      externUid: 'written-group',
      groupIdForSaml,
      password: 'a-chosen-password',
    });
    expect(await read()).toMatchObject({
      username: 'rewritten',
      email: 'second@example.com',
      is_auditor: false,
      public_email: 'second@example.com',
      commit_email: 'second@example.com',
      identities: [
        { provider: 'saml', extern_uid: 'written-saml' },
        { provider: 'group_saml', extern_uid: 'written-group', saml_provider_id: groupIdForSaml },
      ],
    });
    await mutate(root(), 'userIdentityDelete', { userId: user.id, provider: 'saml' });
    expect((await read()).identities).toMatchObject([{ provider: 'group_saml' }]);
  });

  it('are created with an identity of a group, and a mail to choose the password', async () => {
    const { id: groupIdForSaml } = await app().make.group();
    const { user } = await mutate(
      root(),
      'userCreate',
      {
        name: 'Invited',
        username: 'invited',
        email: 'invited@example.com',
        resetPassword: true,
        skipConfirmation: true,
        externUid: 'invited-group',
        provider: 'group_saml',
        groupIdForSaml,
      },
      'user { id }',
    );
    expect((await root().get(`/users/${user.id.split('/').at(-1)}`)).body.identities).toEqual([
      { provider: 'group_saml', extern_uid: 'invited-group', saml_provider_id: groupIdForSaml },
    ]);
    expect(await mailsTo(app(), 'invited@example.com')).toHaveLength(1);
  });

  it('change their own name and addresses', async () => {
    const person = await app().make.user();
    const client = app().as(person);
    const email = `${person.username}@example.com`;
    await mutate(client, 'profileUpdate', { name: 'Self-made', publicEmail: email, commitEmail: email });
    expect((await client.get('/user')).body).toMatchObject({
      name: 'Self-made',
      public_email: email,
      commit_email: email,
    });
  });

  it('are removed with their texts, or without', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const titles: string[] = [];
    for (const [iid, hardDelete] of [
      [1, true],
      [2, false],
    ] as const) {
      const author = await app().make.user();
      const title = `Deleted hard: ${hardDelete}`;
      await db().insertInto('issues').values({ project_id: project.id, iid, title, author_id: author.id }).execute();
      await mutate(root(), 'userDelete', { id: gid('User', author.id), hardDelete });
      titles.push(title);
    }
    await app().settle();
    const { body } = await app().as(owner).get(`/projects/${project.id}/issues`);
    expect(body.map(({ title }: { title: string }) => title)).toEqual([titles[1]]);
  });
});
