import { URI } from 'otpauth';
import { expect, it } from 'vitest';
import { PASSWORD, useApp } from '../support/app.ts';
import { linkTo } from '../support/mails.ts';
import { describeInBrowser, useBrowser } from './browser.ts';
import { makePerson } from './visitor.ts';

const app = useApp();
const browser = useBrowser();

describeInBrowser('account pages in a browser', () => {
  it('sets up a second factor, then signs in with a code and with a recovery code', async () => {
    const user = await makePerson(app());
    const { page } = await browser.open({ baseURL: app().url });
    const signIn = async () => {
      await page.goto('/users/sign_in');
      await page.getByLabel('User name').fill(user.username);
      await page.getByLabel('Password').fill(PASSWORD);
      await page.getByRole('button', { name: 'Sign in' }).click();
    };
    await signIn();
    await page.getByRole('link', { name: 'Two-factor authentication' }).click();

    // Check that the browser renders the QR code, at a size that can be scanned.
    const picture = page.getByRole('img', { name: 'QR code' });
    expect(await picture.evaluate((image) => image instanceof HTMLImageElement && image.naturalWidth)).toBeGreaterThan(
      150,
    );
    const uri = await page.getByRole('link', { name: 'open it on this device' }).getAttribute('href');
    const authenticator = URI.parse(uri ?? '');
    expect(authenticator).toMatchObject({ issuer: 'Millrace', digits: 6, algorithm: 'SHA1' });
    expect((await page.locator('#otp-secret').textContent())?.replaceAll(' ', '')).toBe(authenticator.secret.base32);

    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByLabel('Code').fill('000000');
    await page.getByRole('button', { name: 'Enable' }).click();
    expect(await page.getByRole('alert').textContent()).toContain('The password or the code is wrong');
    const codeAt = (seconds: number) =>
      'period' in authenticator ? authenticator.generate({ timestamp: Date.now() + seconds * 1_000 }) : '';
    await page.getByLabel('Your password').fill(PASSWORD);
    await page.getByLabel('Code').fill(codeAt(0));
    await page.getByRole('button', { name: 'Enable' }).click();
    await page.getByRole('heading', { name: 'Recovery codes' }).waitFor();
    const codes = await page.getByRole('list', { name: 'Recovery codes' }).getByRole('listitem').allTextContents();
    expect(codes).toHaveLength(10);

    for (const code of [() => codeAt(30), () => codes[0] ?? '']) {
      await page.getByRole('button', { name: 'Sign out' }).click();
      await signIn();
      await page.getByRole('heading', { name: 'Confirm your identity' }).waitFor();
      await page.getByLabel('Code').fill(code());
      await page.getByRole('button', { name: 'Verify' }).click();
      await page.getByRole('navigation', { name: 'Account' }).waitFor();
    }
    await page.goto('/-/user_settings/two_factor');
    expect(await page.getByRole('main').textContent()).toContain('9 recovery codes are left.');
  });

  it('resets a password by mail', async () => {
    const user = await makePerson(app());
    const { page } = await browser.open({ baseURL: app().url });
    await page.goto('/users/sign_in');
    await page.getByRole('link', { name: 'Forgot your password?' }).click();
    await page.getByLabel('E-mail address').fill(`${user.username}@example.com`);
    await page.getByRole('button', { name: 'Send me a link' }).click();
    expect(await page.getByRole('status').textContent()).toContain('If an account has this address');

    await page.goto(await linkTo(app(), `${user.username}@example.com`, '/users/password/edit'));
    await page.getByLabel('New password', { exact: true }).fill('short');
    await page.getByLabel('New password again').fill('short');
    await page.getByRole('button', { name: 'Set the password' }).click();
    await page.getByRole('alert').getByRole('link', { name: 'too short' }).click();
    expect(await page.evaluate(() => document.activeElement?.id)).toBe('password');
    await page.getByLabel('New password', { exact: true }).fill('a-password-of-mine');
    await page.getByLabel('New password again').fill('a-password-of-mine');
    await page.getByRole('button', { name: 'Set the password' }).click();
    await page.getByText('Your password was changed.').waitFor();
    await page.getByLabel('User name').fill(user.username);
    await page.getByLabel('Password').fill('a-password-of-mine');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('navigation', { name: 'Account' }).waitFor();
  });

  it('changes the address after its owner follows the link in a mail', async () => {
    const user = await makePerson(app());
    const email = `browser-${user.username}@example.org`;
    const { page } = await browser.open({ baseURL: app().url, viewport: { width: 320, height: 640 } });
    await page.goto('/-/user_settings/emails');
    await page.getByLabel('User name').fill(user.username);
    await page.getByLabel('Password').fill(PASSWORD);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByLabel('E-mail address').fill(email);
    await page.getByRole('button', { name: 'Add' }).click();
    await page.getByText('waits to be confirmed').waitFor();
    for (const path of ['/-/user_settings/emails', '/-/user_settings/two_factor']) {
      await page.goto(path);
      expect([path, await page.evaluate(() => document.documentElement.scrollWidth)]).toEqual([path, 320]);
    }
    await page.goto(await linkTo(app(), email, '/users/confirmation'));
    await page.getByRole('button', { name: 'Confirm the address' }).click();
    await page.getByRole('row', { name: email }).getByText('confirmed', { exact: true }).waitFor();
    await page.getByRole('button', { name: `Remove ${email}` }).click();
    await page.getByText(`The address ${email} was removed.`).waitFor();
    expect(await page.getByRole('row', { name: email }).count()).toBe(0);
  });
});
