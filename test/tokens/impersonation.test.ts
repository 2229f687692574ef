import { describe, expect, it } from 'vitest';
import { daysAfter } from '#domains/tokens/model.ts';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);
const expires_at = daysAfter(new Date().toISOString().slice(0, 10), 30);
const pathOf = (user: TestUser) => `/users/${user.id}/impersonation_tokens`;
const made = async (user: TestUser, scopes: readonly string[] = ['api']) =>
  (await admin().post(pathOf(user), { name: 'as them', scopes, expires_at })).body;

describe('an impersonation token', () => {
  it('lets an administrator act as a user', async () => {
    const user = await app().make.user();
    const { status, body } = await admin().post(pathOf(user), { name: 'as them', scopes: ['api'], expires_at });
    expect([status, body]).toMatchObject([
      201,
      {
        name: 'as them',
        user_id: user.id,
        scopes: ['api'],
        active: true,
        revoked: false,
        impersonation: true,
        expires_at,
        token: expect.stringMatching(/^glpat-/),
      },
    ]);
    const acting = await app().anonymous.get('/user', { 'private-token': body.token });
    expect(acting.body.id).toBe(user.id);
    const { token: _, ...shown } = body;
    const read = await admin().get(`${pathOf(user)}/${body.id}`);
    expect(read.body).toEqual({ ...shown, last_used_at: read.body.last_used_at });
  });

  it('is listed by its state and revoked', async () => {
    const user = await app().make.user();
    const one = await made(user);
    const two = await made(user, ['read_user']);
    expect((await admin().delete(`${pathOf(user)}/${one.id}`)).status).toBe(204);
    const idsIn = async (state: string) =>
      (await admin().get(`${pathOf(user)}?state=${state}`)).body.map(({ id }: { id: number }) => id);
    expect([await idsIn('active'), await idsIn('inactive'), await idsIn('all')]).toEqual([
      [two.id],
      [one.id],
      [two.id, one.id],
    ]);
    expect((await app().anonymous.get('/user', { 'private-token': one.token })).status).toBe(401);
    expect((await admin().get(`${pathOf(user)}?state=other`)).status).toBe(400);
  });

  it("is hidden from the user, and from the user's events", async () => {
    const user = await app().make.user();
    const token = await made(user);
    expect(
      (await app().as(user).get('/personal_access_tokens')).body.map(({ name }: { name: string }) => name),
    ).toEqual(['test']);
    expect((await app().as(user).get(`/personal_access_tokens/${token.id}`)).status).toBe(404);
    expect((await app().as(user).delete(`/personal_access_tokens/${token.id}`)).status).toBe(404);
    expect((await app().as(user).post(`/personal_access_tokens/${token.id}/rotate`)).status).toBe(404);
    expect((await app().as(user).get(pathOf(user))).status).toBe(403);
    expect(
      (
        await app()
          .as(user)
          .get(`${pathOf(user)}/${token.id}`)
      ).status,
    ).toBe(403);
    expect((await app().anonymous.get(pathOf(user))).status).toBe(401);
    const query = '{ currentUser { impersonationTokens { nodes { id } } personalAccessTokens { nodes { name } } } }';
    expect((await app().as(user).graphql(query)).data.currentUser).toEqual({
      impersonationTokens: null,
      personalAccessTokens: { nodes: [{ name: 'test' }] },
    });
    const emitted = await app()
      .hub.services.db.selectFrom('events')
      .select('user_ids')
      .where('subject_type', '=', 'PersonalAccessToken')
      .where('subject_id', '=', token.id)
      .execute();
    expect(emitted.map(({ user_ids }) => user_ids)).toEqual([[]]);
  });

  it.each([
    [{ name: undefined }, 'name is missing'],
    [{ scopes: undefined }, 'scopes is missing'],
    [{ expires_at: undefined }, 'expires_at is missing'],
    [{ scopes: ['sudo'] }, expect.stringContaining('scopes does not have a valid value (allowed: api, ')],
  ])('is refused with %j', async (wrong, error) => {
    const user = await app().make.user();
    const { status, body } = await admin().post(pathOf(user), { name: 'x', scopes: ['api'], expires_at, ...wrong });
    expect([status, body]).toEqual([400, { error }]);
    expect((await admin().get(pathOf(user))).body).toEqual([]);
  });

  it('is found only under its user', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    const token = await made(user);
    expect((await admin().get(`${pathOf(other)}/${token.id}`)).status).toBe(404);
    expect((await admin().delete(`${pathOf(other)}/${token.id}`)).status).toBe(404);
    expect((await admin().get('/users/99999999/impersonation_tokens')).status).toBe(404);
    const personal = (await admin().post(`/users/${user.id}/personal_access_tokens`, { name: 'own', scopes: ['api'] }))
      .body;
    expect((await admin().get(`${pathOf(user)}/${personal.id}`)).status).toBe(404);
  });

  it('is refused, and cannot be created, while impersonation is disabled', async () => {
    const user = await app().make.user();
    const token = await made(user);
    const own = await app().tokenOf(user);
    await admin().put('/application/settings', { impersonation_enabled: false });
    try {
      const refused = await app().anonymous.get('/user', { 'private-token': token.token });
      expect([refused.status, refused.body]).toEqual([
        401,
        {
          error: 'invalid_token',
          error_description: 'Token is an impersonation token but impersonation was disabled.',
        },
      ]);
      expect((await app().anonymous.get('/user', { 'private-token': own })).status).toBe(200);
      expect((await admin().post(pathOf(user), { name: 'x', scopes: ['api'], expires_at })).status).toBe(403);
    } finally {
      await admin().put('/application/settings', { impersonation_enabled: true });
    }
    expect((await app().anonymous.get('/user', { 'private-token': token.token })).status).toBe(200);
  });

  it('has a mutation and a field for administrators', async () => {
    const user = await app().make.user();
    const mutation = `mutation ($input: ImpersonationTokenCreateInput!) {
      impersonationTokenCreate(input: $input) { token personalAccessToken { impersonation user { username } } errors } }`;
    const input = { userId: `gid://gitlab/User/${user.id}`, name: 'g', scopes: ['read_user'], expiresAt: expires_at };
    const { data } = await admin().graphql(mutation, { input });
    expect(data.impersonationTokenCreate).toMatchObject({
      token: expect.any(String),
      personalAccessToken: { impersonation: true, user: { username: user.username } },
      errors: [],
    });
    expect((await app().as(user).graphql(mutation, { input })).errors).toHaveLength(1);
    const wide = await admin().graphql(mutation, { input: { ...input, scopes: ['sudo'] } });
    expect(wide.data.impersonationTokenCreate.errors).toEqual(['Scopes can only contain available scopes']);
    const query = `query ($id: UserID!) { user(id: $id) { impersonationTokens(state: ACTIVE) { nodes { name } } } }`;
    expect((await admin().graphql(query, { id: `gid://gitlab/User/${user.id}` })).data.user).toEqual({
      impersonationTokens: { nodes: [{ name: 'g' }] },
    });
  });
});

describe('a personal access token', () => {
  it('is refused, and cannot be created, while personal tokens are disabled, except for administrators', async () => {
    const user = await app().make.user();
    const token = await app().tokenOf(user);
    await admin().put('/application/settings', { disable_personal_access_tokens: true });
    try {
      expect((await app().anonymous.get('/user', { 'private-token': token })).body.error).toBe('invalid_token');
      const path = `/users/${user.id}/personal_access_tokens`;
      expect((await admin().post(path, { name: 'x', scopes: ['api'] })).status).toBe(403);
    } finally {
      await admin().put('/application/settings', { disable_personal_access_tokens: false });
    }
    expect((await app().anonymous.get('/user', { 'private-token': token })).status).toBe(200);
  });

  it('is accepted in the query unless a setting forbids it', async () => {
    const user = await app().make.user();
    const token = await app().tokenOf(user);
    const statuses = async () => [
      (await app().anonymous.get(`/user?access_token=${token}`)).status,
      (await app().anonymous.get(`/user?private%5Ftoken=${token}`)).status,
      (await app().anonymous.get(`/api/graphql?query={__typename}&access_token=${token}`)).status,
      (await app().anonymous.get('/user', { 'private-token': token })).status,
    ];
    expect(await statuses()).toEqual([200, 200, 200, 200]);
    await admin().put('/application/settings', { token_in_query_enabled: false });
    try {
      expect(await statuses()).toEqual([401, 401, 401, 200]);
    } finally {
      await admin().put('/application/settings', { token_in_query_enabled: true });
    }
  });
});
