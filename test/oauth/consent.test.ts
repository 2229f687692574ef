import { describe, expect, it } from 'vitest';
import type { ApplicationInput } from '#domains/oauth/applications.ts';
import { scopeInWords } from '#domains/tokens/scopes.ts';
import { makePerson, signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { apiStatus, makeApplication, pkce, post, REDIRECT_URI, redeem, tokensFor } from './flows.ts';

const app = useApp();
const db = () => app().hub.services.db;

const PATH = '/oauth/authorize';
const { verifier, challenge } = pkce();

const prepare = async (input: Partial<ApplicationInput> = {}, parameters: Record<string, string> = {}) => {
  const owner = await app().make.user();
  const application = await makeApplication(app(), owner, input);
  const query = new URLSearchParams({
    client_id: application.uid,
    redirect_uri: REDIRECT_URI,
    response_type: 'code',
    state: 'state <&> of "the" client',
    scope: 'openid profile',
    ...parameters,
  });
  return { application, owner, path: `${PATH}?${query}` };
};

const grantsOf = async (applicationId: number) =>
  (await db().selectFrom('oauth_grants').select('id').where('application_id', '=', applicationId).execute()).length;

describe('the consent page', () => {
  it('shows the application, its scopes, the user and the redirect host', async () => {
    const { path, owner, application } = await prepare({ name: 'Deploy <img src=x onerror=alert(1)> "bot"' });
    const { visitor, user } = await signedIn(app());
    const page = await visitor.get(path);
    expect(page.status).toBe(200);
    expect(page.text).toContain('Deploy <img src=x onerror=alert(1)> "bot"');
    expect(page.html).not.toContain('<img');
    expect(page.text).toContain(`@${owner.username}`);
    expect(page.text).toContain(`@${user.username}`);
    expect(page.text).toContain('Confidential');
    expect(page.text).toContain('client.example');
    for (const scope of ['openid', 'profile']) expect(page.text).toContain(scopeInWords(scope));
    expect(page.text).not.toContain(scopeInWords('api'));
    expect(page.html).toMatch(/<button[^>]*>Authorize<\/button>/);
    expect(page.html).toMatch(/<button[^>]*>Deny<\/button>/);
    expect(await grantsOf(application.id)).toBe(0);
  });

  it('redirects back with a code that can be redeemed', async () => {
    const { path, application } = await prepare();
    const { visitor } = await signedIn(app());
    await visitor.get(path);
    const { status, location } = await visitor.submit(PATH, { decision: 'approve' });
    expect(status).toBe(303);
    const target = new URL(location ?? '');
    expect(target.origin + target.pathname).toBe(REDIRECT_URI);
    expect(target.searchParams.get('state')).toBe('state <&> of "the" client');
    const tokens = await redeem(app(), application, target.searchParams.get('code') ?? '');
    expect(tokens.status).toBe(200);
    expect(tokens.body.scope).toBe('openid profile');
  });

  it('redirects back with only the error after a denial', async () => {
    const { path, application } = await prepare();
    const { visitor } = await signedIn(app());
    await visitor.get(path);
    const { status, location } = await visitor.submit(PATH, { decision: 'deny' });
    expect(status).toBe(303);
    const { searchParams } = new URL(location ?? '');
    expect(searchParams.get('error')).toBe('access_denied');
    expect(searchParams.get('state')).toBe('state <&> of "the" client');
    expect(searchParams.get('code')).toBeNull();
    expect(await grantsOf(application.id)).toBe(0);
  });

  it('is shown to visitors after they sign in', async () => {
    const { path } = await prepare();
    const user = await makePerson(app());
    const visitor = new Visitor(app().url);
    const sent = await visitor.get(path);
    expect(sent.status).toBe(303);
    expect(sent.location).toMatch(/^\/users\/sign_in\?return_to=/);
    await visitor.follow();
    await visitor.submit('/users/sign_in', { login: user.username, password: PASSWORD });
    expect((await visitor.follow()).text).toContain('wants to act for you');
    expect((await visitor.submit(PATH, { decision: 'approve' })).location).toContain('code=');
  });

  it('requires a new sign-in if the application asks for it', async () => {
    const { path } = await prepare({}, { prompt: 'login' });
    const { visitor, user } = await signedIn(app());
    const sent = await visitor.get(path);
    expect(sent.location).toMatch(/^\/users\/sign_in\?return_to=.*&again=1$/);
    expect((await visitor.follow()).status).toBe(200);
    await visitor.submit('/users/sign_in', { login: user.username, password: PASSWORD });
    expect((await visitor.follow()).text).toContain('wants to act for you');
  });

  it('is skipped only for a confidential application that was authorized before', async () => {
    const known = await prepare();
    const { visitor, user } = await signedIn(app());
    await tokensFor(app(), user, known.application, { scope: 'openid profile' });
    expect((await visitor.get(known.path)).location).toContain('code=');
    expect((await visitor.get(`${known.path}&prompt=consent`)).status).toBe(200);
    expect((await visitor.get(known.path.replace('openid+profile', 'openid+api'))).status).toBe(200);

    const open = await prepare({ confidential: false }, { code_challenge: challenge, code_challenge_method: 'S256' });
    await visitor.get(open.path);
    const code = new URL((await visitor.submit(PATH, { decision: 'approve' })).location ?? '').searchParams.get('code');
    const { body } = await post(app(), '/oauth/token', {
      grant_type: 'authorization_code',
      client_id: open.application.uid,
      code: code ?? '',
      redirect_uri: REDIRECT_URI,
      code_verifier: verifier,
    });
    expect(await apiStatus(app(), body.access_token)).toBe(403);
    expect((await visitor.get(open.path)).text).toContain('wants to act for you');
  });

  it('redirects to the application right after a sign-in, and the sign-in form allows that', async () => {
    const { path, application } = await prepare();
    const user = await makePerson(app());
    await tokensFor(app(), user, application, { scope: 'openid profile' });
    const visitor = new Visitor(app().url);
    await visitor.get(path);
    const form = await visitor.follow();
    expect(form.headers.get('content-security-policy')).not.toContain('form-action');
    const wrong = await visitor.submit('/users/sign_in', { login: user.username, password: 'wrong' });
    expect([wrong.status, wrong.headers.get('content-security-policy')]).toEqual([
      422,
      expect.not.stringContaining('form-action'),
    ]);
    const sent = await visitor.submit('/users/sign_in', { login: user.username, password: PASSWORD });
    expect([sent.status, sent.location]).toEqual([303, expect.stringContaining(path)]);
    const left = await visitor.follow();
    expect([left.status, left.location]).toEqual([
      303,
      expect.stringMatching(/^https:\/\/client\.example\/callback\?code=/),
    ]);
    expect(left.headers.get('refresh')).toBeNull();
  });

  it('also lets the form of the second factor redirect to the application', async () => {
    const { path } = await prepare();
    const user = await makePerson(app(), { two_factor_enabled: true });
    const visitor = new Visitor(app().url);
    await visitor.get(path);
    await visitor.follow();
    const sent = await visitor.submit('/users/sign_in', { login: user.username, password: PASSWORD });
    expect(sent.location).toMatch(/^\/users\/sign_in\/second_factor\?return_to=/);
    expect((await visitor.follow()).headers.get('content-security-policy')).not.toContain('form-action');
  });

  it('keeps the sign-in form to the hub when the sign-in leads nowhere else', async () => {
    for (const path of ['/users/sign_in', '/users/sign_in?return_to=/oauth/device', '/users/sign_in?return_to=//x/y']) {
      const { headers } = await new Visitor(app().url).get(path);
      expect([path, headers.get('content-security-policy')]).toEqual([
        path,
        expect.stringContaining("form-action 'self'"),
      ]);
    }
  });
});

describe('a request for consent', () => {
  it.each([
    ['another redirect URI', { redirect_uri: 'https://evil.example/callback' }],
    ['one that only begins the same', { redirect_uri: `${REDIRECT_URI}/x` }],
    ['one with another case', { redirect_uri: REDIRECT_URI.toUpperCase() }],
    ['no redirect URI', { redirect_uri: '' }],
    ['an unknown client', { client_id: '<script>alert(1)</script>' }],
  ])('with %s is answered by an error page and never redirected', async (_what, parameters) => {
    const { path } = await prepare({}, parameters);
    for (const visitor of [new Visitor(app().url), (await signedIn(app())).visitor]) {
      const page = await visitor.get(path);
      expect([page.status, page.location]).toEqual([400, null]);
      expect(page.html).not.toMatch(/evil\.example|<script|http-equiv/);
      expect(page.headers.get('refresh')).toBeNull();
    }
  });

  it('is checked again when it is answered', async () => {
    const { path, application } = await prepare();
    const { visitor } = await signedIn(app());
    await visitor.get(path);
    const query = new URLSearchParams(path.slice(path.indexOf('?')));
    query.set('redirect_uri', 'https://evil.example/');
    const answer = await visitor.submit(PATH, { query: query.toString(), decision: 'approve' });
    expect([answer.status, answer.location]).toEqual([400, null]);
    expect(await grantsOf(application.id)).toBe(0);
  });

  it('cannot be answered with a forged form, with a token, or after signing out', async () => {
    const { path, application } = await prepare();
    const { visitor, user } = await signedIn(app());
    const { visitor: attacker } = await signedIn(app());
    await attacker.get(path);
    const query = path.slice(path.indexOf('?') + 1);
    for (const authenticity_token of ['', attacker.csrfToken ?? '']) {
      const forged = await visitor.post(PATH, { query, decision: 'approve', authenticity_token });
      expect(forged.status).toBe(422);
    }
    const byToken = await fetch(app().url + PATH, {
      method: 'POST',
      redirect: 'manual',
      headers: { authorization: `Bearer ${await app().tokenOf(user)}` },
      body: new URLSearchParams({ query, decision: 'approve' }),
    });
    expect(byToken.status).toBe(422);
    await visitor.get(path);
    await db().deleteFrom('sessions').where('user_id', '=', user.id).execute();
    expect((await visitor.submit(PATH, { decision: 'approve' })).location).toMatch(/^\/users\/sign_in/);
    expect(await grantsOf(application.id)).toBe(0);
  });

  it('forbids framing, caching, referrers and reads by other origins', async () => {
    const { path } = await prepare();
    const { visitor } = await signedIn(app());
    const { headers } = await visitor.get(path);
    const policy = headers.get('content-security-policy');
    expect(policy).toMatch(/default-src 'none'.*frame-ancestors 'none'/);
    expect(headers.get('x-frame-options')).toBe('DENY');
    expect(headers.get('cache-control')).toBe('no-store');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
    const across = { headers: { origin: 'https://evil.example', 'access-control-request-method': 'POST' } };
    for (const method of ['GET', 'OPTIONS']) {
      const answer = await fetch(app().url + path, { ...across, method, redirect: 'manual' });
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    }
  });

  it.each([
    ['http://127.0.0.1:4711/cb', 'on your device'],
    ['http://[::1]:4711/cb', 'on your device'],
    ['com.example.app:/cb', 'on your device'],
    ['https://client.example:8443/cb', 'client.example:8443'],
  ])('may redirect to %s, and onwards from there', async (uri, words) => {
    const { path } = await prepare({ redirect_uris: [uri] }, { redirect_uri: uri });
    const { visitor } = await signedIn(app());
    const page = await visitor.get(path);
    expect(page.headers.get('content-security-policy')).not.toContain('form-action');
    expect(page.text).toContain(words);
  });
});

describe('authorized applications', () => {
  const SETTINGS = '/-/user_settings/applications';

  it('are listed with their scopes, and revoked', async () => {
    const { application } = await prepare({ name: 'Let-in' });
    const { visitor, user } = await signedIn(app());
    const { access_token } = await tokensFor(app(), user, application, { scope: 'api' });
    expect(await apiStatus(app(), access_token)).toBe(200);
    const list = await visitor.get(SETTINGS);
    expect(list.text).toContain('Let-in');
    expect(list.text).toContain(scopeInWords('api'));
    expect(await visitor.submit(`${SETTINGS}/${application.id}/revoke`)).toMatchObject({
      status: 303,
      location: SETTINGS,
    });
    expect((await visitor.follow()).text).not.toContain('Let-in');
    expect(await apiStatus(app(), access_token)).toBe(401);
  });

  it('are revoked over GraphQL, only by their own user', async () => {
    const { application } = await prepare();
    const [user, stranger] = [await app().make.user(), await app().make.user()];
    const { access_token } = await tokensFor(app(), user, application);
    const id = `gid://gitlab/OauthApplication/${application.id}`;
    const revoke = `mutation ($id: OauthApplicationID!) { oauthAuthorizationRevoke(input: { id: $id }) { errors } }`;
    expect((await app().as(stranger).graphql(revoke, { id })).errors).toHaveLength(1);
    expect((await app().anonymous.graphql(revoke, { id })).errors).toHaveLength(1);
    expect(await apiStatus(app(), access_token)).toBe(200);
    const list = '{ currentUser { authorizedApplications { id name oauthApplication { id } } } }';
    expect((await app().as(user).graphql(list)).data.currentUser.authorizedApplications).toEqual([
      { id, name: application.name, oauthApplication: null },
    ]);
    expect((await app().as(user).graphql(revoke, { id })).data.oauthAuthorizationRevoke).toEqual({ errors: [] });
    expect(await apiStatus(app(), access_token)).toBe(401);
    expect((await app().as(user).graphql(list)).data.currentUser.authorizedApplications).toEqual([]);
  });
});
