import { createRemoteJWKSet, decodeJwt, jwtVerify } from 'jose';
import { sql } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import type { CreatedApplication } from '#domains/oauth/applications.ts';
import { approve } from '#domains/oauth/authorization.ts';
import { sweepOAuth } from '#domains/oauth/jobs.ts';
import { endpoints } from '#domains/oauth/rest/openapi.ts';
import { publicKeys, rotateSigningKey, signingKey } from '#domains/oauth/signing-keys.ts';
import { authorizedApplications, revokeAuthorization } from '#domains/oauth/tokens.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { digestToken } from '#platform/secrets.ts';
import type { TestUser } from '../support/app.ts';
import { useApp } from '../support/app.ts';
import {
  apiStatus,
  ask,
  basic,
  bearer,
  codeFor,
  credentials,
  get,
  makeApplication,
  post,
  redeem,
  tokensFor,
} from './flows.ts';

const app = useApp();
let user: TestUser;
let application: CreatedApplication;
let other: CreatedApplication;
let native: CreatedApplication;

beforeAll(async () => {
  user = await app().make.user();
  application = await makeApplication(app(), user);
  other = await makeApplication(app(), user);
  native = await makeApplication(app(), user, { confidential: false });
});

const db = () => app().hub.services.db;
const expire = (token: string) =>
  sql`update oauth_access_tokens set expires_at = now() - interval '1 second' where digest = ${digestToken(token)}`.execute(
    db(),
  );

describe('/oauth/revoke', () => {
  const revoke = (token: string, fields: Record<string, string> = credentials(application)) =>
    post(app(), '/oauth/revoke', { token, ...fields });

  test.each(['access_token', 'refresh_token'] as const)('revokes both tokens of the pair by its %s', async (which) => {
    const tokens = await tokensFor(app(), user, application);
    const { status, body } = await revoke(tokens[which]);
    expect([status, body]).toEqual([200, {}]);
    expect(await apiStatus(app(), tokens.access_token)).toBe(401);
    const refresh = { grant_type: 'refresh_token', ...credentials(application), refresh_token: tokens.refresh_token };
    expect((await post(app(), '/oauth/token', refresh)).status).toBe(400);
    // Revoking the token again or revoking an unknown token is not an error (RFC 7009 §2.2).
    expect(await revoke(tokens[which])).toMatchObject({ status: 200, body: {} });
    expect(await revoke('never-was')).toMatchObject({ status: 200, body: {} });
  });

  test('does nothing without the credentials of the application', async () => {
    const { access_token } = await tokensFor(app(), user, application);
    const attempts: [Record<string, string>, number, string][] = [
      [{}, 401, 'invalid_client'],
      [{ client_id: application.uid }, 401, 'invalid_client'],
      [{ client_id: application.uid, client_secret: 'wrong' }, 401, 'invalid_client'],
      [credentials(other), 400, 'unauthorized_client'],
      [{ client_id: native.uid }, 400, 'unauthorized_client'],
    ];
    for (const [fields, status, error] of attempts) {
      expect(await revoke(access_token, fields)).toMatchObject({ status, body: { error } });
    }
    expect(await apiStatus(app(), access_token)).toBe(200);
    expect(await post(app(), '/oauth/revoke', credentials(application))).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    });
  });
});

describe('/oauth/introspect', () => {
  const introspect = (token: string, fields: Record<string, string> = credentials(application)) =>
    post(app(), '/oauth/introspect', { token, ...fields });

  test('gives an application the details of its own tokens', async () => {
    const tokens = await tokensFor(app(), user, application, { scope: 'api openid' });
    const { status, body, headers } = await introspect(tokens.access_token);
    expect(status).toBe(200);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(body).toEqual({
      active: true,
      scope: 'api openid',
      client_id: application.uid,
      username: user.username,
      sub: String(user.id),
      iss: app().url,
      token_type: 'bearer',
      iat: expect.any(Number),
      exp: body.iat + 7200,
    });
    expect((await introspect(tokens.refresh_token)).body).toMatchObject({ active: true, client_id: application.uid });
    await expire(tokens.access_token);
    expect((await introspect(tokens.access_token)).body).toEqual({ active: false });
  });

  test('reveals nothing about tokens of others, and nothing to callers without a secret', async () => {
    const { access_token } = await tokensFor(app(), user, application);
    expect(await introspect(access_token, credentials(other))).toMatchObject({ status: 200, body: { active: false } });
    expect(await introspect('never-was')).toMatchObject({ status: 200, body: { active: false } });
    expect((await introspect(access_token, {})).status).toBe(401);
    expect((await introspect(access_token, { client_id: native.uid })).status).toBe(401);
    expect((await introspect(access_token, { client_id: application.uid })).status).toBe(401);
  });
});

describe('/oauth/token/info', () => {
  test('describes the token in the header or the query, with the old field names too', async () => {
    const { access_token } = await tokensFor(app(), user, application, { scope: 'api openid' });
    const byHeader = await get(app(), '/oauth/token/info', bearer(access_token));
    expect(byHeader.status).toBe(200);
    expect(byHeader.body).toEqual({
      resource_owner_id: user.id,
      scope: ['api', 'openid'],
      expires_in: expect.any(Number),
      application: { uid: application.uid },
      created_at: expect.any(Number),
      scopes: ['api', 'openid'],
      expires_in_seconds: byHeader.body.expires_in,
    });
    expect(byHeader.body.expires_in).toBeLessThanOrEqual(7200);
    expect((await get(app(), `/oauth/token/info?access_token=${access_token}`)).status).toBe(200);
  });

  test('answers 401 for every invalid token, and for two different tokens', async () => {
    const expired = await tokensFor(app(), user, application);
    await expire(expired.access_token);
    const good = await tokensFor(app(), user, application);
    const personal = await app().tokenOf(user);
    const sent: [string, Record<string, string>][] = [
      ['', {}],
      ['', bearer('never-was')],
      ['', bearer(expired.access_token)],
      ['', bearer(good.refresh_token)],
      ['', bearer(personal)],
      ['', basic(application.uid, application.secret)],
      ['?access_token=never-was', bearer(good.access_token)],
    ];
    for (const [query, headers] of sent) {
      const answer = await get(app(), `/oauth/token/info${query}`, headers);
      expect([answer.status, answer.body.error]).toEqual([401, 'invalid_token']);
      expect(answer.headers.get('www-authenticate')).toMatch(/^Bearer /);
    }
  });

  test('accepts no token in the query if the setting forbids it', async () => {
    const { access_token } = await tokensFor(app(), user, application);
    const set = (value: boolean) =>
      app().as(app().root).put('/application/settings', { token_in_query_enabled: value });
    await set(false);
    try {
      expect((await get(app(), `/oauth/token/info?access_token=${access_token}`)).status).toBe(401);
      expect((await get(app(), `/oauth/userinfo?access_token=${access_token}`)).status).toBe(401);
      expect((await get(app(), '/oauth/token/info', bearer(access_token))).status).toBe(200);
    } finally {
      await set(true);
    }
  });
});

describe('/oauth/userinfo', () => {
  test('returns only the claims that the scopes of the token allow', async () => {
    const parent = await app().make.group({ visibility: 'private' });
    await app().make.groupMember(parent, user, 30);
    const claims = async (scope: string) => {
      const { access_token } = await tokensFor(app(), user, application, { scope });
      return (await get(app(), '/oauth/userinfo', bearer(access_token))).body;
    };
    expect(await claims('openid')).toEqual({ sub: String(user.id) });
    expect(await claims('openid email')).toEqual({
      sub: String(user.id),
      email: `${user.username}@example.com`,
      email_verified: true,
    });
    expect(await claims('openid profile')).toEqual({
      sub: String(user.id),
      name: `Name of ${user.username}`,
      nickname: user.username,
      preferred_username: user.username,
      profile: `${app().url}/${user.username}`,
      updated_at: expect.any(Number),
      groups: [parent.full_path],
    });
  });

  test('has the claims of the id token, but for the groups', async () => {
    await app().make.groupMember(await app().make.group({ visibility: 'private' }), user, 30);
    for (const scope of ['openid', 'openid profile email']) {
      const { access_token, id_token = '' } = await tokensFor(app(), user, application, { scope });
      const { body } = await get(app(), '/oauth/userinfo', bearer(access_token));
      const { groups: _, ...claims } = body;
      const { iss, aud, iat, exp, azp, at_hash, auth_time, ...told } = decodeJwt(id_token);
      expect(told).toEqual(claims);
    }
  });

  test('accepts POST, with the token in the form too', async () => {
    const { access_token } = await tokensFor(app(), user, application, { scope: 'openid' });
    expect((await post(app(), '/oauth/userinfo', {}, bearer(access_token))).body.sub).toBe(String(user.id));
    expect((await post(app(), '/oauth/userinfo', { access_token })).body.sub).toBe(String(user.id));
  });

  test('answers 403 without `openid` and 401 without a valid token, whatever cookie is sent', async () => {
    const { access_token } = await tokensFor(app(), user, application, { scope: 'api' });
    const without = await get(app(), '/oauth/userinfo', bearer(access_token));
    expect([without.status, without.body.error]).toEqual([403, 'insufficient_scope']);
    expect((await get(app(), '/oauth/userinfo')).status).toBe(401);
    expect((await get(app(), '/oauth/userinfo', bearer('never-was'))).status).toBe(401);
    expect((await get(app(), '/oauth/userinfo', { cookie: 'millrace_session=x' })).status).toBe(401);
  });

  test('a token with only sign-in scopes gives no access to the API', async () => {
    const { access_token } = await tokensFor(app(), user, application, { scope: 'openid profile email' });
    expect((await get(app(), '/api/v4/projects', bearer(access_token))).status).toBe(403);
  });
});

const preflight = (path: string, method: string, headers?: string) =>
  fetch(app().url + path, {
    method: 'OPTIONS',
    headers: {
      origin: 'https://app.example',
      'access-control-request-method': method,
      ...(headers ? { 'access-control-request-headers': headers } : {}),
    },
  });

describe('across origins', () => {
  test.each([
    ['/oauth/token', 'POST'],
    ['/oauth/revoke', 'POST'],
    ['/oauth/userinfo', 'GET'],
    ['/oauth/userinfo', 'POST'],
  ])('%s allows scripts to send %s with few headers and never with cookies', async (path, method) => {
    const allowed = await preflight(path, method, 'authorization, content-type');
    expect(allowed.status).toBe(204);
    expect(allowed.headers.get('access-control-allow-origin')).toBe('*');
    expect(allowed.headers.get('access-control-allow-methods')).toContain(method);
    expect(allowed.headers.get('access-control-allow-credentials')).toBeNull();
    for (const refused of [
      await preflight(path, method, 'x-requested-with'),
      await preflight(path, method, 'authorization, x-requested-with'),
      await preflight(path, 'DELETE'),
    ]) {
      expect(refused.status).toBe(400);
      expect(refused.headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  test.each(['/oauth/authorize', '/oauth/introspect', '/oauth/device', '/users/sign_in'])(
    '%s has no preflight, and other origins cannot read its answers',
    async (path) => {
      const asked = await preflight(path, 'POST', 'authorization');
      expect(asked.headers.get('access-control-allow-origin')).toBeNull();
      const read = await fetch(app().url + path, { headers: { origin: 'https://app.example' }, redirect: 'manual' });
      expect(read.headers.get('access-control-allow-origin')).toBeNull();
    },
  );

  test('errors can be read as well', async () => {
    const response = await fetch(`${app().url}/oauth/token`, {
      method: 'POST',
      headers: { origin: 'https://app.example' },
    });
    expect(response.status).toBe(400);
    expect(response.headers.get('access-control-allow-origin')).toBe('*');
  });
});

describe('the API across origins', () => {
  const script = (
    path: string,
    { headers = {}, ...init }: { headers?: Record<string, string>; method?: string; body?: string } = {},
  ) => fetch(app().url + path, { ...init, headers: { origin: 'https://app.example', ...headers } });
  const shown = ({ headers }: Response) =>
    ['origin', 'credentials'].map((name) => headers.get(`access-control-allow-${name}`));

  test.each(['/api/v4/projects', '/api/v4/projects/1/issues/1', '/api/v5/projects', '/api/graphql'])(
    '%s answers preflights for every method and header',
    async (path) => {
      const allowed = await preflight(path, 'DELETE', 'authorization, x-requested-with');
      expect([allowed.status, ...shown(allowed)]).toEqual([204, '*', null]);
      expect(allowed.headers.get('access-control-allow-headers')).toBe('authorization, x-requested-with');
      expect(allowed.headers.get('access-control-allow-methods')).toMatch(/GET.*POST.*PUT.*PATCH.*DELETE/);
    },
  );

  test('answers and errors can be read, without cookies', async () => {
    const { access_token } = await tokensFor(app(), user, application, { scope: 'api' });
    const query = { method: 'POST', body: JSON.stringify({ query: '{ currentUser { username } }' }) };
    const headers = { authorization: `Bearer ${access_token}`, 'content-type': 'application/json' };
    for (const [status, answer] of [
      [200, await script('/api/v4/user', { headers })],
      [401, await script('/api/v4/user')],
      [404, await script('/api/v4/nowhere')],
      [405, await script('/api/v4/projects', { method: 'PATCH' })],
      [200, await script('/api/graphql', { ...query, headers })],
      [401, await script('/api/graphql', { ...query, headers: { ...headers, authorization: 'Bearer wrong' } })],
    ] as const) {
      expect([answer.status, ...shown(answer)]).toEqual([status, '*', null]);
      expect(answer.headers.get('access-control-expose-headers')).toBe('*');
    }
  });

  test('pages, and answers to no script, have no such headers', async () => {
    expect(shown(await script('/users/sign_in'))).toEqual([null, null]);
    expect(shown(await preflight('/users/sign_in', 'POST'))).toEqual([null, null]);
    expect(shown(await fetch(`${app().url}/api/v4/user`))).toEqual([null, null]);
  });
});

describe('signing keys', () => {
  test('are created once despite concurrent requests, and are stored sealed', async () => {
    const ctx = app().context();
    await Promise.all([
      ...Array.from({ length: 4 }, () => signingKey(ctx)),
      ...Array.from({ length: 4 }, () => publicKeys(ctx)),
    ]);
    const rows = await db().selectFrom('oauth_signing_keys').selectAll().execute();
    expect(rows).toHaveLength(1);
    expect(rows[0]?.private_jwk.toString('latin1')).not.toContain('"d"');
    const { body } = await get(app(), '/oauth/discovery/keys');
    expect(body.keys).toHaveLength(1);
    expect(Object.keys(body.keys[0]).sort()).toEqual(['alg', 'e', 'kid', 'kty', 'n', 'use']);
  });

  test('are rotated by administrators, and signatures of the old key can still be verified for a day', async () => {
    const keys = () => createRemoteJWKSet(new URL(`${app().url}/oauth/discovery/keys`));
    const options = { issuer: app().url, audience: application.uid };
    const before = await tokensFor(app(), user, application, { scope: 'openid' });
    await expect(rotateSigningKey(app().context(user))).rejects.toMatchObject({ code: 'forbidden' });
    const rotate = 'mutation { oauthSigningKeyRotate(input: {}) { kid errors } }';
    expect((await app().as(user).graphql(rotate)).data).toEqual({ oauthSigningKeyRotate: null });
    const { kid } = (await app().as(app().root).graphql(rotate)).data.oauthSigningKeyRotate;
    const after = await tokensFor(app(), user, application, { scope: 'openid' });
    expect((await jwtVerify(after.id_token ?? '', keys(), options)).protectedHeader.kid).toBe(kid);
    const { protectedHeader } = await jwtVerify(before.id_token ?? '', keys(), options);
    expect(protectedHeader.kid).not.toBe(kid);

    await sql`update oauth_signing_keys set created_at = now() - interval '25 hours'`.execute(db());
    await sweepOAuth.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    const { body } = await get(app(), '/oauth/discovery/keys');
    expect(body.keys.map((key: { kid: string }) => key.kid)).toEqual([kid]);
  });
});

describe('the applications that a user has authorized', () => {
  test('are listed with their scopes, and revoked with all their tokens and codes', async () => {
    const owner = await app().make.user();
    const person = await app().make.user();
    const [first, second] = [await makeApplication(app(), owner), await makeApplication(app(), owner)];
    const tokens = await tokensFor(app(), person, first, { scope: 'api' });
    const more = await tokensFor(app(), person, first, { scope: 'openid' });
    const kept = await tokensFor(app(), person, second);
    const ofOthers = await tokensFor(app(), user, first);
    const code = await codeFor(app(), person, first);
    const ctx = app().context(person);
    expect((await authorizedApplications(ctx)).map(({ application: { id }, scopes }) => [id, scopes])).toEqual([
      [second.id, ['api']],
      [first.id, ['api', 'openid']],
    ]);

    await revokeAuthorization(ctx, first.id);
    expect(await apiStatus(app(), tokens.access_token)).toBe(401);
    expect((await get(app(), '/oauth/userinfo', bearer(more.access_token))).status).toBe(401);
    expect((await redeem(app(), first, code)).status).toBe(400);
    expect(await apiStatus(app(), kept.access_token)).toBe(200);
    expect(await apiStatus(app(), ofOthers.access_token)).toBe(200);
    expect((await authorizedApplications(ctx)).map((each) => each.application.id)).toEqual([second.id]);
    await expect(revokeAuthorization(ctx, first.id)).rejects.toMatchObject({ code: 'not_found' });
  });

  test('cannot be authorized with a token', async () => {
    const read = await ask(app(), user, {
      client_id: application.uid,
      redirect_uri: 'https://client.example/callback',
      response_type: 'code',
    });
    if (!('ok' in read)) throw new Error('not asked');
    const { actor } = app().context(user);
    const createContext = createContextFactory(app().hub.services);
    for (const kind of ['token', 'oauth_token'] as const) {
      const ctx = createContext({ actor: { ...actor, credential: { kind, id: 1, holderId: 1, originId: null } } });
      await expect(approve(ctx, read.ok)).rejects.toMatchObject({ code: 'forbidden' });
    }
  });
});

describe('the sweep', () => {
  test('deletes codes and tokens that are long dead, and keeps the others', async () => {
    const alive = await tokensFor(app(), user, application);
    const dead = await tokensFor(app(), user, application);
    await post(app(), '/oauth/revoke', { token: dead.access_token, ...credentials(application) });
    const code = await codeFor(app(), user, application);
    await sql`update oauth_access_tokens set revoked_at = now() - interval '31 days'
      where digest = ${digestToken(dead.access_token)}`.execute(db());
    await expire(alive.access_token);
    await sql`update oauth_grants set expires_at = now() - interval '25 hours' where digest = ${digestToken(code)}`.execute(
      db(),
    );
    await sweepOAuth.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    const digests = await db().selectFrom('oauth_access_tokens').select('digest').execute();
    const left = digests.map(({ digest }) => digest.toString('hex'));
    expect(left).toContain(digestToken(alive.access_token).toString('hex'));
    expect(left).not.toContain(digestToken(dead.access_token).toString('hex'));
    expect(
      await db().selectFrom('oauth_grants').select('id').where('digest', '=', digestToken(code)).execute(),
    ).toEqual([]);
  });
});

test('the OpenAPI document describes only what is served', async () => {
  for (const { method, url } of endpoints) {
    const answer = await fetch(app().url + url, { method, redirect: 'manual' });
    expect([url, answer.status, answer.headers.get('content-type')]).not.toContain(404);
  }
});
