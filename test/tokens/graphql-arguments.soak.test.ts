import { describe, expect, it } from 'vitest';
import { gid } from '#graphql/ids.ts';
import { randomToken } from '#platform/secrets.ts';
import { useApp } from '../support/app.ts';
import { expectLists, type ListCase, mutate } from '../support/graphql.ts';

// Sets each argument of the lists and mutations of tokens.

const app = useApp();
const root = () => app().as(app().root);
const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

describe('the tokens of a user', () => {
  it('are listed by each argument', async () => {
    const person = await app().make.user({ is_admin: true });
    const token = (name: string, attributes: Record<string, unknown>) =>
      app()
        .hub.services.db.insertInto('personal_access_tokens')
        .values({ user_id: person.id, name, scopes: ['api'], digest: Buffer.from(randomToken()), ...attributes })
        .execute();
    await token('early', { created_at: '2024-06-01T00:00:00Z', expires_at: '2999-01-01' });
    await token('late', { revoked: true, expires_at: '2999-06-01' });
    await token('hidden active', { impersonation: true, expires_at: '2999-01-01' });
    await token('hidden revoked', { impersonation: true, revoked: true });
    // The client's own token is called `test`.
    const table: readonly ListCase[] = [
      ['', ['early', 'late', 'test']],
      ['state: ACTIVE', ['early', 'test']],
      ['state: INACTIVE', ['late']],
      ['revoked: true', ['late']],
      ['revoked: false', ['early', 'test']],
      ['search: "ARL"', ['early']],
      ['createdAfter: "2024-07-01T00:00:00Z"', ['late', 'test']],
      ['createdBefore: "2024-07-01T00:00:00Z"', ['early']],
      ['expiresAfter: "2999-03-01"', ['late']],
      ['expiresBefore: "2999-03-01"', ['early']],
    ];
    const hidden: readonly ListCase[] = [
      ['', ['hidden active', 'hidden revoked']],
      ['state: ACTIVE', ['hidden active']],
      ['state: INACTIVE', ['hidden revoked']],
    ];
    for (const place of ['currentUser', `user(username: "${person.username}") { ... on UserCore`]) {
      await expectLists(app().as(person), place, 'personalAccessTokens', 'name', table);
      await expectLists(app().as(person), place, 'impersonationTokens', 'name', hidden);
    }
  });

  it('are created and rotated with each attribute', async () => {
    const { id } = await app().make.user();
    const userId = gid('User', id);
    const SELECTION = 'personalAccessToken { id description expiresAt user { id } }';
    const attributes = { userId, name: 'made', description: 'For CI', scopes: ['api'], expiresAt: inDays(20) };
    const made = await mutate(root(), 'personalAccessTokenCreate', attributes, SELECTION);
    expect(made.personalAccessToken).toMatchObject({
      description: 'For CI',
      expiresAt: inDays(20),
      user: { id: userId },
    });
    const rotated = await mutate(
      root(),
      'personalAccessTokenRotate',
      { id: made.personalAccessToken.id, expiresAt: inDays(40) },
      SELECTION,
    );
    expect(rotated.personalAccessToken).toMatchObject({ description: 'For CI', expiresAt: inDays(40) });
    const impersonating = await mutate(root(), 'impersonationTokenCreate', attributes, SELECTION);
    expect(impersonating.personalAccessToken).toMatchObject({ description: 'For CI', expiresAt: inDays(20) });
  });
});

describe('service accounts', () => {
  it('and their tokens are written with each attribute, and deleted with what they wrote', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const { id, full_path: groupPath } = await app().make.group({}, owner);
    const project = await app().make.project({ namespace_id: id }, owner);
    const attributes = (name: string) => ({ name, username: `robot-${name}`, email: `${name}@robots.example.com` });
    const made = await mutate(
      client,
      'serviceAccountCreate',
      { groupPath, ...attributes('first') },
      'serviceAccount { id }',
    );
    const userId = made.serviceAccount.id;
    const accountId = Number(userId.split('/').at(-1));
    const read = async () => (await client.get(`/groups/${id}/service_accounts`)).body;
    expect(await read()).toMatchObject([{ id: accountId, ...attributes('first') }]);
    await mutate(
      client,
      'serviceAccountUpdate',
      { groupPath, userId, ...attributes('second') },
      'serviceAccount { id }',
    );
    expect(await read()).toMatchObject([{ id: accountId, ...attributes('second') }]);

    const SELECTION = 'token personalAccessToken { id description expiresAt revoked }';
    const at = { groupPath, userId };
    const created = await mutate(
      client,
      'serviceAccountTokenCreate',
      { ...at, name: 'made', description: 'For CI', scopes: ['api'], expiresAt: inDays(20) },
      SELECTION,
    );
    expect(created.personalAccessToken).toMatchObject({ description: 'For CI', expiresAt: inDays(20), revoked: false });
    const rotated = await mutate(
      client,
      'serviceAccountTokenRotate',
      { ...at, id: created.personalAccessToken.id, expiresAt: inDays(40) },
      SELECTION,
    );
    expect(rotated.personalAccessToken).toMatchObject({ description: 'For CI', expiresAt: inDays(40) });

    const issueTitles = async () =>
      (await client.get(`/projects/${project.id}/issues`)).body.map(({ title }: { title: string }) => title);
    await app()
      .hub.services.db.insertInto('issues')
      .values({ project_id: project.id, iid: 1, title: 'By the robot', author_id: accountId })
      .execute();
    expect(await issueTitles()).toEqual(['By the robot']);
    const revoked = await mutate(
      client,
      'serviceAccountTokenRevoke',
      { ...at, id: rotated.personalAccessToken.id },
      'personalAccessToken { revoked }',
    );
    expect(revoked.personalAccessToken).toEqual({ revoked: true });
    await mutate(client, 'serviceAccountDelete', { ...at, hardDelete: true });
    await app().settle();
    expect([await read(), await issueTitles()]).toEqual([[], []]);
  });
});
