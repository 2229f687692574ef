import { createServer, type Server } from 'node:http';
import { TOTP } from 'otpauth';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { newSecret, sealSecret } from '#domains/sign-in/two-factor.ts';
import { describeInBrowser, useBrowser } from '../pages/browser.ts';
import { makePerson } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { apiStatus, codeFor, makeApplication, post, redeem, tokensFor } from './flows.ts';

const app = useApp();
const browser = useBrowser();

/** The server at the redirect URI. It is separate from the hub, so that the browser sees another origin. */
let client: Server;
let origin = '';
/** The address to which it redirects its users after they return. */
let elsewhere = '';
let framed = '';

beforeAll(async () => {
  client = createServer((request, response) => {
    if (request.url?.startsWith('/moves')) {
      response.writeHead(302, { location: `${elsewhere}/callback` }).end();
      return;
    }
    response.setHeader('content-type', 'text/html');
    response.end(
      request.url?.startsWith('/frame')
        ? `<!doctype html><title>Trap</title><iframe src="${framed}"></iframe>`
        : '<!doctype html><title>The application</title><h1>Back at the application</h1>',
    );
  });
  await new Promise<void>((resolve) => client.listen(0, '127.0.0.1', resolve));
  const address = client.address();
  if (address === null || typeof address === 'string') throw new Error('the client has no address');
  origin = `http://127.0.0.1:${address.port}`;
  elsewhere = `http://localhost:${address.port}`;
});

afterAll(() => {
  client.close();
});

const open = async (options: { colorScheme?: 'light' | 'dark'; viewport?: { width: number; height: number } } = {}) =>
  browser.open({ baseURL: app().url, also: [origin, elsewhere], ...options });

const signIn = async (page: Page, username: string) => {
  await page.getByLabel('User name').fill(username);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
};

/** Creates an application at the other origin, and the path to which it sends its users. */
const prepare = async (name: string, path = '/callback') => {
  const redirect_uri = origin + path;
  const application = await makeApplication(app(), app().root, { name, redirect_uris: [redirect_uri] });
  const query = new URLSearchParams({
    client_id: application.uid,
    redirect_uri,
    response_type: 'code',
    scope: 'openid profile',
    state: 'xyz',
  });
  return { application, redirect_uri, path: `/oauth/authorize?${query}` };
};

const press = async (page: Page, ...keys: readonly string[]) => {
  for (const key of keys) await page.keyboard.press(key);
};

/** Presses Tab until the focused element has the label `name`. */
const tabTo = async (page: Page, name: string): Promise<void> => {
  for (let n = 0; n < 60; n++) {
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      const label =
        element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement ? element.labels?.[0] : null;
      return (label ?? element)?.textContent?.trim() ?? '';
    });
    if (focused === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`the keyboard does not reach ${name}`);
};

/** Returns problems for screen readers, such as a skipped heading level, a missing label or a duplicate id. */
const shortcomings = (page: Page): Promise<string[]> =>
  page.evaluate(() => {
    const found: string[] = [];
    if (document.documentElement.lang !== 'en') found.push('no language');
    if (document.title.trim() === '') found.push('no title');
    const levels = [...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => Number(heading.tagName[1]));
    if (levels.filter((level) => level === 1).length !== 1) found.push('not one main heading');
    levels.forEach((level, n) => {
      if (level > (levels[n - 1] ?? 0) + 1) found.push(`a skipped level before heading ${n}`);
    });
    for (const element of document.querySelectorAll('input:not([type=hidden]), textarea, select')) {
      if (element instanceof HTMLInputElement || element instanceof HTMLTextAreaElement) {
        if ((element.labels?.length ?? 0) === 0) found.push(`no label: ${element.name}`);
      }
      for (const id of element.getAttribute('aria-describedby')?.split(' ') ?? []) {
        if (!document.getElementById(id)) found.push(`described by nothing: ${id}`);
      }
    }
    for (const element of document.querySelectorAll('a, button, summary')) {
      if ((element.getAttribute('aria-label') ?? element.textContent ?? '').trim() === '') found.push('no name');
    }
    const ids = [...document.querySelectorAll('[id]')].map(({ id }) => id);
    for (const id of new Set(ids)) if (ids.filter((each) => each === id).length > 1) found.push(`twice: ${id}`);
    for (const cell of document.querySelectorAll('th')) if (!cell.scope) found.push('a heading cell without scope');
    if (document.querySelectorAll('main').length !== 1) found.push('not one main part');
    if (document.querySelector('script, [onclick], [style]')) found.push('a script or a style of its own');
    return found;
  });

describeInBrowser('an application, in a browser', () => {
  it('is authorized with the keyboard only, including the sign-in', async () => {
    const user = await makePerson(app());
    const { path, application, redirect_uri } = await prepare('Keyboard');
    const { page } = await open();
    await page.goto(path);
    await page.locator('#login:focus').waitFor();
    await page.keyboard.type(user.username);
    await press(page, 'Tab');
    await page.keyboard.type(PASSWORD);
    await press(page, 'Enter');
    await page.getByRole('heading', { name: 'Authorize Keyboard?' }).waitFor();
    await page.waitForLoadState();
    await tabTo(page, 'Authorize');
    await press(page, 'Enter');
    await page.waitForURL(`${origin}/callback?**`);
    expect(await page.getByRole('heading').textContent()).toBe('Back at the application');
    const { searchParams } = new URL(page.url());
    expect(searchParams.get('state')).toBe('xyz');
    const tokens = await redeem(app(), application, searchParams.get('code') ?? '', { redirect_uri });
    expect(tokens.status).toBe(200);
    expect(await page.evaluate(() => document.referrer)).toBe('');
  });

  it('redirects its user to another host of its own', async () => {
    const user = await makePerson(app());
    const { path } = await prepare('Moving', '/moves');
    const { page } = await open();
    await page.goto(path);
    await signIn(page, user.username);
    await page.getByRole('button', { name: 'Authorize', exact: true }).click();
    await page.waitForURL(`${elsewhere}/callback`);
    expect(await page.getByRole('heading').textContent()).toBe('Back at the application');
  });

  it('is denied', async () => {
    const user = await makePerson(app());
    const { path } = await prepare('Unwanted');
    const { page } = await open();
    await page.goto(path);
    await signIn(page, user.username);
    await page.getByRole('button', { name: 'Deny', exact: true }).click();
    await page.waitForURL(`${origin}/callback?**`);
    expect(new URL(page.url()).searchParams.get('error')).toBe('access_denied');
  });

  it('gets a user who authorized it before back right after the sign-in', async () => {
    const user = await makePerson(app());
    const { path, application, redirect_uri } = await prepare('Known');
    const { page } = await open();
    await page.goto(path);
    await signIn(page, user.username);
    await page.getByRole('button', { name: 'Authorize', exact: true }).click();
    await page.waitForURL(`${origin}/callback?**`);
    const code = new URL(page.url()).searchParams.get('code') ?? '';
    expect((await redeem(app(), application, code, { redirect_uri })).status).toBe(200);

    const { page: another } = await open();
    await another.goto(path);
    await signIn(another, user.username);
    await another.waitForURL(`${origin}/callback?**`);
    expect(new URL(another.url()).searchParams.get('code')).toMatch(/./);
  });

  it('gets such a user back from a second factor too, and on to another host of its own', async () => {
    const user = await makePerson(app());
    const { path, application, redirect_uri } = await prepare('Careful', '/moves');
    const code = await codeFor(app(), user, application, { scope: 'openid profile', redirect_uri });
    expect((await redeem(app(), application, code, { redirect_uri })).status).toBe(200);
    const secret = newSecret();
    await app()
      .context()
      .transaction(async (tx) => {
        const otp_secret = sealSecret(tx, user.id, secret);
        await tx.db
          .updateTable('users')
          .set({ two_factor_enabled: true, otp_secret })
          .where('id', '=', user.id)
          .execute();
      });
    const { page } = await open();
    await page.goto(path);
    await signIn(page, user.username);
    await page.getByLabel('Code').fill(new TOTP({ secret }).generate());
    await page.getByRole('button', { name: 'Verify' }).click();
    await page.waitForURL(`${elsewhere}/callback`);
    expect(await page.getByRole('heading').textContent()).toBe('Back at the application');
  });

  it('cannot show the consent page in a frame', async () => {
    const user = await makePerson(app());
    const { path } = await prepare('Framed');
    const { page, forbidden } = await open();
    await page.goto(path);
    await signIn(page, user.username);
    await page.getByRole('button', { name: 'Authorize', exact: true }).waitFor();
    framed = app().url + path;
    await page.goto(`${origin}/frame`);
    const frame = page.frames()[1];
    await frame?.waitForLoadState().catch(() => null);
    expect(await frame?.getByRole('button').count()).toBe(0);
    expect(forbidden.splice(0).join()).toContain('frame-ancestors');
  });
});

describeInBrowser('a device, in a browser', () => {
  it('is authorized by its code', async () => {
    const user = await makePerson(app());
    const { uid: client_id } = await makeApplication(app(), app().root, { name: 'Television', confidential: false });
    const { body } = await post(app(), '/oauth/authorize_device', { client_id, scope: 'api' });
    const poll = () =>
      post(app(), '/oauth/token', {
        grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
        client_id,
        device_code: body.device_code,
      });
    const { page } = await open({ colorScheme: 'dark', viewport: { width: 340, height: 700 } });
    await page.goto(body.verification_uri);
    await signIn(page, user.username);
    await page.locator('input[name="user_code"]').fill(body.user_code.toLowerCase().replace('-', ''));
    await page.keyboard.press('Enter');
    await page.getByText(body.user_code).waitFor();
    expect(await shortcomings(page)).toEqual([]);
    expect((await poll()).body.error).toBe('authorization_pending');
    await page.getByRole('button', { name: 'Authorize', exact: true }).click();
    await page.getByRole('heading', { name: 'Device connected' }).waitFor();
    expect(await apiStatus(app(), (await poll()).body.access_token)).toBe(200);
  });
});

describeInBrowser('my applications and tokens, in a browser', () => {
  it('are created, and work', async () => {
    const user = await makePerson(app());
    const { page } = await open();
    await page.goto('/');
    await signIn(page, user.username);
    await page.getByRole('link', { name: 'Applications' }).click();
    await page.getByRole('link', { name: 'New application' }).click();
    await page.getByLabel('Name').fill('Of my own');
    await page.getByLabel('Redirect URIs').fill(`${origin}/callback`);
    await page.getByLabel('openid').check();
    await page.getByRole('button', { name: 'Create application' }).click();
    const secret = await page.getByLabel('Secret', { exact: true }).inputValue();
    const client_id = (await page.locator('dd code').first().textContent()) ?? '';
    const introspected = await post(app(), '/oauth/introspect', { client_id, client_secret: secret, token: 'x' });
    expect([introspected.status, introspected.body]).toEqual([200, { active: false }]);
    // The delete button is visible only after the user opens its section.
    expect(await page.getByRole('button', { name: 'Delete Of my own' }).isVisible()).toBe(false);
    await page.getByText('Delete this application').click();
    await page.getByRole('button', { name: 'Delete Of my own' }).click();
    await page.getByText('Of my own was deleted.').waitFor();

    await page.goto('/-/user_settings/personal_access_tokens');
    await page.getByLabel('Name').fill('Laptop');
    await page.getByLabel('read_user').check();
    await page.getByRole('button', { name: 'Create token' }).click();
    const token = await page.getByLabel('The new token, Laptop').inputValue();
    expect(await apiStatus(app(), token)).toBe(200);
    await page.getByRole('button', { name: 'Revoke Laptop' }).click();
    await page.getByText('Laptop was revoked.').waitFor();
    expect(await apiStatus(app(), token)).toBe(401);
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    it(`are readable on a narrow screen and usable with a screen reader (${colorScheme})`, async () => {
      const user = await makePerson(app(), { is_admin: true });
      const { path } = await prepare(`A long name ${'of an application '.repeat(8)}${'W'.repeat(60)}`);
      const own = await makeApplication(app(), user, {
        name: 'N'.repeat(200),
        redirect_uris: [`https://client.example/${'long/'.repeat(60)}`],
      });
      const known = await makeApplication(app(), app().root, { name: 'Let in' });
      await tokensFor(app(), user, known);
      const { page } = await open({ colorScheme, viewport: { width: 320, height: 640 } });
      await page.goto('/');
      await signIn(page, user.username);
      for (const shown of [
        path,
        '/oauth/authorize?client_id=x',
        '/oauth/device',
        '/-/user_settings/applications',
        '/-/user_settings/applications/new',
        `/-/user_settings/applications/${own.id}`,
        `/-/user_settings/applications/${own.id}/edit`,
        '/-/user_settings/personal_access_tokens',
        '/admin/applications',
        '/admin/applications/new',
      ]) {
        await page.goto(shown);
        expect([shown, await shortcomings(page)]).toEqual([shown, []]);
        const width = await page.evaluate(() => document.documentElement.scrollWidth);
        expect([shown, width]).toEqual([shown, 320]);
      }
    });
  }
});
