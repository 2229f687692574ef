import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { type CreatedApplication, createApplication, updateApplication } from '#domains/oauth/applications.ts';
import { isRegistered, redirectUriProblem } from '#domains/oauth/redirect-uris.ts';
import type { TestUser } from '../support/app.ts';
import { useApp } from '../support/app.ts';
import { ask, get, makeApplication, pkce, REDIRECT_URI } from './flows.ts';

const app = useApp();
let user: TestUser;
let application: CreatedApplication;
let native: CreatedApplication;

beforeAll(async () => {
  user = await app().make.user();
  application = await makeApplication(app(), user);
  native = await makeApplication(app(), user, {
    confidential: false,
    redirect_uris: ['http://127.0.0.1/cb', 'http://[::1]:8000/cb?x=1', 'com.example.app:/cb'],
  });
});

const request = (fields: Record<string, string> = {}) => ({
  client_id: application.uid,
  redirect_uri: REDIRECT_URI,
  response_type: 'code',
  state: 'opaque',
  ...fields,
});

describe('a redirect URI that is not the registered one', () => {
  const variants = [
    '',
    'https://client.example',
    `${REDIRECT_URI}/`,
    `${REDIRECT_URI}/../callback`,
    `${REDIRECT_URI}?`,
    `${REDIRECT_URI}#`,
    `${REDIRECT_URI}#fragment`,
    `${REDIRECT_URI}%20`,
    `${REDIRECT_URI}.evil.example`,
    'https://client.example/Callback',
    'https://Client.example/callback',
    'HTTPS://client.example/callback',
    'http://client.example/callback',
    'https://client.example:443/callback',
    'https://client.example:8443/callback',
    'https://client.example./callback',
    'https://client.example@evil.example/callback',
    'https://user@client.example/callback',
    'https://client.example.evil.example/callback',
    'https://evil.example/?https://client.example/callback',
    'https://client.example\\@evil.example/callback',
    'https:client.example/callback',
    '//client.example/callback',
    '/callback',
    'javascript:alert(1)//https://client.example/callback',
    ' https://client.example/callback',
    'https://client.example/callback\0',
    'https://client.example/call%62ack',
  ];

  test.each(variants)('%j is shown as an error and never redirected to', async (redirect_uri) => {
    const read = await ask(app(), user, request({ redirect_uri }));
    expect(read).toHaveProperty('show');
    const page = await get(app(), `/oauth/authorize?${new URLSearchParams(request({ redirect_uri }))}`);
    expect(page.status).toBe(400);
    expect(page.headers.get('location')).toBeNull();
    expect(page.headers.get('refresh')).toBeNull();
  });

  test('is accepted only if it is identical, apart from the port on loopback', () => {
    const registered = [REDIRECT_URI, 'http://127.0.0.1:1/cb', 'http://localhost/cb', 'https://localhost/cb'];
    const piece = fc.constantFrom(
      ...['https', 'http', 'HTTP', ':', '//', '/', '?', '#', '@', '.', '\\', '%2e', ' ', 'client.example', 'callback'],
      ...['127.0.0.1', 'localhost', '[::1]', '0', '80', '65535', '65536', 'cb', 'evil.example', '\0', '\n', 'user:pw'],
    );
    const sent = fc.oneof(
      fc.array(piece, { maxLength: 10 }).map((pieces) => pieces.join('')),
      fc
        .constantFrom(...registered)
        .chain((uri) =>
          fc
            .tuple(fc.nat(uri.length), fc.nat(3), fc.string({ maxLength: 3 }))
            .map(([at, cut, put]) => uri.slice(0, at) + put + uri.slice(at + cut)),
        ),
      fc.nat(70_000).map((port) => `http://127.0.0.1:${port}/cb`),
    );
    fc.assert(
      fc.property(sent, (uri) => {
        const loopback = /^http:\/\/(?:127\.0\.0\.1|localhost)(?::\d{1,5})?\/cb$/.test(uri);
        const port = Number(/:(\d+)\/cb$/.exec(uri)?.[1] ?? 0);
        expect(isRegistered(registered, uri)).toBe(registered.includes(uri) || (loopback && port <= 65_535));
      }),
      { numRuns: 5_000 },
    );
  });

  test('is never redirected to for an unknown application', async () => {
    for (const fields of [
      { client_id: 'nobody' },
      { client_id: '' },
      { client_id: '\0' },
      { client_id: 'x'.repeat(5_000) },
    ]) {
      expect(await ask(app(), user, request(fields))).toHaveProperty('show.code', 'invalid_client');
    }
  });
});

describe('a native application', () => {
  const { challenge } = pkce();
  const from = (redirect_uri: string, fields: Record<string, string> = {}) =>
    ask(app(), user, {
      ...request({ client_id: native.uid, redirect_uri }),
      code_challenge: challenge,
      code_challenge_method: 'S256',
      ...fields,
    });

  test.each(['http://127.0.0.1/cb', 'http://127.0.0.1:51234/cb', 'http://[::1]:1/cb?x=1', 'com.example.app:/cb'])(
    'may be sent back to %s',
    async (uri) => expect(await from(uri)).toHaveProperty('ok.redirectUri', uri),
  );

  test.each([
    'http://127.0.0.1:51234/other',
    'http://127.0.0.1:70000/cb',
    'http://127.0.0.1:/cb',
    'http://127.0.0.2/cb',
    'http://localhost/cb',
    'http://127.0.0.1:5@evil.example/cb',
    'https://127.0.0.1/cb',
    'http://[::1]:1/cb',
    'com.example.app:/cb2',
    'com.example.app2:/cb',
  ])('may not be sent back to %s', async (uri) => expect(await from(uri)).toHaveProperty('show'));

  test('must send a well-formed S256 challenge', async () => {
    const uri = 'com.example.app:/cb';
    const errorOf = async (fields: Record<string, string>) => {
      const read = await from(uri, fields);
      return 'redirect' in read ? new URL(read.redirect).searchParams.get('error') : read;
    };
    expect(await errorOf({ code_challenge_method: 'plain' })).toBe('invalid_request');
    expect(await errorOf({ code_challenge_method: '' })).toBe('invalid_request');
    expect(await errorOf({ code_challenge_method: 's256' })).toBe('invalid_request');
    for (const code_challenge of ['', 'short', `${challenge}=`, `${challenge}a`, `${challenge.slice(1)}+`]) {
      expect(await errorOf({ code_challenge })).toBe('invalid_request');
    }
    const without = await ask(app(), user, request({ client_id: native.uid, redirect_uri: uri }));
    expect('redirect' in without && without.redirect).toMatch(/error=invalid_request/);
  });

  test('needs consent each time, because anyone could impersonate it', async () => {
    expect(await from('com.example.app:/cb')).toHaveProperty('ok.consentNeeded', true);
  });
});

describe('other errors of a request go to the application, with its state and the issuer', () => {
  test.each([
    [{ response_type: '' }, 'invalid_request'],
    [{ response_type: 'token' }, 'unsupported_response_type'],
    [{ response_type: 'code id_token' }, 'unsupported_response_type'],
    [{ response_mode: 'fragment' }, 'invalid_request'],
    [{ response_mode: 'form_post' }, 'invalid_request'],
    [{ scope: 'api sudo' }, 'invalid_scope'],
    [{ scope: 'nonsense' }, 'invalid_scope'],
    [{ request: 'x' }, 'request_not_supported'],
    [{ request_uri: 'https://client.example/r' }, 'request_uri_not_supported'],
    [{ prompt: 'none login' }, 'invalid_request'],
    [{ prompt: 'nonsense' }, 'invalid_request'],
    [{ prompt: 'none' }, 'consent_required'],
    [{ max_age: '-1' }, 'invalid_request'],
    [{ nonce: 'a\u0000' }, 'invalid_request'],
    [{ code_challenge_method: 'S256' }, 'invalid_request'],
    [{ code_challenge: pkce().challenge }, 'invalid_request'],
  ] as [Record<string, string>, string][])('%j: %s', async (fields, error) => {
    const read = await ask(app(), user, request({ scope: 'openid', ...fields }));
    if (!('redirect' in read)) throw new Error(JSON.stringify(read));
    const url = new URL(read.redirect);
    expect(`${url.origin}${url.pathname}`).toBe(REDIRECT_URI);
    expect(Object.fromEntries(url.searchParams)).toEqual({
      error,
      error_description: expect.any(String),
      state: 'opaque',
      // Only clients of OpenID Connect get the issuer.
      ...(fields.scope === undefined ? { iss: app().url } : {}),
    });
  });

  test('include a repeated parameter, while a repeated redirect URI or client id is shown to the user', async () => {
    const { readAuthorizationRequest } = await import('#domains/oauth/authorization.ts');
    const twice = (name: string) => {
      const query = new URLSearchParams(request({ scope: 'openid' }));
      query.append(name, 'x');
      return readAuthorizationRequest(app().context(user), query.toString());
    };
    expect(await twice('redirect_uri')).toHaveProperty('show.code', 'invalid_request');
    expect(await twice('client_id')).toHaveProperty('show.code', 'invalid_request');
    const read = await twice('state');
    expect('redirect' in read && Object.fromEntries(new URL(read.redirect).searchParams)).toEqual({
      error: 'invalid_request',
      error_description: expect.any(String),
      iss: app().url,
    });
  });

  test('wait until visitors have signed in, unless the application wants no page', async () => {
    expect(await ask(app(), null, request())).toMatchObject({ signIn: { again: false } });
    // Otherwise anyone who registers an application could redirect people elsewhere with a link to the hub.
    expect(await ask(app(), null, request({ response_type: 'wrong' }))).toMatchObject({ signIn: { again: false } });
    const read = await ask(app(), null, request({ prompt: 'none' }));
    expect('redirect' in read && read.redirect).toMatch(/error=login_required/);
    const again = await ask(app(), user, request({ prompt: 'login consent' }));
    if (!('signIn' in again)) throw new Error(JSON.stringify(again));
    expect(again.signIn.again).toBe(true);
    // There is no session in-process. It is enough that the request says that it was sent to sign in.
    const { query } = again.signIn;
    expect(await ask(app(), user, Object.fromEntries(new URLSearchParams(query)))).toHaveProperty('ok');
    const forged = new URLSearchParams(query);
    forged.set('millrace_sent_to_sign_in', forged.get('millrace_sent_to_sign_in')?.replace(/^\d+/, '1700000000') ?? '');
    expect(await ask(app(), user, Object.fromEntries(forged))).toHaveProperty('signIn');
  });

  test('keep the query of the redirect URI', async () => {
    const uri = 'https://client.example/cb?tenant=a%2Fb';
    const other = await makeApplication(app(), user, { redirect_uris: [uri] });
    const read = await ask(app(), user, request({ client_id: other.uid, redirect_uri: uri, scope: 'x' }));
    expect('redirect' in read && read.redirect.startsWith(`${uri}&error=invalid_scope&`)).toBe(true);
  });
});

describe('registering a redirect URI', () => {
  const plainHttp = true;

  test.each([
    'javascript:alert(1)',
    'JavaScript:alert(1)',
    'data:text/html,x',
    'vbscript:x',
    'file:///etc/passwd',
    'urn:ietf:wg:oauth:2.0:oob',
    'https://*.example/cb',
    'https://client.example/cb#x',
    'https://user:pw@client.example/cb',
    'https://@client.example/cb',
    'https:/client.example/cb',
    'https:\\\\client.example/cb',
    'https://client.example /cb',
    'https://client.example/cb\n',
    'client.example/cb',
    '/cb',
    '',
    `https://client.example/${'x'.repeat(3_000)}`,
  ])('refuses %j', async (uri) => {
    expect(redirectUriProblem(uri, { plainHttp })).toEqual(expect.any(String));
    await expect(
      createApplication(app().context(user), { name: 'x', redirect_uris: [uri], scopes: ['api'] }),
    ).rejects.toMatchObject({ code: 'invalid', details: { fields: { redirect_uri: expect.any(Array) } } });
  });

  test('allows plain HTTP for loopback, and for development while the setting allows it', async () => {
    expect(redirectUriProblem('http://dev.example/cb', { plainHttp: true })).toBeNull();
    expect(redirectUriProblem('http://dev.example/cb', { plainHttp: false })).toEqual(expect.any(String));
    expect(redirectUriProblem('http://127.0.0.1.evil.example/cb', { plainHttp: false })).toEqual(expect.any(String));
    for (const uri of ['http://127.0.0.1:1/cb', 'http://[::1]/cb', 'http://localhost:3000/cb', 'myapp://cb']) {
      expect(redirectUriProblem(uri, { plainHttp: false })).toBeNull();
    }
    const uri = 'http://dev.example/cb';
    const dev = await makeApplication(app(), user, { redirect_uris: [uri] });
    const wanted = request({ client_id: dev.uid, redirect_uri: uri });
    expect(await ask(app(), user, wanted)).toHaveProperty('ok');
    const set = (value: boolean) =>
      app().as(app().root).put('/application/settings', { oauth_plain_http_redirects_enabled: value });
    await set(false);
    try {
      expect(await ask(app(), user, wanted)).toHaveProperty('show');
    } finally {
      await set(true);
    }
  });

  test('does not let another user change it', async () => {
    const stranger = await app().make.user();
    await expect(
      updateApplication(app().context(stranger), application.id, { redirect_uris: ['https://evil.example/cb'] }),
    ).rejects.toMatchObject({ code: 'not_found' });
    await expect(makeApplication(app(), user, { trusted: true })).rejects.toMatchObject({ code: 'invalid' });
  });
});
