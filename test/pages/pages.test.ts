import { describe, expect, it } from 'vitest';
import { pages } from '#app/pages.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { makePerson, signedIn, Visitor } from './visitor.ts';

const app = useApp();

const expectGuarded = (headers: Headers): void => {
  expect(Object.fromEntries(headers)).toMatchObject({
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  });
};

const POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

describe('every page', () => {
  it('sends headers that forbid framing, caching, sniffing and referrers', async () => {
    const { visitor } = await signedIn(app());
    for (const { path, method } of pages) {
      if (method !== 'GET' || path.includes(':')) continue;
      for (const person of [visitor, new Visitor(app().url)]) {
        const { headers, status } = await person.get(path);
        expect([path, status < 500]).toEqual([path, true]);
        expectGuarded(headers);
        if (status === 303) continue;
        expect([path, headers.get('content-type')]).toEqual([path, 'text/html; charset=utf-8']);
        expect([
          path,
          headers.get('content-security-policy')?.startsWith("default-src 'none'; style-src 'self'"),
        ]).toEqual([path, true]);
        expect([
          path,
          headers.get('content-security-policy')?.includes("frame-ancestors 'none'; base-uri 'none'"),
        ]).toEqual([path, true]);
        expect(person.page.html).not.toMatch(/<script|\son\w+=|\sstyle=/);
      }
    }
    const { headers } = await new Visitor(app().url).get('/users/sign_in');
    expect(headers.get('content-security-policy')).toBe(POLICY);
  });

  it('that does not exist is an HTML page for browsers, and JSON for API clients', async () => {
    const accept = 'text/html,application/xhtml+xml,*/*;q=0.8';
    for (const path of ['/nowhere', '/group/project', '/-/nothing?a=1']) {
      const page = await fetch(app().url + path, { headers: { accept } });
      expect([page.status, page.headers.get('content-type')]).toEqual([404, 'text/html; charset=utf-8']);
      expectGuarded(page.headers);
      expect(page.headers.get('content-security-policy')).toBe(POLICY);
      expect(await page.text()).toContain('<h1>Not found</h1>');
      for (const wanted of ['*/*', 'application/json']) {
        const answer = await fetch(app().url + path, { headers: { accept: wanted } });
        expect([answer.status, await answer.json()]).toEqual([404, { error: '404 Not Found' }]);
      }
    }
    const head = await fetch(`${app().url}/nowhere`, { method: 'HEAD', headers: { accept } });
    expect([head.status, await head.text()]).toEqual([404, '']);
    for (const [method, path] of [
      ['GET', '/api/v4/nowhere'],
      ['POST', '/nowhere'],
    ] as const) {
      const answer = await fetch(app().url + path, { method, headers: { accept } });
      expect([path, answer.status, await answer.json()]).toEqual([path, 404, { error: '404 Not Found' }]);
    }
  });

  it('requires a CSRF token for every change', async () => {
    const { visitor } = await signedIn(app());
    const other = await signedIn(app());
    await other.visitor.get('/');
    // The SAML callback is posted from the provider's page, so its signed answer replaces the token.
    const fromElsewhere = pages.filter((page) => page.fromElsewhere).map(({ path }) => path);
    expect(fromElsewhere).toEqual(['/users/auth/saml/callback']);
    for (const { path, method } of pages) {
      if (method !== 'POST' || fromElsewhere.includes(path)) continue;
      const url = path.replaceAll(/:\w+/g, '1');
      for (const token of ['', 'wrong', other.visitor.csrfToken ?? '']) {
        const { status, headers, text } = await visitor.post(url, { authenticity_token: token });
        expect([path, status]).toEqual([path, 422]);
        expect(text).toContain('This form is out of date.');
        expectGuarded(headers);
      }
      const bare = await fetch(app().url + url, { method: 'POST', redirect: 'manual' });
      expect([path, bare.status]).toEqual([path, 422]);
    }
    expect((await visitor.get('/')).status).toBe(200);
  });

  it('refuses a CSRF token from another browser, so nobody is signed in unknowingly', async () => {
    const user = await makePerson(app());
    const attacker = new Visitor(app().url);
    await attacker.get('/users/sign_in');
    const victim = new Visitor(app().url);
    await victim.get('/users/sign_in');
    const forged = { login: user.username, password: PASSWORD, authenticity_token: attacker.csrfToken ?? '' };
    expect((await victim.post('/users/sign_in', forged)).status).toBe(422);
  });

  it('accepts only its own method, only forms, and no large bodies', async () => {
    const visitor = new Visitor(app().url);
    await visitor.get('/users/sign_in');
    const send = (headers: Record<string, string>, body: string) =>
      fetch(`${app().url}/users/sign_in`, {
        method: 'POST',
        headers: { cookie: visitor.cookieHeader, ...headers },
        body,
      });
    expect((await send({ 'content-type': 'application/json' }, '{}')).status).toBe(415);
    expect((await send({ 'content-type': 'text/plain' }, 'a=b')).status).toBe(415);
    const form = { 'content-type': 'application/x-www-form-urlencoded' };
    expect((await send(form, `login=${'a'.repeat(100_000)}`)).status).toBe(413);
    expect((await send(form, 'login=%zz')).status).toBe(400);
    expect((await visitor.get('/users/sign_out')).status).toBe(404);
    const head = await fetch(`${app().url}/users/sign_in`, { method: 'HEAD' });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });

  it('escapes names and other input', async () => {
    const name = `<script>alert('x')</script> & "co" \${1} !`;
    const { visitor } = await signedIn(app(), { name });
    const { html, text } = await visitor.get('/');
    expect(html).not.toContain('<script');
    expect(text).toContain(name);
    const lured = new Visitor(app().url);
    const shown = await lured.get('/users/sign_in?return_to=/%22%3E%3Cscript%3Ealert(1)%3C/script%3E');
    expect(shown.html).not.toContain('<script');
    const wrong = await lured.submit('/users/sign_in', { login: '"><script>alert(1)</script>', password: 'x' });
    expect(wrong.html).not.toContain('<script');
    expect(wrong.text).not.toContain('alert(1)');
  });

  it('authenticates by session only, not by token', async () => {
    const { status } = await app().as(app().root).fetch('GET', '/-/user_settings/password');
    expect(status).toBe(303);
  });

  it('links a stylesheet and an icon that are served as immutable', async () => {
    const { html } = await new Visitor(app().url).get('/users/sign_in');
    const paths = [...html.matchAll(/href="(\/-\/assets\/[^"]+)"/g)].map((match) => match[1] ?? '');
    expect(paths).toHaveLength(2);
    for (const path of [...paths, '/favicon.ico']) {
      const response = await fetch(app().url + path);
      expect([path, response.status]).toEqual([path, 200]);
      expect(response.headers.get('cache-control')).toContain('immutable');
      expect((await response.text()).length).toBeGreaterThan(100);
    }
  });
});

describe('behind TLS', () => {
  const secure = useApp({ env: { MILLRACE_EXTERNAL_URL: 'https://hub.example' } });

  it('binds cookies to the host and to TLS', async () => {
    const user = await makePerson(secure());
    const visitor = new Visitor(secure().url);
    expect((await visitor.signIn(user.username)).status).toBe(303);
    const [name, cookie] = [...visitor.cookies].find(([each]) => each.endsWith('millrace_session')) ?? [];
    expect(name).toBe('__Host-millrace_session');
    expect(cookie?.attributes).toEqual(['path=/', 'httponly', 'samesite=lax', 'secure']);
    expect((await visitor.get('/')).status).toBe(200);
    // A neighbouring host could have set a cookie without the prefix, so it is ignored.
    const plain = new Visitor(secure().url);
    plain.cookies.set('millrace_session', { value: cookie?.value ?? '', attributes: [] });
    expect((await plain.get('/')).status).toBe(303);
  });
});
