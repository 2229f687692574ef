import { TOTP } from 'otpauth';
import { describe, expect, it } from 'vitest';
import { newSecret, replaceRecoveryCodes, sealSecret } from '#domains/sign-in/two-factor.ts';
import { makePerson, Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';

const app = useApp();
const db = () => app().hub.services.db;
const visitor = () => new Visitor(app().url);

const makeCareful = async (attributes = {}) => {
  const user = await makePerson(app(), { two_factor_enabled: true, ...attributes });
  const secret = newSecret();
  const recovery = await app()
    .context()
    .transaction(async (tx) => {
      await tx.db
        .updateTable('users')
        .set({ otp_secret: sealSecret(tx, user.id, secret) })
        .where('id', '=', user.id)
        .execute();
      return replaceRecoveryCodes(tx, user.id);
    });
  const totp = new TOTP({ secret });
  return { user, recovery, code: () => totp.generate() };
};

const STEP = '/users/sign_in/second_factor';

describe('the second step of signing in', () => {
  it('requires a code of the authenticator, which is valid once', async () => {
    const { user, code } = await makeCareful();
    const person = visitor();
    expect(await person.signIn(user.username)).toMatchObject({ status: 303, location: STEP });
    const before = person.session;
    // The password by itself gives no access.
    expect((await person.get('/')).location).toContain('/users/sign_in');
    expect((await person.get(STEP)).html).toContain('autocomplete="one-time-code"');
    const used = code();
    expect(await person.submit(STEP, { code: used })).toMatchObject({ status: 303, location: '/' });
    expect(person.session).not.toBe(before);
    expect((await person.follow()).text).toContain(user.username);

    const again = visitor();
    await again.signIn(user.username);
    await again.follow();
    expect(await again.submit(STEP, { code: used })).toMatchObject({
      status: 422,
      html: expect.stringContaining('<p class="error" id="code-error">This code is wrong.</p>'),
    });
  });

  it('accepts a recovery code once, in any notation, and redirects to the requested page', async () => {
    const { user, recovery } = await makeCareful();
    const [first = ''] = recovery;
    const wanted = `/-/user_settings/active_sessions?page=1&padding=${'x'.repeat(5_000)}`;
    const enter = async (code: string) => {
      const person = visitor();
      await person.get(wanted);
      await person.follow();
      await person.submit('/users/sign_in', { login: user.username, password: PASSWORD });
      await person.follow();
      return person.submit(STEP, { code });
    };
    expect((await enter(first.toUpperCase().replaceAll('-', ' '))).location).toBe(wanted);
    expect((await enter(first)).status).toBe(422);
  });

  it('starts again without the first step, with a forged one, and after a change of the password', async () => {
    const { user, code } = await makeCareful();
    const none = visitor();
    expect((await none.get(STEP)).location).toBe('/users/sign_in');
    await none.follow();
    expect((await none.post(STEP, { code: code() })).location).toBe('/users/sign_in');

    const forger = visitor();
    forger.cookies.set('millrace_sign_in', {
      value: Buffer.from(JSON.stringify({ step: 'second_factor', user_id: user.id })).toString('base64url'),
      attributes: [],
    });
    expect((await forger.get(STEP)).location).toBe('/users/sign_in');

    const late = visitor();
    await late.signIn(user.username);
    await late.follow();
    await db().updateTable('users').set({ password_hash: 'another' }).where('id', '=', user.id).execute();
    expect((await late.submit(STEP, { code: code() })).location).toBe('/users/sign_in');
    expect((await late.get('/')).location).toContain('/users/sign_in');
  });

  it('limits codes like passwords, and the right password does not reset the limit', async () => {
    const { user, code } = await makeCareful();
    const person = visitor();
    for (let n = 0; n < 10; n++) {
      if (n % 4 === 0) {
        await person.signIn(user.username);
        await person.follow();
      }
      expect((await person.submit(STEP, { code: '000000x' })).status).toBe(422);
    }
    const locked = await person.submit(STEP, { code: code() });
    expect([locked.status, Number(locked.headers.get('retry-after')) > 0]).toEqual([429, true]);
    expect((await visitor().signIn(user.username)).status).toBe(429);
  });

  it('checks no more of many concurrent codes than may be wrong', async () => {
    const { user } = await makeCareful();
    const person = visitor();
    await person.signIn(user.username);
    await person.follow();
    const { page } = person;
    const statuses = await Promise.all(
      Array.from({ length: 40 }, async (_, n) => {
        const thief = visitor();
        for (const [name, cookie] of person.cookies) thief.cookies.set(name, cookie);
        const authenticity_token = /name="authenticity_token" value="([^"]*)"/.exec(page.html)?.[1] ?? '';
        return (await thief.post(STEP, { authenticity_token, code: `00000${n}x` })).status;
      }),
    );
    expect(statuses.toSorted((left, right) => left - right)).toEqual([...Array(10).fill(422), ...Array(30).fill(429)]);
  });

  it('comes before the choice of a new password', async () => {
    const { user, code } = await makeCareful({ password_change_required: true });
    const person = visitor();
    await person.signIn(user.username);
    await person.follow();
    const pending = person.cookies.get('millrace_sign_in');
    expect((await person.submit(STEP, { code: code() })).location).toBe('/users/sign_in/new_password');

    // The cookie of the first step does not give access to the third.
    const sly = visitor();
    await sly.get('/users/sign_in');
    if (pending) sly.cookies.set('millrace_sign_in', pending);
    await sly.get('/users/sign_in/new_password');
    await sly.submit('/users/sign_in/new_password', {
      password: 'stolen-account',
      password_confirmation: 'stolen-account',
    });
    expect(sly.page.location).toBe('/users/sign_in');
    expect((await visitor().signIn(user.username, 'stolen-account')).status).toBe(422);
  });
});
