import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { updateApplication } from '#domains/oauth/applications.ts';
import { decideDevice, findUserCode } from '#domains/oauth/device.ts';
import { OAUTH_SCOPES } from '#domains/oauth/model.ts';
import { scopeInWords } from '#domains/tokens/scopes.ts';
import { digestToken } from '#platform/secrets.ts';
import { makePerson, signedIn, Visitor } from '../pages/visitor.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { apiStatus, credentials, get, makeApplication, post } from './flows.ts';

const app = useApp();
const db = () => app().hub.services.db;

const PATH = '/oauth/device';
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

interface Started {
  readonly device_code: string;
  readonly user_code: string;
}

/** Creates a public application, and starts the authorization of a device. */
const begin = async ({ scopes = ['read_user'], scope = 'read_user', name = 'Television' } = {}) => {
  const application = await makeApplication(app(), app().root, {
    name,
    scopes,
    confidential: false,
    redirect_uris: [],
  });
  const client_id = application.uid;
  const { status, body } = await post(app(), '/oauth/authorize_device', { client_id, scope });
  expect(status).toBe(200);
  const started: Started = body;
  const poll = (fields: Record<string, string> = {}) =>
    post(app(), '/oauth/token', {
      grant_type: DEVICE_GRANT,
      client_id,
      device_code: started.device_code,
      ...fields,
    });
  return { application, client_id, poll, ...started };
};

const change = (deviceCode: string, values: Record<string, unknown>) =>
  db().updateTable('oauth_device_grants').set(values).where('digest', '=', digestToken(deviceCode)).execute();

/** Moves the last poll into the past, as if the device had waited. */
const wait = (deviceCode: string, seconds: number) =>
  change(deviceCode, { last_polled_at: sql`last_polled_at - ${seconds} * interval '1 second'` });

const stateOf = async (deviceCode: string) =>
  (
    await db()
      .selectFrom('oauth_device_grants')
      .select('state')
      .where('digest', '=', digestToken(deviceCode))
      .executeTakeFirstOrThrow()
  ).state;

/** Submits a code on the device page. A valid code leads to the question for consent. */
const enter = async (visitor: Visitor, user_code: string) => {
  await visitor.get(PATH);
  return visitor.submit(PATH, { user_code });
};

const decide = (user: TestUser, code: string, approve: boolean) => decideDevice(app().context(user), code, approve);

describe('a device', () => {
  it('gets a code for itself and one for its user', async () => {
    const { uid: client_id } = await makeApplication(app(), app().root, { confidential: false });
    const { status, body, headers } = await post(app(), '/oauth/authorize_device', { client_id, scope: 'api' });
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(body).toEqual({
      device_code: expect.stringMatching(/^[\w-]{27,}$/),
      user_code: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/),
      verification_uri: `${app().url}/oauth/device`,
      verification_uri_complete: `${app().url}/oauth/device?user_code=${body.user_code}`,
      expires_in: 300,
      interval: 5,
    });
    const row = await db()
      .selectFrom('oauth_device_grants')
      .selectAll()
      .where('digest', '=', digestToken(body.device_code))
      .executeTakeFirstOrThrow();
    expect(JSON.stringify(row)).not.toContain(body.device_code);
    expect(JSON.stringify(row)).not.toContain(body.user_code.replace('-', ''));
  });

  it('is refused without a client, with a wrong secret, and for scopes that its application may not request', async () => {
    const open = await makeApplication(app(), app().root, { scopes: ['read_user'], confidential: false });
    const closed = await makeApplication(app(), app().root);
    const ask = async (fields: Record<string, string>) => {
      const { status, body } = await post(app(), '/oauth/authorize_device', fields);
      return [status, body.error];
    };
    expect(await ask({ scope: 'api' })).toEqual([401, 'invalid_client']);
    expect(await ask({ client_id: 'nobody' })).toEqual([401, 'invalid_client']);
    expect(await ask({ client_id: closed.uid, client_secret: 'wrong' })).toEqual([401, 'invalid_client']);
    expect(await ask({ client_id: open.uid, scope: 'api' })).toEqual([400, 'invalid_scope']);
    expect((await ask({ ...credentials(closed), scope: 'api' }))[0]).toBe(200);
  });

  it('gets slow_down with a longer interval each time that it polls too early', async () => {
    const { poll, device_code } = await begin();
    const error = async () => {
      const { status, body } = await poll();
      expect(status).toBe(400);
      expect(body.error_description).toEqual(expect.any(String));
      return body.error;
    };
    expect(await error()).toBe('authorization_pending');
    expect(await error()).toBe('slow_down');
    await wait(device_code, 6);
    // It was told to wait five seconds more.
    expect(await error()).toBe('slow_down');
    await wait(device_code, 16);
    expect(await error()).toBe('authorization_pending');
  });

  it('gets no scope that its application has lost meanwhile', async () => {
    const user = await app().make.user();
    for (const [scopes, answer] of [
      [['openid'], { status: 200, body: { scope: 'openid' } }],
      [['email'], { status: 400, body: { error: 'invalid_scope' } }],
    ] as const) {
      const { poll, user_code, application } = await begin({
        scopes: ['read_user', 'openid'],
        scope: 'read_user openid',
      });
      expect(await decide(user, user_code, true)).not.toBeNull();
      await updateApplication(app().context(app().root), application.id, { scopes });
      expect(await poll()).toMatchObject(answer);
    }
  });

  it('gets its token only once after its user has agreed, and no refresh token', async () => {
    const { poll, user_code, application } = await begin();
    const user = await app().make.user();
    expect((await poll()).body.error).toBe('authorization_pending');
    expect(await decide(user, user_code, true)).not.toBeNull();
    const { status, body } = await poll();
    expect(status).toBe(200);
    expect(body).toEqual({
      access_token: expect.any(String),
      token_type: 'Bearer',
      expires_in: 7200,
      scope: 'read_user',
      created_at: expect.any(Number),
    });
    expect(await apiStatus(app(), body.access_token)).toBe(200);
    expect((await poll()).body.error).toBe('invalid_grant');

    const list = await app().as(user).graphql('{ currentUser { authorizedApplications { name scopes } } }');
    expect(list.data.currentUser.authorizedApplications).toEqual([{ name: application.name, scopes: ['read_user'] }]);
  });

  it('gets one token from concurrent polls', async () => {
    const { poll, user_code } = await begin();
    await decide(await app().make.user(), user_code, true);
    const answers = await Promise.all(Array.from({ length: 5 }, () => poll()));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  it('gets an error if it was denied, if its code expired, and if its code is unknown', async () => {
    const denied = await begin();
    await decide(await app().make.user(), denied.user_code, false);
    expect((await denied.poll()).body.error).toBe('access_denied');

    const late = await begin();
    await change(late.device_code, { expires_at: sql`now()` });
    expect((await late.poll()).body.error).toBe('expired_token');
    expect(await decide(await app().make.user(), late.user_code, true)).toBeNull();

    const other = await begin();
    expect((await other.poll({ device_code: 'guessed' })).body.error).toBe('invalid_grant');
    expect((await other.poll({ client_id: late.client_id })).body.error).toBe('invalid_grant');
    expect((await other.poll({ client_id: 'nobody' })).body.error).toBe('invalid_client');
  });

  it('gets nothing for a user who was blocked meanwhile', async () => {
    const { poll, user_code } = await begin();
    const user = await app().make.user();
    await decide(user, user_code, true);
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', user.id).execute();
    expect((await poll()).body.error).toBe('access_denied');
  });

  it('is not authorized with a token, nor for scopes that only administrators can use', async () => {
    const { user_code, device_code } = await begin({ scopes: ['sudo'], scope: 'sudo' });
    const user = await app().make.user();
    await expect(decide(user, user_code, true)).rejects.toMatchObject({ code: 'forbidden' });
    const ctx = app().context(app().root);
    const byToken = {
      ...ctx,
      actor: { ...ctx.actor, credential: { kind: 'token', id: 1, holderId: 1, originId: null } as const },
    };
    await expect(decideDevice(byToken, user_code, true)).rejects.toMatchObject({ code: 'forbidden' });
    expect(await stateOf(device_code)).toBe('pending');
  });
});

describe('the device page', () => {
  it('asks visitors to sign in first, and then comes back with the code', async () => {
    const { user_code } = await begin();
    const user = await makePerson(app());
    const visitor = new Visitor(app().url);
    const path = `${PATH}?user_code=${user_code}`;
    expect(await visitor.get(path)).toMatchObject({
      status: 303,
      location: `/users/sign_in?return_to=${encodeURIComponent(path)}`,
    });
    await visitor.follow();
    expect(
      await visitor.submit('/users/sign_in', { login: user.username, password: 'correct-horse-battery' }),
    ).toMatchObject({
      status: 303,
      location: path,
    });
    expect((await visitor.follow()).html).toMatch(new RegExp(`name="user_code"[^>]*value="${user_code}"`));
  });

  it('shows the application and its scopes, and authorizes it only by a button', async () => {
    const { user_code, device_code, poll } = await begin({ name: 'TV <b>"set"</b>' });
    const { visitor, user } = await signedIn(app());
    await visitor.get(`${PATH}?user_code=${user_code}`);
    expect(await stateOf(device_code)).toBe('pending');
    const asked = await visitor.submit(PATH, { user_code });
    expect(asked.status).toBe(200);
    expect(asked.text).toContain('TV <b>"set"</b>');
    expect(asked.html).not.toContain('<b>');
    expect(asked.text).toContain(scopeInWords('read_user'));
    expect(asked.text).toContain(`@${user.username}`);
    expect(asked.text).toContain(user_code);
    expect(asked.html).toMatch(/<button[^>]*>Authorize<\/button>/);
    expect(asked.html).toMatch(/<button[^>]*>Deny<\/button>/);
    expect(await stateOf(device_code)).toBe('pending');
    expect((await poll()).body.error).toBe('authorization_pending');

    const done = await visitor.submit(PATH, { decision: 'approve' });
    expect([done.status, done.text.includes('Device connected')]).toEqual([200, true]);
    expect((await poll()).status).toBe(200);
  });

  it('accepts codes as people type them', async () => {
    const { visitor } = await signedIn(app());
    for (const write of [
      (code: string) => code.toLowerCase(),
      (code: string) => code.replace('-', ''),
      (code: string) => ` ${code.replace('-', ' ').toLowerCase()} `,
      (code: string) => [...code.replace('-', '')].join('–'),
    ]) {
      const { user_code } = await begin();
      expect((await enter(visitor, write(user_code))).text).toContain('Television');
    }
  });

  it('denies a device', async () => {
    const { user_code, device_code, poll } = await begin();
    const { visitor } = await signedIn(app());
    await enter(visitor, user_code);
    expect((await visitor.submit(PATH, { decision: 'deny' })).text).toContain('Device denied');
    expect(await stateOf(device_code)).toBe('denied');
    expect((await poll()).body.error).toBe('access_denied');
    // A code can be answered only once.
    await visitor.get(PATH);
    expect((await visitor.submit(PATH, { user_code, decision: 'approve' })).status).toBe(422);
    expect((await poll()).body.error).toBe('access_denied');
  });

  it('reports that other codes are unknown', async () => {
    const { visitor } = await signedIn(app());
    for (const user_code of ['BCDF-GHJK', '', ' ', '-', 'x'.repeat(90)]) {
      const answer = await enter(visitor, user_code);
      expect(answer.status).toBe(422);
      expect(answer.html).toMatch(/role="alert"/);
    }
  });

  it('cannot be answered with a form of another user, or without signing in', async () => {
    const { user_code, device_code } = await begin();
    const { visitor } = await signedIn(app());
    const { visitor: attacker } = await signedIn(app());
    await attacker.get(PATH);
    for (const authenticity_token of ['', attacker.csrfToken ?? '']) {
      const forged = await visitor.post(PATH, { user_code, decision: 'approve', authenticity_token });
      expect(forged.status).toBe(422);
    }
    const anybody = new Visitor(app().url);
    await anybody.get('/users/sign_in');
    expect((await anybody.post(PATH, { user_code, decision: 'approve' })).status).toBe(303);
    expect(await stateOf(device_code)).toBe('pending');
  });

  it('blocks a user who guesses codes, and reports for how long', async () => {
    const { user_code, device_code } = await begin();
    const { visitor } = await signedIn(app());
    await visitor.get(PATH);
    const token = visitor.csrfToken ?? '';
    const tryCode = (code: string) =>
      visitor.post(PATH, { user_code: code, decision: 'approve', authenticity_token: token });
    let answer = await tryCode('BBBB-BBBB');
    for (let tries = 1; answer.status === 422 && tries < 30; tries++) answer = await tryCode('BBBB-BBBB');
    expect(answer.status).toBe(429);
    const seconds = Number(answer.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(300);
    // Even the right code is refused now.
    expect((await tryCode(user_code)).status).toBe(429);
    expect(await stateOf(device_code)).toBe('pending');
  });

  it('blocks an address that guesses codes as many users', async () => {
    const ctx = app().context(app().root);
    const tryFrom = (ip: string, userId: number) =>
      findUserCode({ ...ctx, client: { ip, userAgent: null }, actor: { ...ctx.actor, userId } }, 'BBBB-BBBB');
    for (let n = 0; n < 60; n++) expect(await tryFrom('198.51.100.7', 9_000_000 + n)).toBeNull();
    await expect(tryFrom('198.51.100.7', 9_100_000)).rejects.toMatchObject({
      code: 'too_many_requests',
      details: { retryAfterSeconds: expect.any(Number) },
    });
    expect(await tryFrom('198.51.100.8', 9_100_000)).toBeNull();
  });

  it('forbids framing, caching, referrers and reads by other origins', async () => {
    const { visitor } = await signedIn(app());
    const { headers } = await visitor.get(PATH);
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    expect(headers.get('access-control-allow-origin')).toBeNull();
    expect(
      (await get(app(), PATH, { origin: 'https://evil.example' })).headers.get('access-control-allow-origin'),
    ).toBeNull();
  });
});

it('describes every scope that an application can request', () => {
  for (const scope of OAUTH_SCOPES) expect(scopeInWords(scope)).toMatch(/^[A-Z].* /);
});
