import { describe, expect, it } from 'vitest';
import { daysAfter } from '#domains/tokens/model.ts';
import { type SeededAdministrator, seedAdministrator } from '#domains/tokens/seed.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { digestToken } from '#platform/secrets.ts';
import { bearer, makeApplication, tokensFor } from '../oauth/flows.ts';
import { useApp } from '../support/app.ts';
import { createTestDatabase } from '../support/database.ts';
import { createTestServices } from '../support/services.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;
const today = () => new Date().toISOString().slice(0, 10);

describe('creating a token for a user', () => {
  it('returns the value once and stores its digest', async () => {
    const user = await app().make.user();
    const path = `/users/${user.id}/personal_access_tokens`;
    const { status, body } = await admin().post(path, {
      name: 'ci',
      scopes: ['api', 'read_user'],
      description: 'for CI',
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      name: 'ci',
      description: 'for CI',
      scopes: ['api', 'read_user'],
      user_id: user.id,
      active: true,
      revoked: false,
      last_used_at: null,
      expires_at: daysAfter(today(), 365),
    });
    expect(body.token).toMatch(/^glpat-[\w-]{27}$/);
    expect((await app().anonymous.get('/user', { 'private-token': body.token })).body.id).toBe(user.id);
    const row = await db()
      .selectFrom('personal_access_tokens')
      .selectAll()
      .where('id', '=', body.id)
      .executeTakeFirstOrThrow();
    expect(row.digest.equals(digestToken(body.token))).toBe(true);
    const events = await db().selectFrom('events').selectAll().where('kind', '=', 'token.created').execute();
    expect(JSON.stringify(events)).not.toContain(body.token);
    expect((await admin().get(`/personal_access_tokens/${body.id}`)).body).not.toHaveProperty('token');
  });

  it('allows no expiry only if the settings do not require one', async () => {
    const user = await app().make.user();
    const path = `/users/${user.id}/personal_access_tokens`;
    const endless = { name: 'endless', scopes: ['api'], expires_at: null };
    expect((await admin().post(path, endless)).body.expires_at).toBe(daysAfter(today(), 365));
    await admin().put('/application/settings', { require_personal_access_token_expiry: false });
    expect((await admin().post(path, endless)).body).toMatchObject({ expires_at: null, active: true });
    expect((await admin().post(path, { name: 'usual', scopes: ['api'] })).body.expires_at).toBe(
      daysAfter(today(), 365),
    );
    await admin().put('/application/settings', { require_personal_access_token_expiry: true });
  });

  it.each([
    [{ name: undefined }, { error: 'name is missing' }],
    [{ scopes: undefined }, { error: 'scopes is missing' }],
    [{ scopes: [] }, { message: { scopes: ["can't be blank"] } }],
    [
      { scopes: ['everything'] },
      { error: expect.stringContaining('scopes does not have a valid value (allowed: api, ') },
    ],
    [{ scopes: ['sudo'] }, { message: { scopes: ['can only contain available scopes'] } }],
    [{ name: '  ' }, { message: { name: ["can't be blank"] } }],
    [{ expires_at: '2026-02-30' }, { error: 'expires_at is invalid (allowed: a date, YYYY-MM-DD)' }],
    [{ expires_at: '2020-01-01' }, { message: { expires_at: ['cannot be a date in the past'] } }],
    [{ expires_at: '2999-01-01' }, { message: { expires_at: [expect.stringContaining('must be on or before')] } }],
  ])('refuses %j', async (wrong, expected) => {
    const user = await app().make.user();
    const input = { name: 'x', scopes: ['api'], ...wrong };
    const { status, body } = await admin().post(`/users/${user.id}/personal_access_tokens`, input);
    expect([status, body]).toEqual([400, expected]);
    expect((await admin().get(`/personal_access_tokens?user_id=${user.id}`)).body).toEqual([]);
  });

  it('requires an administrator', async () => {
    const user = await app().make.user();
    const path = `/users/${user.id}/personal_access_tokens`;
    const input = { name: 'x', scopes: ['api'] };
    expect((await app().as(user).post(path, input)).status).toBe(403);
    expect((await app().anonymous.post(path, input)).status).toBe(401);
    expect((await admin().post('/users/999999/personal_access_tokens', input)).status).toBe(404);
  });
});

describe('creating a token for oneself', () => {
  it('allows only the Kubernetes proxy over REST, until the day ends', async () => {
    const user = await app().make.user();
    const { status, body } = await app()
      .as(user)
      .post('/user/personal_access_tokens', { name: 'k', scopes: ['k8s_proxy'] });
    expect([status, body.expires_at, body.scopes]).toEqual([201, today(), ['k8s_proxy']]);
    const wide = await app()
      .as(user)
      .post('/user/personal_access_tokens', { name: 'k', scopes: ['api'] });
    expect(wide.status).toBe(400);
    expect((await app().anonymous.get('/user', { 'private-token': body.token })).status).toBe(403);
  });

  it('allows no more scopes over GraphQL than those of the token in use', async () => {
    const mutation = `mutation ($input: PersonalAccessTokenCreateInput!) {
      personalAccessTokenCreate(input: $input) { token personalAccessToken { id scopes active user { username } } errors } }`;
    const user = await app().make.user();
    const made = await app()
      .as(user)
      .graphql(mutation, { input: { name: 'g', scopes: ['read_api'] } });
    expect(made.data.personalAccessTokenCreate).toMatchObject({
      token: expect.stringMatching(/^glpat-/),
      personalAccessToken: { scopes: ['read_api'], active: true, user: { username: user.username } },
      errors: [],
    });
    const other = await app().make.user();
    const forOther = await app()
      .as(user)
      .graphql(mutation, {
        input: { name: 'g', scopes: ['api'], userId: `gid://gitlab/User/${other.id}` },
      });
    expect(forOther.errors).toHaveLength(1);
    const more = await app()
      .as(app().root, ['api', 'read_user'])
      .graphql(mutation, { input: { name: 'g', scopes: ['sudo'] } });
    expect(more.data.personalAccessTokenCreate).toMatchObject({
      token: null,
      errors: ['Scopes can only contain scopes of the token in use'],
    });
  });

  it('is refused to an application, so that revoking the application ends all its access', async () => {
    const user = await app().make.user();
    const { access_token } = await tokensFor(app(), user, await makeApplication(app(), user), { scope: 'api' });
    const byApplication = (path: string, body: Record<string, unknown>) =>
      app().anonymous.post(path, body, bearer(access_token));
    const mutation = `mutation { personalAccessTokenCreate(input: { name: "g", scopes: ["read_api"] }) { token errors } }`;
    const created = await byApplication('/api/graphql', { query: mutation });
    expect(created.body.data.personalAccessTokenCreate).toEqual({
      token: null,
      errors: ['Scopes can only be k8s_proxy when an application requests the token'],
    });
    const { body: own } = await admin().post(`/users/${user.id}/personal_access_tokens`, {
      name: 'o',
      scopes: ['api'],
    });
    expect((await byApplication(`/personal_access_tokens/${own.id}/rotate`, {})).status).toBe(403);
    const { body: all } = await admin().get(`/personal_access_tokens?user_id=${user.id}&state=active`);
    expect(all.map(({ id }: { id: number }) => id)).toEqual([own.id]);

    const proxy = await byApplication('/user/personal_access_tokens', { name: 'k', scopes: ['k8s_proxy'] });
    expect(proxy.status).toBe(201);
  });

  it('allows an administrator no more scopes for another user than those of the token in use', async () => {
    const other = await app().make.user({ is_admin: true });
    const path = `/users/${other.id}/personal_access_tokens`;
    const narrow = app().as(app().root, ['api', 'read_user']);
    for (const scope of ['sudo', 'admin_mode']) {
      const { status, body } = await narrow.post(path, { name: 'more', scopes: ['api', scope] });
      expect([status, body]).toEqual([400, { message: { scopes: ['can only contain scopes of the token in use'] } }]);
    }
    expect((await admin().get(`/personal_access_tokens?user_id=${other.id}`)).body).toEqual([]);
    expect((await narrow.post(path, { name: 'as much', scopes: ['api', 'read_user'] })).status).toBe(201);
    expect(
      (
        await app()
          .as(app().root, ['api', 'sudo'])
          .post(path, { name: 'all', scopes: ['sudo'] })
      ).status,
    ).toBe(201);
  });
});

describe('reading and revoking a token', () => {
  it("is limited to a user's own tokens, or to all for administrators", async () => {
    const one = await app().make.user();
    const other = await app().make.user();
    await app().tokenOf(one);
    await app().tokenOf(other);
    const own = (await app().as(one).get('/personal_access_tokens')).body;
    expect(own).toHaveLength(1);
    expect(own[0]).toMatchObject({ user_id: one.id, active: true });
    expect((await app().as(one).get(`/personal_access_tokens?user_id=${other.id}`)).status).toBe(403);
    expect((await admin().get(`/personal_access_tokens?user_id=${other.id}`)).body).toHaveLength(1);
    const [{ id }] = (await app().as(other).get('/personal_access_tokens')).body;
    expect((await app().as(other).get(`/personal_access_tokens/${id}`)).status).toBe(200);
    expect((await app().as(one).get(`/personal_access_tokens/${id}`)).status).toBe(404);
    expect((await app().as(one).delete(`/personal_access_tokens/${id}`)).status).toBe(404);
    expect((await app().as(other).get('/user')).status).toBe(200);
    expect((await app().anonymous.get('/personal_access_tokens')).status).toBe(401);
    expect((await admin().delete(`/personal_access_tokens/${id}`)).status).toBe(204);
    expect((await app().as(other).get('/user')).status).toBe(401);
    expect((await admin().get(`/personal_access_tokens?user_id=${other.id}&state=active`)).body).toEqual([]);
    expect((await admin().get(`/personal_access_tokens?user_id=${other.id}&revoked=true`)).body).toHaveLength(1);
  });

  it("excludes a user's impersonation tokens", async () => {
    const user = await app().make.user();
    await app().tokenOf(user);
    const row = await db()
      .insertInto('personal_access_tokens')
      .values({ user_id: user.id, name: 'i', scopes: ['api'], digest: digestToken('imp'), impersonation: true })
      .returning('id')
      .executeTakeFirstOrThrow();
    expect((await app().as(user).get('/personal_access_tokens')).body).toHaveLength(1);
    expect((await app().as(user).get(`/personal_access_tokens/${row.id}`)).status).toBe(404);
  });

  it('is allowed to a token of any scope for itself', async () => {
    const user = await app().make.user();
    const client = app().as(user, ['read_repository']);
    expect((await client.get('/user')).status).toBe(403);
    expect((await client.get('/personal_access_tokens/self')).body).toMatchObject({
      user_id: user.id,
      scopes: ['read_repository'],
      active: true,
    });
    expect((await client.delete('/personal_access_tokens/self')).status).toBe(204);
    expect((await client.get('/personal_access_tokens/self')).status).toBe(401);
    const events = await db().selectFrom('events').selectAll().where('kind', '=', 'token.revoked').execute();
    expect(events.at(-1)).toMatchObject({ actor_id: user.id });
  });

  it('follows the same rules in GraphQL', async () => {
    const user = await app().make.user();
    const query =
      '{ currentUser { personalAccessTokens { count nodes { id name scopes } } } personalAccessToken { id } }';
    const { data } = await app().as(user).graphql(query);
    expect(data.currentUser.personalAccessTokens).toMatchObject({
      count: 1,
      nodes: [{ id: data.personalAccessToken.id }],
    });
    const other = app().as(await app().make.user());
    const id = data.personalAccessToken.id;
    const hidden = await other.graphql(
      'query ($id: PersonalAccessTokenID!, $name: String!) { personalAccessToken(id: $id) { id } user(username: $name) { personalAccessTokens { count } } }',
      { id, name: user.username },
    );
    expect(hidden.data).toEqual({ personalAccessToken: null, user: { personalAccessTokens: null } });
    const revoke =
      'mutation ($id: PersonalAccessTokenID) { personalAccessTokenRevoke(input: { id: $id }) { personalAccessToken { active } errors } }';
    expect((await other.graphql(revoke, { id })).errors).toHaveLength(1);
    expect((await app().as(user).graphql(revoke, { id })).data.personalAccessTokenRevoke).toEqual({
      personalAccessToken: { active: false },
      errors: [],
    });
  });
});

describe('the first administrator', () => {
  it('is created once by one of several processes, and can get a given token later', async () => {
    await using disposables = new AsyncDisposableStack();
    const ctx = await emptyHub(disposables);
    const seeded = await Promise.all(Array.from({ length: 4 }, () => seedAdministrator(ctx, {})));
    const [first] = seeded.filter((each) => each.created);
    expect(seeded.filter((each) => each.created)).toHaveLength(1);
    expect(first?.token).toMatch(/^glpat-[\w-]{27}$/);
    expect(first?.password).toMatch(/^[\w-]{20}$/);
    const root = await ctx.db.selectFrom('users').selectAll().executeTakeFirstOrThrow();
    expect(root).toMatchObject({ id: 1, username: 'root', is_admin: true, state: 'active' });

    const token = 'given-token-of-the-administrator';
    expect(await seedAdministrator(ctx, { token })).toEqual({ created: false, password: null, token: null });
    await seedAdministrator(ctx, { token });
    const rows = await ctx.db
      .selectFrom('personal_access_tokens')
      .select(['scopes', 'expires_at'])
      .where('digest', '=', digestToken(token))
      .execute();
    expect(rows).toHaveLength(1);
    expect(rows[0]?.expires_at).toBeNull();
    expect(rows[0]?.scopes).toContain('sudo');
  });

  it('exists only once its generated secrets were shown, as they would be lost with a process that dies', async () => {
    await using disposables = new AsyncDisposableStack();
    const ctx = await emptyHub(disposables);
    const die = () => {
      throw new Error('the process died');
    };
    await expect(seedAdministrator(ctx, {}, die)).rejects.toThrow('the process died');
    const shown: SeededAdministrator[] = [];
    const seeded = await seedAdministrator(ctx, {}, (administrator) => shown.push(administrator));
    expect(seeded.created).toBe(true);
    expect(shown).toEqual([seeded]);
    await seedAdministrator(ctx, {}, die);
  });

  it('has no given secret shown', async () => {
    await using disposables = new AsyncDisposableStack();
    const ctx = await emptyHub(disposables);
    const seeded = await seedAdministrator(ctx, {
      password: 'given-password',
      token: 'given-token-of-the-administrator',
    });
    expect(seeded).toEqual({ created: true, password: null, token: null });
  });
});

/** Creates a hub without users. */
const emptyHub = async (disposables: AsyncDisposableStack): Promise<Context> => {
  const database = await createTestDatabase();
  disposables.defer(() => database.drop());
  const { services } = disposables.use(await createTestServices(database.url));
  return createContextFactory(services)({ actor: systemActor });
};
