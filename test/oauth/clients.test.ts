import { sql } from 'kysely';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';
import { AuthorizationCode, ResourceOwnerPassword } from 'simple-oauth2';
import { beforeAll, describe, expect, test } from 'vitest';
import type { CreatedApplication } from '#domains/oauth/applications.ts';
import { decideDevice } from '#domains/oauth/device.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { apiStatus, makeApplication, REDIRECT_URI } from './flows.ts';

const app = useApp();
let user: TestUser;
let visitor: Visitor;
let confidential: CreatedApplication;
let native: CreatedApplication;

beforeAll(async () => {
  ({ user, visitor } = await signedIn(app()));
  confidential = await makeApplication(app(), user);
  native = await makeApplication(app(), user, { confidential: false });
});

/** Opens the address in the person's browser and authorizes the application. Returns the redirect target. */
const consent = async (url: URL | string, person = visitor): Promise<URL> => {
  const { pathname, search } = new URL(url);
  const page = await person.get(pathname + search);
  // A user who authorized a confidential application before is not asked again.
  const { location } = page.status === 200 ? await person.submit('/oauth/authorize', { decision: 'approve' }) : page;
  if (location === null) throw new Error(`led nowhere: ${person.page.text}`);
  return new URL(location);
};

const serverUrl = () => new URL(app().url);
/** Allows plain HTTP on loopback. Signatures are verified even though the tokens come directly from the provider. */
const insecure = { execute: [openid.allowInsecureRequests, openid.enableNonRepudiationChecks] };

describe('openid-client', () => {
  test('signs a user in with a secret and PKCE, and uses, refreshes and revokes the tokens', async () => {
    const config = await openid.discovery(serverUrl(), confidential.uid, confidential.secret, undefined, insecure);
    const pkceCodeVerifier = openid.randomPKCECodeVerifier();
    const expectedState = openid.randomState();
    const expectedNonce = openid.randomNonce();
    const back = await consent(
      openid.buildAuthorizationUrl(config, {
        redirect_uri: REDIRECT_URI,
        scope: 'openid profile email api',
        code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
        code_challenge_method: 'S256',
        state: expectedState,
        nonce: expectedNonce,
        max_age: '3600',
      }),
    );
    // The client itself checks state, issuer, signature, audience, times, nonce, at_hash and auth_time.
    const tokens = await openid.authorizationCodeGrant(config, back, {
      pkceCodeVerifier,
      expectedState,
      expectedNonce,
      idTokenExpected: true,
      maxAge: 3600,
    });
    expect(tokens.claims()).toMatchObject({
      iss: app().url,
      sub: String(user.id),
      aud: confidential.uid,
      azp: confidential.uid,
      at_hash: expect.any(String),
      auth_time: expect.any(Number),
    });
    const claims = await openid.fetchUserInfo(config, tokens.access_token, String(user.id));
    expect(claims).toMatchObject({
      sub: String(user.id),
      preferred_username: user.username,
      email: `${user.username}@example.com`,
      email_verified: true,
    });
    expect(await openid.tokenIntrospection(config, tokens.access_token)).toMatchObject({
      active: true,
      client_id: confidential.uid,
      username: user.username,
    });

    const renewed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '');
    expect(await apiStatus(app(), tokens.access_token)).toBe(401);
    expect(await apiStatus(app(), renewed.access_token)).toBe(200);
    await openid.tokenRevocation(config, renewed.access_token);
    expect(await apiStatus(app(), renewed.access_token)).toBe(401);
    expect(await openid.tokenIntrospection(config, renewed.access_token)).toEqual({ active: false });
  });

  test('signs a user in to a public application', async () => {
    const config = await openid.discovery(serverUrl(), native.uid, undefined, openid.None(), insecure);
    const pkceCodeVerifier = openid.randomPKCECodeVerifier();
    const back = await consent(
      openid.buildAuthorizationUrl(config, {
        redirect_uri: REDIRECT_URI,
        scope: 'openid api',
        code_challenge: await openid.calculatePKCECodeChallenge(pkceCodeVerifier),
        code_challenge_method: 'S256',
      }),
    );
    const tokens = await openid.authorizationCodeGrant(config, back, { pkceCodeVerifier, idTokenExpected: true });
    const renewed = await openid.refreshTokenGrant(config, tokens.refresh_token ?? '');
    expect(await apiStatus(app(), renewed.access_token)).toBe(200);
  });

  test('signs a device in', async () => {
    const config = await openid.discovery(serverUrl(), native.uid, undefined, openid.None(), insecure);
    const started = await openid.initiateDeviceAuthorization(config, { scope: 'api' });
    expect(started).toMatchObject({ expires_in: 300, interval: 5, verification_uri: `${app().url}/oauth/device` });
    await decideDevice(app().context(user), started.user_code, true);
    const tokens = await openid.pollDeviceAuthorizationGrant(config, { ...started, interval: 0.01 });
    expect(tokens.refresh_token).toBeUndefined();
    expect(await apiStatus(app(), tokens.access_token)).toBe(200);
  });

  test('receives the error after a denial', async () => {
    const config = await openid.discovery(serverUrl(), confidential.uid, confidential.secret, undefined, insecure);
    const { pathname, search } = openid.buildAuthorizationUrl(config, {
      redirect_uri: REDIRECT_URI,
      scope: 'api',
      state: 'opaque',
      prompt: 'consent',
    });
    await visitor.get(pathname + search);
    const { location } = await visitor.submit('/oauth/authorize', { decision: 'deny' });
    const granting = openid.authorizationCodeGrant(config, new URL(location ?? ''), { expectedState: 'opaque' });
    await expect(granting).rejects.toMatchObject({ error: 'access_denied' });
  });
});

describe('oauth4webapi', () => {
  const http = { [oauth.allowInsecureRequests]: true };
  const metadata = async (algorithm: 'oidc' | 'oauth2') =>
    oauth.processDiscoveryResponse(serverUrl(), await oauth.discoveryRequest(serverUrl(), { algorithm, ...http }));

  test.each(['oidc', 'oauth2'] as const)('finds the provider by its %s document', async (algorithm) => {
    expect(await metadata(algorithm)).toMatchObject({
      issuer: app().url,
      token_endpoint: `${app().url}/oauth/token`,
      code_challenge_methods_supported: ['S256'],
    });
  });

  test.each(['basic', 'post'] as const)('drives the code flow with its secret by %s', async (way) => {
    const server = await metadata('oauth2');
    const client = { client_id: confidential.uid };
    const { secret } = confidential;
    const auth = way === 'basic' ? oauth.ClientSecretBasic(secret) : oauth.ClientSecretPost(secret);
    const verifier = oauth.generateRandomCodeVerifier();
    const state = oauth.generateRandomState();
    const nonce = oauth.generateRandomNonce();
    const url = new URL(server.authorization_endpoint ?? '');
    url.search = new URLSearchParams({
      client_id: client.client_id,
      redirect_uri: REDIRECT_URI,
      response_type: 'code',
      scope: 'openid api',
      state,
      nonce,
      code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    }).toString();
    const back = oauth.validateAuthResponse(server, client, await consent(url), state);
    const answer = await oauth.authorizationCodeGrantRequest(server, client, auth, back, REDIRECT_URI, verifier, http);
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, answer, {
      expectedNonce: nonce,
      requireIdToken: true,
    });
    await oauth.validateApplicationLevelSignature(server, answer, http);
    const refreshed = await oauth.processRefreshTokenResponse(
      server,
      client,
      await oauth.refreshTokenGrantRequest(server, client, auth, tokens.refresh_token ?? '', http),
    );
    const introspected = await oauth.introspectionRequest(server, client, auth, refreshed.access_token, http);
    expect(await oauth.processIntrospectionResponse(server, client, introspected)).toMatchObject({ active: true });
    await oauth.processRevocationResponse(
      await oauth.revocationRequest(server, client, auth, refreshed.access_token, http),
    );
    expect(await apiStatus(app(), refreshed.access_token)).toBe(401);
  });
});

/** Auth.js and NextAuth call their provider like this. Without an issuer, they refuse every `iss` of another server. */
describe('oauth4webapi without the issuer', () => {
  const authorize = (decision: 'approve' | 'deny', scope: string) => {
    const query = new URLSearchParams({
      ...{ client_id: confidential.uid, redirect_uri: REDIRECT_URI, response_type: 'code', prompt: 'consent' },
      ...{ scope, state: 'opaque' },
    });
    return visitor.get(`/oauth/authorize?${query}`).then(async () => {
      const { location } = await visitor.submit('/oauth/authorize', { decision });
      return new URL(location ?? '');
    });
  };

  test('signs a user in by plain OAuth 2.0, and receives the error after a denial', async () => {
    const server = { issuer: 'https://authjs.dev', token_endpoint: `${app().url}/oauth/token` };
    const client = { client_id: confidential.uid };
    const back = await authorize('approve', 'api');
    const parameters = oauth.validateAuthResponse(server, client, back, 'opaque');
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      oauth.ClientSecretPost(confidential.secret),
      parameters,
      REDIRECT_URI,
      oauth.nopkce,
      { [oauth.allowInsecureRequests]: true },
    );
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, response);
    expect(await apiStatus(app(), tokens.access_token)).toBe(200);
    const refused = await authorize('deny', 'api');
    expect(() => oauth.validateAuthResponse(server, client, refused, 'opaque')).toThrow(
      expect.objectContaining({ error: 'access_denied' }),
    );
  });

  test('gets the issuer if it asks for OpenID Connect', async () => {
    for (const decision of ['approve', 'deny'] as const) {
      expect((await authorize(decision, 'api openid')).searchParams.get('iss')).toBe(app().url);
    }
  });
});

describe('simple-oauth2', () => {
  test.each([
    { authorizationMethod: 'header', bodyFormat: 'form' },
    { authorizationMethod: 'body', bodyFormat: 'form' },
    { authorizationMethod: 'body', bodyFormat: 'json' },
  ] as const)(
    'drives the code flow with its secret in the $authorizationMethod and a body of $bodyFormat',
    async (options) => {
      const client = new AuthorizationCode({
        client: { id: confidential.uid, secret: confidential.secret },
        auth: { tokenHost: app().url },
        options,
      });
      const back = await consent(client.authorizeURL({ redirect_uri: REDIRECT_URI, scope: 'api', state: 'opaque' }));
      expect(back.searchParams.get('state')).toBe('opaque');
      const code = back.searchParams.get('code') ?? '';
      const tokens = await client.getToken({ code, redirect_uri: REDIRECT_URI });
      expect(tokens.expired()).toBe(false);
      const renewed = await tokens.refresh();
      expect(await apiStatus(app(), String(tokens.token.access_token))).toBe(401);
      expect(await apiStatus(app(), String(renewed.token.access_token))).toBe(200);
      await renewed.revokeAll();
      expect(await apiStatus(app(), String(renewed.token.access_token))).toBe(401);
    },
  );

  test('exchanges a password', async () => {
    const client = new ResourceOwnerPassword({
      client: { id: confidential.uid, secret: confidential.secret },
      auth: { tokenHost: app().url },
    });
    const tokens = await client.getToken({ username: user.username, password: PASSWORD });
    expect(tokens.token).toMatchObject({ token_type: 'bearer', scope: 'api' });
    expect(await apiStatus(app(), String(tokens.token.access_token))).toBe(200);
  });
});

describe('signing in for an application', () => {
  test('leads an anonymous visitor back to the application', async () => {
    const person = new Visitor(app().url);
    const config = await openid.discovery(serverUrl(), confidential.uid, confidential.secret, undefined, insecure);
    const { pathname, search } = openid.buildAuthorizationUrl(config, {
      redirect_uri: REDIRECT_URI,
      scope: 'api',
      state: 'opaque',
      prompt: 'login consent',
    });
    await person.get(pathname + search);
    await person.follow();
    await person.submit('/users/sign_in', { login: user.username, password: PASSWORD });
    await person.follow();
    const { location } = await person.submit('/oauth/authorize', { decision: 'approve' });
    const tokens = await openid.authorizationCodeGrant(config, new URL(location ?? ''), { expectedState: 'opaque' });
    expect(await apiStatus(app(), tokens.access_token)).toBe(200);
  });

  test.each([
    ['prompt', 'login'],
    ['max_age', '0'],
    ['prompt', 'select_account'],
  ] as const)('is required again if the application asks for %s=%s, and cannot be bypassed', async (name, value) => {
    const person = await signedIn(app());
    await sql`update sessions set authenticated_at = now() - interval '5 minutes' where user_id = ${person.user.id}`.execute(
      app().hub.services.db,
    );
    const query = new URLSearchParams({
      client_id: confidential.uid,
      redirect_uri: REDIRECT_URI,
      response_type: 'code',
      scope: 'openid',
      [name]: value,
    });
    const { visitor: browser } = person;
    const { location } = await browser.get(`/oauth/authorize?${query}`);
    expect(location).toMatch(/^\/users\/sign_in\?/);
    // A user who goes back without signing in is sent there again.
    const back = new URL(location ?? '', app().url).searchParams.get('return_to') ?? '';
    expect((await browser.get(back)).location).toMatch(/^\/users\/sign_in\?/);

    await browser.get(location ?? '');
    await browser.submit('/users/sign_in', { login: person.user.username, password: PASSWORD });
    await browser.follow();
    const answer = await browser.submit('/oauth/authorize', { decision: 'approve' });
    expect(answer.location).toMatch(/^https:\/\/client\.example\/callback\?code=/);
  });
});
