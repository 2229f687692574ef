import { sql } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import type { CreatedApplication } from '#domains/oauth/applications.ts';
import { makePerson } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { apiStatus, basic, bearer, credentials, get, makeApplication, post } from './flows.ts';

const app = useApp();
let user: TestUser;
let application: CreatedApplication;

beforeAll(async () => {
  user = await makePerson(app());
  application = await makeApplication(app(), user, { scopes: ['api', 'read_user'] });
});

const exchange = (fields: Record<string, string> = {}, headers: Record<string, string> = {}) =>
  post(
    app(),
    '/oauth/token',
    { grant_type: 'password', username: user.username, password: PASSWORD, ...fields },
    headers,
  );

const refused = { status: 400, body: { error: 'invalid_grant' } };
const set = (settings: Record<string, unknown>) => app().as(app().root).put('/application/settings', settings);

describe('the password grant', () => {
  test('needs no application, and gives an access token for the whole API, without a refresh token', async () => {
    const { status, body } = await exchange();
    expect(status).toBe(200);
    expect(body).toEqual({
      access_token: expect.any(String),
      token_type: 'bearer',
      expires_in: 7200,
      scope: 'api',
      created_at: expect.any(Number),
    });
    expect(await apiStatus(app(), body.access_token)).toBe(200);
    const info = await get(app(), '/oauth/token/info', bearer(body.access_token));
    expect(info.body).toMatchObject({ resource_owner_id: user.id, application: { uid: null }, scope: ['api'] });
    // The token belongs to no application, so everyone who holds it may revoke it.
    expect(await post(app(), '/oauth/revoke', { token: body.access_token })).toMatchObject({ status: 200, body: {} });
    expect(await apiStatus(app(), body.access_token)).toBe(401);
  });

  test('accepts an application by HTTP Basic or in the form, with the scopes of the application', async () => {
    const byHeader = await exchange({ scope: 'read_user' }, basic(application.uid, application.secret));
    expect(byHeader).toMatchObject({ status: 200, body: { scope: 'read_user' } });
    expect((await exchange(credentials(application))).body.scope).toBe('api');
    expect(await exchange({ ...credentials(application), scope: 'openid' })).toMatchObject({
      status: 400,
      body: { error: 'invalid_scope' },
    });
    expect((await exchange({}, basic(application.uid, 'wrong'))).status).toBe(401);
    expect((await exchange({ client_id: application.uid })).status).toBe(401);
  });

  test('gives administrator scopes to administrators only', async () => {
    expect(await exchange({ scope: 'api sudo' })).toMatchObject({ status: 400, body: { error: 'invalid_scope' } });
    expect((await exchange({ username: 'root', scope: 'api sudo' })).status).toBe(200);
    await set({ admin_mode: true });
    for (const scope of ['api sudo', 'api admin_mode']) {
      expect(await exchange({ username: 'root', scope })).toMatchObject({ body: { error: 'invalid_scope' } });
    }
    await set({ admin_mode: false });
  });

  test('is refused with the same message for a wrong password, an unknown name and a user with a second factor', async () => {
    const cautious = await makePerson(app(), { two_factor_enabled: true });
    const answers = [
      await exchange({ password: 'wrong' }),
      await exchange({ username: 'nobody-at-all' }),
      await exchange({ username: cautious.username }),
      await exchange({ username: 'a\u0000b' }),
    ];
    for (const answer of answers) {
      expect(answer).toMatchObject(refused);
      expect(answer.body).toEqual(answers[0]?.body);
    }
  });

  test('is refused for blocked accounts, and for accounts that must change their password', async () => {
    const blocked = await makePerson(app(), { state: 'blocked' });
    expect(await exchange({ username: blocked.username })).toMatchObject(refused);
    const changing = await makePerson(app(), { password_change_required: true });
    expect(await exchange({ username: changing.username })).toMatchObject(refused);
  });

  test('is rate limited against guessing, with a Retry-After header', async () => {
    const target = await makePerson(app());
    const guess = () => exchange({ username: target.username, password: 'wrong' });
    let answer = await guess();
    for (let tries = 1; tries < 40 && answer.status !== 429; tries++) answer = await guess();
    expect([answer.status, answer.body.error]).toEqual([429, 'too_many_requests']);
    expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await exchange({ username: target.username })).status).toBe(429);
    await sql`delete from rate_counts`.execute(app().hub.services.db);
  });

  test.each(['oauth_password_grant_enabled', 'password_authentication_enabled_for_git'])(
    'is disabled by the setting %s, and then the discovery document does not offer it',
    async (setting) => {
      const offered = async () => (await get(app(), '/.well-known/openid-configuration')).body.grant_types_supported;
      expect(await offered()).toContain('password');
      await set({ [setting]: false });
      try {
        expect(await exchange()).toMatchObject({ status: 400, body: { error: 'unsupported_grant_type' } });
        expect(await offered()).not.toContain('password');
      } finally {
        await set({ [setting]: true });
      }
    },
  );

  test('gives tokens the lifetime of the setting', async () => {
    await set({ oauth_access_token_lifetime: 600 });
    try {
      const { body } = await exchange();
      expect(body.expires_in).toBe(600);
      const info = await get(app(), '/oauth/token/info', bearer(body.access_token));
      expect(info.body.expires_in).toBeLessThanOrEqual(600);
    } finally {
      await set({ oauth_access_token_lifetime: 7200 });
    }
  });
});
