import { describe, expect, it } from 'vitest';
import { actorFor, authenticate, authenticateGit } from '#domains/tokens/authentication.ts';
import { daysAfter } from '#domains/tokens/model.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import { ghostUser } from '#domains/users/accounts/ghost.ts';
import { hashPassword } from '#domains/users/password.ts';
import { anonymous, noClient } from '#platform/context.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { ADMIN_TOKEN, PASSWORD, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();
const services = () => app().hub.services;
const db = () => services().db;

const authenticated = (value: string, sudo: string | null = null) =>
  authenticate(services(), { kind: 'token', value }, { sudo });

describe('a token', () => {
  it('is accepted in every place where clients put it', async () => {
    const user = await app().make.user();
    const token = await app().tokenOf(user);
    const own = async (headers: Record<string, string>, path = '/user') =>
      (await app().anonymous.get(path, headers)).body.username;
    expect(await own({ 'private-token': token })).toBe(user.username);
    expect(await own({ authorization: `Bearer ${token}` })).toBe(user.username);
    expect(await own({ authorization: `Basic ${btoa(`anything:${token}`)}` })).toBe(user.username);
    expect(await own({}, `/user?private_token=${token}`)).toBe(user.username);
    expect(await own({}, `/user?access_token=${token}`)).toBe(user.username);
  });

  it('is refused if it is unknown, even on public routes', async () => {
    for (const path of ['/user', '/users?username=root']) {
      const { status, body } = await app().anonymous.get(path, { 'private-token': 'glpat-unknown' });
      expect([status, body]).toEqual([401, { message: '401 Unauthorized' }]);
    }
    expect((await app().anonymous.get('/user', { 'job-token': 'x' })).status).toBe(401);
    const { status, body } = await app().anonymous.request(
      'POST',
      '/api/graphql',
      { query: '{ __typename }' },
      { 'private-token': 'no' },
    );
    expect([status, body.errors[0].message]).toEqual([401, 'Invalid token']);
  });

  it('is refused as soon as it is revoked or expired, or its user is blocked', async () => {
    const user = await app().make.user();
    const token = await app().tokenOf(user);
    const answer = () => app().anonymous.get('/user', { 'private-token': token });
    expect((await answer()).status).toBe(200);

    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', user.id).execute();
    expect(await answer()).toMatchObject({
      status: 403,
      body: { message: '403 Forbidden - Your account has been blocked.' },
    });
    await db().updateTable('users').set({ state: 'active' }).where('id', '=', user.id).execute();

    const today = new Date().toISOString().slice(0, 10);
    await setToken(token, { expires_at: today });
    expect((await answer()).status).toBe(200);
    await setToken(token, { expires_at: daysAfter(today, -1) });
    expect(await answer()).toMatchObject({
      status: 401,
      body: { error: 'invalid_token', error_description: expect.stringContaining('expired') },
    });
    expect((await answer()).headers.get('www-authenticate')).toBe('Bearer');
    await setToken(token, { expires_at: null });
    expect((await answer()).status).toBe(200);

    await setToken(token, { revoked: true });
    expect((await answer()).body).toMatchObject({
      error: 'invalid_token',
      error_description: expect.stringContaining('revoked'),
    });
  });

  it("is refused with the same messages if it is an application's, and its use is recorded", async () => {
    const user = await app().make.user();
    const value = randomToken(43);
    const digest = digestToken(value);
    await db()
      .insertInto('oauth_access_tokens')
      .values({ user_id: user.id, digest, scopes: ['api'], family_id: crypto.randomUUID() })
      .execute();
    const ask = () => app().anonymous.get('/user', { authorization: `Bearer ${value}` });
    const change = (set: { expires_at?: string | null; revoked_at?: string }) =>
      db().updateTable('oauth_access_tokens').set(set).where('digest', '=', digest).execute();
    expect((await ask()).body.id).toBe(user.id);
    await until('the use is noted', async () => {
      const row = await db()
        .selectFrom('oauth_access_tokens')
        .select('last_used_at')
        .where('digest', '=', digest)
        .executeTakeFirstOrThrow();
      return row.last_used_at;
    });
    const actor = await authenticated(value);
    expect(actor.credential?.kind).toBe('oauth_token');
    expect((await stillValid(services(), [actor])).size).toBe(1);
    // An OAuth token is not a personal token.
    const self = await app().anonymous.get('/personal_access_tokens/self', { authorization: `Bearer ${value}` });
    expect(self.status).toBe(400);

    await change({ expires_at: '2020-01-01T00:00:00Z' });
    expect((await ask()).body.error_description).toContain('expired');
    expect((await stillValid(services(), [actor])).size).toBe(0);
    await change({ expires_at: null, revoked_at: '2020-01-01T00:00:00Z' });
    expect(await ask()).toMatchObject({ status: 401, body: { error: 'invalid_token' } });
    expect((await ask()).body.error_description).toContain('revoked');
    expect((await stillValid(services(), [actor])).size).toBe(0);
  });

  it('has its use and the activity of its user recorded after the request', async () => {
    const user = await app().make.user();
    await Promise.all(Array.from({ length: 10 }, () => app().as(user).get('/user')));
    const row = await until('the use is noted', async () => {
      const token = await db()
        .selectFrom('personal_access_tokens as t')
        .innerJoin('users as u', 'u.id', 't.user_id')
        .select(['t.last_used_at', 'u.last_activity_on'])
        .where('u.id', '=', user.id)
        .executeTakeFirstOrThrow();
      return token.last_used_at && token.last_activity_on ? token : null;
    });
    expect(row.last_activity_on).toBe(new Date().toISOString().slice(0, 10));
  });

  it('identifies the user and the scopes', async () => {
    const user = await app().make.user({ external: true });
    const actor = await authenticated(await app().tokenOf(user, ['read_api']));
    expect(actor).toMatchObject({
      userId: user.id,
      username: user.username,
      isAdmin: false,
      isExternal: true,
      isSystem: false,
    });
    expect([...(actor.scopes ?? [])]).toEqual(['read_api']);
    expect(await authenticate(services(), { kind: 'none' }, { sudo: null })).toEqual({ ...anonymous, address: null });
  });
});

describe('sudo', () => {
  it('lets an administrator act as another user, by id or by name in any case', async () => {
    const user = await app().make.user();
    const path = (who: string | number) => `/user?sudo=${who}`;
    expect((await app().as(app().root).get(path(user.id))).body.username).toBe(user.username);
    expect((await app().as(app().root).get(path(user.username.toUpperCase()))).body.username).toBe(user.username);
    expect((await app().as(app().root).get('/user', { sudo: user.username })).body.username).toBe(user.username);
    expect((await app().as(app().root).get(`/users?sudo=${user.id}`)).body[0]).not.toHaveProperty('email');
  });

  it('is refused to others, without the scope, and for an unknown user', async () => {
    const user = await app().make.user();
    const other = await app().as(user).get('/user?sudo=root');
    expect([other.status, other.body]).toEqual([403, { message: '403 Forbidden - Must be admin to use sudo' }]);
    const narrow = await app().as(app().root, ['api', 'read_api']).get(`/user?sudo=${user.id}`);
    expect(narrow).toMatchObject({ status: 403, body: { error: 'insufficient_scope', scope: 'sudo' } });
    const nobody = await app().as(app().root).get('/user?sudo=nobody-here');
    expect([nobody.status, nobody.body]).toEqual([
      404,
      { message: "404 User with ID or username 'nobody-here' Not Found" },
    ]);
    expect((await app().anonymous.get('/users?username=root&sudo=root')).status).toBe(401);
  });

  it('is refused for accounts of the hub itself, and so are tokens of them', async () => {
    const root = app().as(app().root);
    const id = await app().context().transaction(ghostUser);
    const refused = await root.get('/user?sudo=ghost');
    expect([refused.status, refused.body]).toEqual([
      403,
      { message: '403 Forbidden - Nobody can act as an internal account' },
    ]);
    for (const kind of ['personal_access_tokens', 'impersonation_tokens']) {
      const answer = await root.post(`/users/${id}/${kind}`, {
        name: 'as the ghost',
        scopes: ['api'],
        expires_at: new Date().toISOString().slice(0, 10),
      });
      expect([answer.status, answer.body]).toEqual([
        403,
        { message: '403 Forbidden - Internal accounts have no tokens' },
      ]);
    }
  });
});

describe('git', () => {
  it('accepts a token with any user name', async () => {
    const user = await app().make.user();
    const password = await app().tokenOf(user, ['read_repository']);
    const actor = await authenticateGit(services(), { username: 'oauth2', password }, noClient);
    expect(actor).toMatchObject({ userId: user.id });
    expect([...(actor.scopes ?? [])]).toEqual(['read_repository']);
  });

  it('does not count an unknown token with the user name oauth2 as a guessed password', async () => {
    await app()
      .as(app().root)
      .put('/application/settings', { max_login_attempts: 3, max_login_attempts_per_address: 3 });
    const client = { ip: '192.0.2.77', userAgent: null };
    const come = (username: string, password: string) => authenticateGit(services(), { username, password }, client);
    for (let n = 0; n < 5; n++) {
      await expect(come('oauth2', `old-${n}`)).rejects.toMatchObject({ code: 'unauthenticated' });
    }
    await expect(come('root', PASSWORD)).resolves.toMatchObject({ userId: app().root.id });
    await app().as(app().root).put('/application/settings', {
      max_login_attempts: 10,
      max_login_attempts_per_address: 50,
    });
  });

  it('accepts the password of the account, by name or address, unless a setting forbids it', async () => {
    for (const username of ['root', 'ROOT', 'root@localhost.localdomain']) {
      const actor = await authenticateGit(services(), { username, password: PASSWORD }, noClient);
      expect(actor).toMatchObject({ userId: app().root.id, scopes: null, credential: null });
    }
    await app().as(app().root).put('/application/settings', { password_authentication_enabled_for_git: false });
    await expect(authenticateGit(services(), { username: 'root', password: PASSWORD }, noClient)).rejects.toMatchObject(
      {
        code: 'unauthenticated',
      },
    );
    await app().as(app().root).put('/application/settings', { password_authentication_enabled_for_git: true });
    // The API does not accept a password.
    const basic = await app().anonymous.get('/user', { authorization: `Basic ${btoa(`root:${PASSWORD}`)}` });
    expect(basic.status).toBe(401);
  });

  it('locks the account for passwords after ten wrong ones, for a while, but not for tokens', async () => {
    const user = await app().make.user({ password_hash: await hashPassword('the-right-one') });
    const attempt = (password: string) => authenticateGit(services(), { username: user.username, password }, noClient);
    for (let i = 0; i < 9; i++) await expect(attempt(`wrong ${i}`)).rejects.toMatchObject({ code: 'unauthenticated' });
    await expect(attempt('the-right-one')).resolves.toMatchObject({ userId: user.id });
    for (let i = 0; i < 10; i++) await expect(attempt(`wrong ${i}`)).rejects.toMatchObject({ code: 'unauthenticated' });
    await expect(attempt('the-right-one')).rejects.toMatchObject({ code: 'too_many_requests' });
    expect((await app().as(app().root).get(`/users/${user.id}`)).body.locked).toBe(true);
    expect((await app().as(user).get('/user')).status).toBe(200);

    const past = new Date(Date.now() - 1_000).toISOString();
    await db().updateTable('users').set({ locked_until: past }).where('id', '=', user.id).execute();
    await expect(attempt('wrong')).rejects.toMatchObject({ code: 'unauthenticated' });
    await expect(attempt('the-right-one')).resolves.toMatchObject({ userId: user.id });
    expect((await app().as(app().root).get(`/users/${user.id}`)).body.locked).toBe(false);
  });

  it('gives the same answer for unknown users, without a password, with a second factor, and for invalid names', async () => {
    const none = await app().make.user();
    const second = await app().make.user({
      password_hash: await hashPassword('good-enough'),
      two_factor_enabled: true,
    });
    for (const username of ['nobody', none.username, second.username, '', 'nul\0']) {
      await expect(authenticateGit(services(), { username, password: 'good-enough' }, noClient)).rejects.toMatchObject({
        code: 'unauthenticated',
      });
    }
    const blocked = await app().make.user({ password_hash: await hashPassword('good-enough'), state: 'blocked' });
    await expect(
      authenticateGit(services(), { username: blocked.username, password: 'good-enough' }, noClient),
    ).rejects.toMatchObject({ code: 'forbidden' });
    await expect(
      authenticateGit(services(), { username: blocked.username, password: 'wrong-enough' }, noClient),
    ).rejects.toMatchObject({ code: 'unauthenticated' });
  });
});

describe('a later check', () => {
  it('finds an actor by id while the account is active', async () => {
    const user = await app().make.user();
    expect(await actorFor(services(), user.id)).toMatchObject({ userId: user.id, scopes: null, credential: null });
    await db().updateTable('users').set({ state: 'banned' }).where('id', '=', user.id).execute();
    expect(await actorFor(services(), user.id)).toBeNull();
    expect(await actorFor(services(), 999_999)).toBeNull();
  });

  it('reports in one query which actors are still valid', async () => {
    const users = await Promise.all(Array.from({ length: 5 }, () => app().make.user()));
    const actors = await Promise.all(users.map(async (user) => authenticated(await app().tokenOf(user))));
    const [revoked, blocked, promoted, expired, fine] = users;
    if (!revoked || !blocked || !promoted || !expired || !fine) throw new Error('five were made');
    const sudo = await authenticated(ADMIN_TOKEN, fine.username);
    const all = [anonymous, ...actors, sudo, ...actors];
    expect((await stillValid(services(), all)).size).toBe(12);
    await setToken(await app().tokenOf(revoked), { revoked: true });
    await setToken(await app().tokenOf(expired), { expires_at: '2020-01-01' });
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', blocked.id).execute();
    await db().updateTable('users').set({ is_admin: true }).where('id', '=', promoted.id).execute();
    expect(await stillValid(services(), all)).toEqual(new Set([0, 5, 6, 11]));
    await db().updateTable('users').set({ is_admin: false }).where('id', '=', app().root.id).execute();
    expect(await stillValid(services(), [sudo])).toEqual(new Set());
    await db().updateTable('users').set({ is_admin: true }).where('id', '=', app().root.id).execute();
    expect(await stillValid(services(), [])).toEqual(new Set());
  });
});

const setToken = (value: string, changes: { revoked?: boolean; expires_at?: string | null }) =>
  db().updateTable('personal_access_tokens').set(changes).where('digest', '=', digestToken(value)).execute();
