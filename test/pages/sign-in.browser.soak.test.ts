import type { Page } from 'playwright-core';
import { expect, it } from 'vitest';
import { PASSWORD, useApp } from '../support/app.ts';
import { contrastOf, describeInBrowser, useBrowser } from './browser.ts';
import { makePerson } from './visitor.ts';

const app = useApp();
const browser = useBrowser();

/** Presses Tab until the element named `name` has the focus. */
const tabTo = async (page: Page, name: string): Promise<void> => {
  for (let n = 0; n < 30; n++) {
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      const label = element instanceof HTMLInputElement ? element.labels?.[0]?.textContent : null;
      return (label ?? element?.textContent ?? '').trim();
    });
    if (focused === name) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`the keyboard does not reach ${name}`);
};

describeInBrowser('the sign-in pages in a browser', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`works with the keyboard only, in ${colorScheme} colours`, async () => {
      const user = await makePerson(app());
      const { page, requests } = await browser.open({ baseURL: app().url, colorScheme });
      await page.goto('/-/user_settings/active_sessions');
      expect(new URL(page.url()).pathname).toBe('/users/sign_in');
      expect(await page.getByRole('heading', { level: 1 }).textContent()).toBe('Sign in');

      // The first field gets the focus, and Enter submits the form.
      await page.locator('#login:focus').waitFor();
      await page.keyboard.type(user.username);
      await page.keyboard.press('Tab');
      await page.keyboard.type('wrong');
      await page.keyboard.press('Enter');
      await page.getByRole('alert').waitFor();
      expect(await page.getByRole('alert').textContent()).toContain('Invalid login or password.');
      await page.locator('#password:focus').waitFor();
      await page.keyboard.type(PASSWORD);
      await page.keyboard.press('Enter');
      await page.waitForURL('**/-/user_settings/active_sessions');
      expect(await page.getByRole('row').filter({ hasText: 'This session' }).count()).toBe(1);
      expect(await page.getByRole('navigation', { name: 'Account' }).textContent()).toContain(`@${user.username}`);

      await page.keyboard.press('Tab');
      expect(await page.evaluate(() => document.activeElement?.textContent)).toBe('Skip to the content');
      await tabTo(page, 'Sign out');
      await page.keyboard.press('Enter');
      await page.getByText('You have signed out.').waitFor();
      await page.goto('/');
      expect(new URL(page.url()).pathname).toBe('/users/sign_in');

      expect(requests.length).toBeGreaterThan(5);
      expect(requests.filter((url) => !url.startsWith(app().url) && !url.startsWith('data:'))).toEqual([]);
    });

    it(`gives text enough contrast, in ${colorScheme} colours`, async () => {
      const { page } = await browser.open({ baseURL: app().url, colorScheme });
      await page.goto('/users/sign_in');
      await page.getByLabel('User name').fill('nobody');
      await page.getByLabel('Password').fill('wrong');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('alert').waitFor();
      // Wait until the stylesheet is applied, because it defines the colours.
      await page.waitForLoadState();
      for (const selector of ['h1', 'label', 'button.primary', '.aside a', '.notice li']) {
        expect([selector, (await contrastOf(page, selector)) >= 4.5]).toEqual([selector, true]);
      }
    });
  }

  it('fits the screen with names without spaces', async () => {
    const user = await makePerson(app());
    const username = `${user.username}-${'x'.repeat(200)}`.slice(0, 200);
    expect((await app().as(app().root).put(`/users/${user.id}`, { username })).status).toBe(200);
    const token = { name: 'y'.repeat(200), scopes: ['read_api'] };
    expect((await app().as(app().root).post(`/users/${user.id}/personal_access_tokens`, token)).status).toBe(201);
    const { page } = await browser.open({ baseURL: app().url });
    await page.goto('/users/sign_in');
    await page.getByLabel('User name').fill(username);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('navigation', { name: 'Account' }).waitFor();
    for (const width of [320, 1280]) {
      await page.setViewportSize({ width, height: 640 });
      for (const path of ['/', '/-/user_settings/personal_access_tokens']) {
        await page.goto(path);
        expect([path, await page.evaluate(() => document.documentElement.scrollWidth)]).toEqual([path, width]);
      }
    }
  });

  it('fits a narrow screen and has large enough touch targets', async () => {
    const user = await makePerson(app());
    const { page } = await browser.open({ baseURL: app().url, viewport: { width: 320, height: 640 } });
    await page.goto('/users/sign_in');
    for (const role of ['textbox', 'button'] as const) {
      const box = await page.getByRole(role).first().boundingBox();
      expect(box?.height).toBeGreaterThanOrEqual(44);
    }
    await page.getByLabel('User name').fill(user.username);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
    for (const path of ['/', '/-/user_settings/active_sessions', '/-/user_settings/password']) {
      await page.goto(path);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      expect([path, width]).toEqual([path, 320]);
    }
  });
});
