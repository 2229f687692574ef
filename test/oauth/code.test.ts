import { decodeJwt } from 'jose';
import { sql } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import type { CreatedApplication } from '#domains/oauth/applications.ts';
import { digestToken } from '#platform/secrets.ts';
import type { TestUser } from '../support/app.ts';
import { useApp } from '../support/app.ts';
import {
  apiStatus,
  basic,
  codeFor,
  credentials,
  makeApplication,
  pkce,
  post,
  REDIRECT_URI,
  redeem,
  tokensFor,
} from './flows.ts';

const app = useApp();
let user: TestUser;
let application: CreatedApplication;
let native: CreatedApplication;

beforeAll(async () => {
  user = await app().make.user();
  application = await makeApplication(app(), user);
  native = await makeApplication(app(), user, { confidential: false });
});

describe('redeeming a code', () => {
  test('gives a pair of tokens in the specified format, and forbids caching', async () => {
    const before = Math.floor(Date.now() / 1000) - 5;
    const { status, body, headers } = await redeem(app(), application, await codeFor(app(), user, application));
    expect(status).toBe(200);
    expect(body).toEqual({
      access_token: expect.stringMatching(/^[\w-]{43}$/),
      token_type: 'bearer',
      expires_in: 7200,
      refresh_token: expect.stringMatching(/^[\w-]{43}$/),
      scope: 'api',
      created_at: expect.any(Number),
    });
    expect(body.created_at).toBeGreaterThan(before);
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('pragma')).toBe('no-cache');
    expect(await apiStatus(app(), body.access_token)).toBe(200);
    expect(await apiStatus(app(), body.refresh_token)).toBe(401);
  });

  test('accepts the secret by HTTP Basic, and the request as JSON', async () => {
    const code = await codeFor(app(), user, application);
    const form = { grant_type: 'authorization_code', code, redirect_uri: REDIRECT_URI };
    expect((await post(app(), '/oauth/token', form, basic(application.uid, application.secret))).status).toBe(200);
    const again = await codeFor(app(), user, application);
    const response = await fetch(`${app().url}/oauth/token`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...form, ...credentials(application), code: again }),
    });
    expect(response.status).toBe(200);
  });

  test('accepts a verifier instead of a secret from a public application', async () => {
    const { verifier, challenge } = pkce();
    const code = await codeFor(app(), user, native, { code_challenge: challenge, code_challenge_method: 'S256' });
    const { status, body } = await post(app(), '/oauth/token', {
      grant_type: 'authorization_code',
      client_id: native.uid,
      code,
      redirect_uri: REDIRECT_URI,
      code_verifier: verifier,
    });
    expect(status).toBe(200);
    expect(await apiStatus(app(), body.access_token)).toBe(200);
  });

  test('rounds the time of the sign-in down, so that it is never in the future', async () => {
    const code = await codeFor(app(), user, application, { scope: 'openid' });
    await sql`update oauth_grants set authenticated_at = '2026-01-02 03:04:05.9Z' where digest = ${digestToken(code)}`.execute(
      app().hub.services.db,
    );
    const { id_token, access_token } = (await redeem(app(), application, code)).body;
    expect(decodeJwt(id_token).auth_time).toBe(Date.UTC(2026, 0, 2, 3, 4, 5) / 1_000);
    await sql`update oauth_access_tokens set created_at = '2026-01-02 03:04:05.9Z', expires_at = '2050-01-02 03:04:05.9Z'
      where digest = ${digestToken(access_token)}`.execute(app().hub.services.db);
    const { body } = await post(app(), '/oauth/introspect', { ...credentials(application), token: access_token });
    expect([body.iat, body.exp]).toEqual([
      Date.UTC(2026, 0, 2, 3, 4, 5) / 1_000,
      Date.UTC(2050, 0, 2, 3, 4, 5) / 1_000,
    ]);
  });

  test('stores no code, token or secret in plain text', async () => {
    const code = await codeFor(app(), user, application);
    const { body } = await redeem(app(), application, code);
    const { rows } = await sql<{ text: string }>`
      select row_to_json(g)::text as text from oauth_grants g union all
      select row_to_json(t)::text from oauth_access_tokens t union all
      select row_to_json(a)::text from oauth_applications a union all
      select payload::text from events`.execute(app().hub.services.db);
    const stored = rows.map((row) => row.text).join('\n');
    for (const secret of [code, body.access_token, body.refresh_token, application.secret]) {
      expect(stored).not.toContain(secret);
    }
  });
});

describe('the user and administrators', () => {
  test('are notified once that an application was authorized, without secrets', async () => {
    const person = await app().make.user();
    const fresh = await makeApplication(app(), user);
    const { refresh_token } = await tokensFor(app(), person, fresh);
    await post(app(), '/oauth/token', { grant_type: 'refresh_token', ...credentials(fresh), refresh_token });
    const { rows } = await sql`
      select kind, user_ids, payload from events where subject_type = 'OauthApplication' and subject_id = ${fresh.id}
      order by id`.execute(app().hub.services.db);
    expect(rows).toEqual([
      { kind: 'oauth_application.created', user_ids: [user.id], payload: expect.objectContaining({ uid: fresh.uid }) },
      {
        kind: 'oauth_authorization.created',
        user_ids: [person.id],
        payload: { application_id: fresh.id, user_id: person.id, scopes: ['api'] },
      },
    ]);
  });
});

describe('a code is refused', () => {
  const refused = { error: 'invalid_grant', error_description: expect.any(String) };

  test('for another application, and stays valid for its own', async () => {
    const other = await makeApplication(app(), user);
    const code = await codeFor(app(), user, application);
    expect(await redeem(app(), other, code)).toMatchObject({ status: 400, body: refused });
    expect((await redeem(app(), application, code)).status).toBe(200);
  });

  test('with another or no redirect URI, after it expired, and for a blocked user', async () => {
    const code = await codeFor(app(), user, application);
    for (const redirect_uri of [`${REDIRECT_URI}/`, `${REDIRECT_URI}?a=1`, 'https://client.example/Callback']) {
      expect(await redeem(app(), application, code, { redirect_uri })).toMatchObject({ status: 400, body: refused });
    }
    expect(await redeem(app(), application, code, { redirect_uri: '' })).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    });
    await sql`update oauth_grants set expires_at = now() - interval '1 second'
      where application_id = ${application.id} and used_at is null`.execute(app().hub.services.db);
    expect(await redeem(app(), application, code)).toMatchObject({ status: 400, body: refused });
    const blocked = await app().make.user();
    const theirs = await codeFor(app(), blocked, application);
    await app().hub.services.db.updateTable('users').set({ state: 'blocked' }).where('id', '=', blocked.id).execute();
    expect(await redeem(app(), application, theirs)).toMatchObject({ status: 400, body: refused });
  });

  test('ten minutes after it was created', async () => {
    await codeFor(app(), user, application);
    const { rows } = await sql<{ minutes: number }>`
      select extract(epoch from expires_at - created_at)::integer / 60 as minutes from oauth_grants
      where application_id = ${application.id} order by id desc limit 1`.execute(app().hub.services.db);
    expect(rows[0]?.minutes).toBe(10);
  });

  test('a second time, which also revokes its tokens', async () => {
    const code = await codeFor(app(), user, application);
    const { body } = await redeem(app(), application, code);
    expect(await apiStatus(app(), body.access_token)).toBe(200);
    expect(await redeem(app(), application, code)).toMatchObject({ status: 400, body: refused });
    expect(await apiStatus(app(), body.access_token)).toBe(401);
    const refresh = { grant_type: 'refresh_token', ...credentials(application), refresh_token: body.refresh_token };
    expect(await post(app(), '/oauth/token', refresh)).toMatchObject({ status: 400, body: refused });
  });

  test('nineteen times in twenty concurrent requests, which also revokes the tokens of the one that succeeded', async () => {
    const code = await codeFor(app(), user, application);
    const answers = await Promise.all(Array.from({ length: 20 }, () => redeem(app(), application, code)));
    const won = answers.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    expect(answers.filter(({ body }) => body.error === 'invalid_grant')).toHaveLength(19);
    expect(await apiStatus(app(), won[0]?.body.access_token)).toBe(401);
  });
});

describe('the verifier', () => {
  const exchange = (code: string, fields: Record<string, string>) =>
    post(app(), '/oauth/token', {
      grant_type: 'authorization_code',
      client_id: native.uid,
      code,
      redirect_uri: REDIRECT_URI,
      ...fields,
    });

  test('is refused if it is missing, wrong, 42 or 129 characters long, or malformed, and the right one still works', async () => {
    const { verifier, challenge } = pkce();
    const code = await codeFor(app(), user, native, { code_challenge: challenge, code_challenge_method: 'S256' });
    const wrong = ['', pkce().verifier, 'a'.repeat(42), 'a'.repeat(129), `${verifier}=`, challenge, 'é'.repeat(50)];
    for (const code_verifier of wrong) {
      expect(await exchange(code, { code_verifier })).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
    }
    expect((await exchange(code, { code_verifier: verifier })).status).toBe(200);
  });

  test.each([42, 129])('is refused at a length of %i even if its digest is the challenge', async (length) => {
    const verifier = 'a'.repeat(length);
    const { createHash } = await import('node:crypto');
    const challenge = createHash('sha256').update(verifier).digest('base64url');
    const code = await codeFor(app(), user, native, { code_challenge: challenge, code_challenge_method: 'S256' });
    expect(await exchange(code, { code_verifier: verifier })).toMatchObject({ status: 400 });
  });

  test('is refused if the request had no challenge', async () => {
    const code = await codeFor(app(), user, application);
    const sent = await redeem(app(), application, code, { code_verifier: pkce().verifier });
    expect(sent).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
  });

  test('is required in addition to the secret if the request had a challenge', async () => {
    const { verifier, challenge } = pkce();
    const code = await codeFor(app(), user, application, { code_challenge: challenge, code_challenge_method: 'S256' });
    expect((await redeem(app(), application, code)).status).toBe(400);
    expect((await redeem(app(), application, code, { code_verifier: verifier })).status).toBe(200);
  });
});

describe('the token endpoint refuses', () => {
  test('wrong client credentials, and asks for HTTP Basic', async () => {
    const code = await codeFor(app(), user, application);
    const unknown = [
      { client_id: application.uid, client_secret: `${application.secret}x` },
      { client_id: application.uid, client_secret: '' },
      { client_id: 'nobody', client_secret: application.secret },
      { client_id: '\0', client_secret: 'x' },
      { client_id: '', client_secret: '' },
      { client_id: native.uid, client_secret: 'wrong' },
    ];
    for (const fields of unknown) {
      const { status, body, headers } = await redeem(app(), application, code, fields);
      expect([status, body.error]).toEqual([401, 'invalid_client']);
      expect(headers.get('www-authenticate')).toMatch(/^Basic /);
    }
    expect((await redeem(app(), application, code)).status).toBe(200);
  });

  test('two authentication methods at once, and a bearer token in their place', async () => {
    const form = { grant_type: 'authorization_code', code: 'x', redirect_uri: REDIRECT_URI };
    const both = await post(
      app(),
      '/oauth/token',
      { ...form, ...credentials(application) },
      basic(application.uid, application.secret),
    );
    expect([both.status, both.body.error]).toEqual([400, 'invalid_request']);
    const { access_token } = await tokensFor(app(), user, application);
    const token = await post(app(), '/oauth/token', form, { authorization: `Bearer ${access_token}` });
    expect([token.status, token.body.error]).toEqual([401, 'invalid_client']);
  });

  test('repeated and missing parameters, unknown grants and malformed bodies with a documented error', async () => {
    const repeated = new URLSearchParams({ grant_type: 'authorization_code', ...credentials(application), code: 'a' });
    repeated.append('code', 'b');
    expect(await post(app(), '/oauth/token', repeated)).toMatchObject({
      status: 400,
      body: { error: 'invalid_request' },
    });
    expect(await post(app(), '/oauth/token', {})).toMatchObject({ status: 400, body: { error: 'invalid_request' } });
    for (const grant_type of ['client_credentials', 'implicit', 'constructor', '__proto__']) {
      expect(await post(app(), '/oauth/token', { grant_type, ...credentials(application) })).toMatchObject({
        status: 400,
        body: { error: 'unsupported_grant_type' },
      });
    }
    const bodies: [string, string][] = [
      ['application/json', '{'],
      ['application/json', '[1]'],
      ['application/json', '{"grant_type":{"a":1}}'],
      ['application/json', `{"grant_type":"password","username":"\\u0000","password":"\\ud800"}`],
      ['text/plain', 'grant_type=password'],
      ['application/x-www-form-urlencoded', 'grant_type=authorization_code&code=%00%ff&client_id=%zz'],
    ];
    for (const [type, body] of bodies) {
      const response = await fetch(`${app().url}/oauth/token`, {
        method: 'POST',
        headers: { 'content-type': type },
        body,
      });
      expect(response.status).toBeLessThan(402);
      expect(await response.json()).toEqual({ error: expect.any(String), error_description: expect.any(String) });
    }
    const huge = await fetch(`${app().url}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ code: 'x'.repeat(200_000) }),
    });
    expect(huge.status).toBe(413);
    expect(await huge.json()).toEqual({ error: 'invalid_request', error_description: expect.any(String) });
  });

  test('parameters in the query, because they end up in logs', async () => {
    const code = await codeFor(app(), user, application);
    const query = new URLSearchParams({
      grant_type: 'authorization_code',
      ...credentials(application),
      code,
      redirect_uri: REDIRECT_URI,
    });
    expect((await post(app(), `/oauth/token?${query}`, {})).status).toBe(400);
  });
});
