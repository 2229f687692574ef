import { sql } from 'kysely';
import { beforeAll, describe, expect, test } from 'vitest';
import { type CreatedApplication, updateApplication } from '#domains/oauth/applications.ts';
import { digestToken } from '#platform/secrets.ts';
import type { TestUser } from '../support/app.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { apiStatus, codeFor, credentials, makeApplication, pkce, post, REDIRECT_URI, tokensFor } from './flows.ts';

const app = useApp();
let user: TestUser;
let application: CreatedApplication;

beforeAll(async () => {
  user = await app().make.user();
  application = await makeApplication(app(), user);
});

const refresh = (refresh_token: string, fields: Record<string, string> = {}) =>
  post(app(), '/oauth/token', { grant_type: 'refresh_token', ...credentials(application), refresh_token, ...fields });

const refused = { status: 400, body: { error: 'invalid_grant' } };

describe('refreshing', () => {
  test('gives a new pair, and revokes the old one', async () => {
    const old = await tokensFor(app(), user, application);
    const { status, body } = await refresh(old.refresh_token, { redirect_uri: REDIRECT_URI });
    expect(status).toBe(200);
    expect(body).toMatchObject({ token_type: 'bearer', expires_in: 7200, scope: 'api' });
    expect(body.access_token).not.toBe(old.access_token);
    expect(body.refresh_token).not.toBe(old.refresh_token);
    expect(await apiStatus(app(), old.access_token)).toBe(401);
    expect(await apiStatus(app(), body.access_token)).toBe(200);
  });

  test('works after the access token has expired', async () => {
    const old = await tokensFor(app(), user, application);
    await sql`update oauth_access_tokens set expires_at = now() - interval '1 hour'
      where digest = ${digestToken(old.access_token)}`.execute(app().hub.services.db);
    expect(await apiStatus(app(), old.access_token)).toBe(401);
    expect((await refresh(old.refresh_token)).status).toBe(200);
  });

  test('may narrow the scopes, never widen them', async () => {
    const wide = await makeApplication(app(), user, { scopes: ['read_api', 'read_user', 'api'] });
    const old = await tokensFor(app(), user, wide, { scope: 'read_api read_user' });
    const ask = (scope: string) => refresh(old.refresh_token, { ...credentials(wide), scope });
    expect(await ask('read_api api')).toMatchObject({ status: 400, body: { error: 'invalid_scope' } });
    expect(await ask('read_user')).toMatchObject({ status: 200, body: { scope: 'read_user' } });
  });

  test('gives no scope that the application has lost', async () => {
    const wide = await makeApplication(app(), user, { scopes: ['read_user', 'api'] });
    const old = await tokensFor(app(), user, wide, { scope: 'api read_user' });
    await updateApplication(app().context(user), wide.id, { scopes: ['read_user'] });
    const { status, body } = await refresh(old.refresh_token, credentials(wide));
    expect([status, body.scope]).toEqual([200, 'read_user']);
    await updateApplication(app().context(user), wide.id, { scopes: ['openid'] });
    expect(await refresh(body.refresh_token, credentials(wide))).toMatchObject({
      status: 400,
      body: { error: 'invalid_scope' },
    });
    expect(await apiStatus(app(), body.access_token)).toBe(403);
  });

  test('is refused to another application, with another redirect URI, and for a blocked user', async () => {
    const other = await makeApplication(app(), user);
    const old = await tokensFor(app(), user, application);
    expect(await refresh(old.refresh_token, credentials(other))).toMatchObject(refused);
    expect(await refresh(old.refresh_token, { redirect_uri: `${REDIRECT_URI}/` })).toMatchObject(refused);
    expect(await refresh(old.access_token)).toMatchObject(refused);
    expect(await apiStatus(app(), old.access_token)).toBe(200);
    const blocked = await app().make.user();
    const theirs = await tokensFor(app(), blocked, application);
    await app().hub.services.db.updateTable('users').set({ state: 'blocked' }).where('id', '=', blocked.id).execute();
    expect(await refresh(theirs.refresh_token)).toMatchObject(refused);
  });
});

describe('a refresh token that was used before', () => {
  test('revokes its whole family even if it is an old one, and no other family', async () => {
    const first = await tokensFor(app(), user, application);
    const unconcerned = await tokensFor(app(), user, application);
    const { body: second } = await refresh(first.refresh_token);
    const { body: third } = await refresh(second.refresh_token);
    expect(await apiStatus(app(), third.access_token)).toBe(200);
    expect(await refresh(first.refresh_token)).toMatchObject(refused);
    expect(await apiStatus(app(), third.access_token)).toBe(401);
    expect(await refresh(third.refresh_token)).toMatchObject(refused);
    expect(await apiStatus(app(), unconcerned.access_token)).toBe(200);
  });

  test('is reported to the user without secrets', async () => {
    const first = await tokensFor(app(), user, application);
    await refresh(first.refresh_token);
    await refresh(first.refresh_token);
    const { rows } = await sql<{ payload: unknown; user_ids: unknown }>`
      select payload, user_ids from events where kind = 'oauth_authorization.revoked'
        and subject_id = ${application.id} order by id desc limit 1`.execute(app().hub.services.db);
    expect(rows[0]?.payload).toEqual({ application_id: application.id, user_id: user.id, reason: 'reuse' });
  });

  test('succeeds for one of two concurrent requests, and revokes nothing', async () => {
    const old = await tokensFor(app(), user, application);
    const { db } = app().hub.services;
    const key = `oauth:${application.id}:${user.id}`;
    // Both requests have started and wait for the same lock before either continues.
    const answers = await db.transaction().execute(async (tx) => {
      await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`.execute(tx);
      const both = Promise.all([refresh(old.refresh_token), refresh(old.refresh_token)]);
      await until('both wait', async () => {
        const { rows } = await sql<{ n: number }>`
          select count(*) as n from pg_locks where locktype = 'advisory' and not granted
            and (classid::bigint << 32 | objid::bigint) = hashtextextended(${key}, 0)`.execute(db);
        return rows[0]?.n === 2;
      });
      return { both };
    });
    const sorted = (await answers.both).sort((left, right) => left.status - right.status);
    expect(sorted.map(({ status }) => status)).toEqual([200, 400]);
    expect(sorted[1]?.body.error).toBe('invalid_grant');
    expect(await apiStatus(app(), sorted[0]?.body.access_token)).toBe(200);
  });
});

describe('a public application', () => {
  const native = async () => {
    const created = await makeApplication(app(), user, { confidential: false });
    const { verifier, challenge } = pkce();
    const code = await codeFor(app(), user, created, { code_challenge: challenge, code_challenge_method: 'S256' });
    const { body } = await post(app(), '/oauth/token', {
      grant_type: 'authorization_code',
      client_id: created.uid,
      code,
      redirect_uri: REDIRECT_URI,
      code_verifier: verifier,
    });
    const again = (fields: Record<string, string>) =>
      post(app(), '/oauth/token', {
        grant_type: 'refresh_token',
        client_id: created.uid,
        refresh_token: body.refresh_token,
        ...fields,
      });
    return { verifier, again };
  };

  test('may send its verifier again if it is the right one', async () => {
    const { verifier, again } = await native();
    expect(await again({ code_verifier: pkce().verifier })).toMatchObject(refused);
    const { status, body } = await again({ code_verifier: verifier, redirect_uri: REDIRECT_URI });
    expect(status).toBe(200);
    // The next pairs work the same way, with or without the verifier.
    const next = await again({ refresh_token: body.refresh_token, code_verifier: verifier });
    expect(next.status).toBe(200);
    expect((await again({ refresh_token: next.body.refresh_token })).status).toBe(200);
  });

  test('must send its verifier if the setting says so', async () => {
    const set = (value: boolean) =>
      app().as(app().root).put('/application/settings', { oauth_refresh_requires_code_verifier: value });
    const { verifier, again } = await native();
    expect((await set(true)).status).toBe(200);
    try {
      expect(await again({})).toMatchObject(refused);
      expect((await again({ code_verifier: verifier })).status).toBe(200);
    } finally {
      await set(false);
    }
  });
});
