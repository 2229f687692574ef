import { expect, it } from 'vitest';
import { PASSWORD, useApp } from '../support/app.ts';
import { linkTo } from '../support/mails.ts';
import { contrastOf, describeInBrowser, useBrowser } from './browser.ts';
import { makePerson } from './visitor.ts';

const app = useApp();
const browser = useBrowser();
const set = (settings: Record<string, unknown>) => app().as(app().root).put('/application/settings', settings);

describeInBrowser('registration in a browser', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`works by keyboard on a narrow screen, in ${colorScheme} colours`, async () => {
      await set({
        signup_enabled: true,
        send_user_confirmation_email: true,
        require_admin_approval_after_user_signup: false,
        after_sign_up_text: 'Ask in room 4\nif the mail does not come.',
      });
      const name = `ada-${colorScheme}`;
      const email = `${name}@example.org`;
      const { page } = await browser.open({
        baseURL: app().url,
        colorScheme,
        viewport: { width: 320, height: 640 },
      });
      await page.goto('/users/sign_in');
      await page.getByRole('link', { name: 'No account yet? Register' }).click();
      // The first field has the focus, and the keyboard reaches the others in order.
      await page.locator('#name:focus').waitFor();
      for (const [value, key] of [
        ['Ada Lovelace', 'Tab'],
        ['root', 'Tab'],
        [email, 'Enter'],
      ] as const) {
        await page.keyboard.type(value);
        await page.keyboard.press(key);
      }
      await page.getByRole('alert').waitFor();
      await page.waitForLoadState();
      expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('Ada Lovelace');
      for (const selector of ['h1', 'label', 'p.error', '.hint', 'button.primary', '.aside a', '.notice li']) {
        expect([selector, (await contrastOf(page, selector)) >= 4.5]).toEqual([selector, true]);
      }
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
      // The link in the summary leads to the field.
      await page.getByRole('link', { name: 'User name has already been taken' }).click();
      await page.getByLabel('User name').fill(name);
      await page.getByRole('button', { name: 'Register' }).click();
      await page.getByText('Ask in room 4').waitFor();
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);

      await page.goto(await linkTo(app(), email, '/users/sign_up/confirm?confirmation_token='));
      await page.getByLabel('New password', { exact: true }).fill(PASSWORD);
      await page.keyboard.press('Tab');
      await page.keyboard.type(PASSWORD);
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
      await page.keyboard.press('Enter');
      await page.getByText('Your account was created. Sign in.').waitFor();
      await page.getByLabel('User name').fill(name);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText(`@${name}`).first().waitFor();
    });
  }
});

describeInBrowser('approval in a browser', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`works by keyboard on a narrow screen, in ${colorScheme} colours`, async () => {
      const waiting = { state: 'blocked_pending_approval', name: 'A rather long name of somebody' };
      const kept = await app().make.user({ ...waiting, username: `kept-${colorScheme}` });
      const gone = await app().make.user({ ...waiting, username: `gone-${colorScheme}` });
      const administrator = await makePerson(app(), { is_admin: true });
      const { page } = await browser.open({ baseURL: app().url, colorScheme, viewport: { width: 320, height: 640 } });
      await page.goto('/admin/users/pending');
      await page.getByLabel('User name').fill(administrator.username);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Accounts to approve' }).waitFor();
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
      for (const selector of ['main p', 'tbody th', 'tbody td', 'button.plain', 'button.danger']) {
        expect([selector, (await contrastOf(page, selector)) >= 4.5]).toEqual([selector, true]);
      }
      await page.getByRole('button', { name: `Approve ${kept.username}` }).press('Enter');
      await page.getByText(`${kept.username} was approved.`).waitFor();
      await page.getByRole('button', { name: `Reject ${gone.username}` }).press('Enter');
      await page.getByText('The account was rejected and deleted.').waitFor();
      await page.getByText('Nobody is waiting.').waitFor();
      await page.getByRole('link', { name: 'Millrace' }).press('Enter');
      await page.getByRole('link', { name: 'What the hub does' }).press('Enter');
      await page.getByRole('rowheader', { name: 'user.approved' }).first().waitFor();
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
      expect((await app().as(app().root).get(`/users/${kept.id}`)).body).toMatchObject({ state: 'active' });
      expect((await app().as(app().root).get(`/users/${gone.id}`)).status).toBe(404);
    });
  }
});

describeInBrowser('terms and admin mode in a browser', () => {
  for (const colorScheme of ['light', 'dark'] as const) {
    it(`lead to the page that was wanted, in ${colorScheme} colours`, async () => {
      const user = await makePerson(app(), { is_admin: true });
      const terms = [
        `# Rules for ${colorScheme} colours`,
        'Be *kind*, says the [charter](https://example.org/).',
        'x'.repeat(200),
        `    ${'code '.repeat(50)}`,
        `|${'Column|'.repeat(20)}\n|${'-|'.repeat(20)}\n|${'cell|'.repeat(20)}`,
      ].join('\n\n');
      await set({ terms, enforce_terms: true, admin_mode: true });
      const { page } = await browser.open({
        baseURL: app().url,
        colorScheme,
        viewport: { width: 320, height: 640 },
      });
      const narrow = async (selectors: readonly string[]) => {
        await page.waitForLoadState();
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(320);
        for (const selector of selectors) {
          expect([selector, (await contrastOf(page, selector)) >= 4.5]).toEqual([selector, true]);
        }
      };
      await page.goto('/admin/applications');
      await page.getByLabel('User name').fill(user.username);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('Be kind').waitFor();
      await narrow([
        '.said p',
        '.said em',
        '.said a[rel]',
        '.said code',
        '.said thead th',
        '.notice',
        'button.primary',
        'button.plain',
      ]);
      await page.getByRole('button', { name: 'Accept' }).click();
      await page.getByRole('heading', { name: 'Admin mode' }).waitFor();
      await narrow(['main p', 'label', '.aside a']);
      await page.getByLabel('Your password').fill(PASSWORD);
      await page.keyboard.press('Enter');
      await page.waitForURL('**/admin/applications');
      await page.goto('/');
      await page.getByRole('button', { name: 'Leave admin mode' }).click();
      await page.getByText('You have left admin mode.').waitFor();
      await page.getByRole('link', { name: 'Delete account' }).click();
      await page.getByRole('button', { name: 'Delete my account' }).waitFor();
      await narrow(['button.danger', 'main p']);
      await set({ terms: '', enforce_terms: false, admin_mode: false });
    });
  }
});
