import { TOTP } from 'otpauth';
import { describe, expect, it } from 'vitest';
import { decrypt } from '#platform/secrets.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { mailsTo } from '../support/mails.ts';

/** The clock stands still unless a test advances it, so no code expires before it is sent. */
const start = Date.now();
let ahead = 0;
const app = useApp({ clock: { now: () => new Date(start + ahead) } });
const db = () => app().hub.services.db;
const PAGE = '/-/user_settings/two_factor';

/** Advances the clock by 30 seconds, because each code is valid only once. */
const nextStep = () => {
  ahead += 30_000;
};

const accountOf = (user: TestUser) =>
  db().selectFrom('users').selectAll().where('id', '=', user.id).executeTakeFirstOrThrow();

const codeOf = (secret: string, offsetSteps = 0) =>
  new TOTP({ secret }).generate({ timestamp: start + ahead + offsetSteps * 30_000 });

const secretOn = (visitor: Visitor) => {
  const shown = /<code id="otp-secret">([A-Z2-7 ]+)<\/code>/.exec(visitor.page.html)?.[1];
  if (shown === undefined) throw new Error(`no secret on the page: ${visitor.page.text}`);
  return shown.replaceAll(' ', '');
};

const codesOn = (visitor: Visitor) =>
  [...visitor.page.html.matchAll(/<li><code>([a-z0-9-]+)<\/code><\/li>/g)].map(([, code = '']) => code);

const send = (visitor: Visitor, change: string, code: string, password = PASSWORD) =>
  visitor.submit(PAGE, { change, code, current_password: password });

/** Creates a user who has enrolled and is signed in with one session. */
const enrolled = async (attributes?: Parameters<typeof signedIn>[1]) => {
  const { visitor, user } = await signedIn(app(), attributes);
  await visitor.get(PAGE);
  const secret = secretOn(visitor);
  await send(visitor, 'enable', codeOf(secret));
  const recovery = codesOn(visitor);
  if (recovery.length === 0) throw new Error(`not enrolled: ${visitor.page.text}`);
  return { visitor, user, secret, recovery };
};

const secondStep = async (user: TestUser, code: string) => {
  const visitor = new Visitor(app().url);
  expect(await visitor.signIn(user.username)).toMatchObject({ status: 303, location: '/users/sign_in/second_factor' });
  await visitor.follow();
  return visitor.submit('/users/sign_in/second_factor', { code });
};

const eventsAbout = async (user: TestUser) => {
  await app().settle();
  return db()
    .selectFrom('events')
    .selectAll()
    .where('subject_type', '=', 'User')
    .where('subject_id', '=', user.id)
    .where('kind', 'like', 'two_factor.%')
    .orderBy('id')
    .execute();
};

describe('enrolling', () => {
  it('shows a QR code and the key, requires the first code and the password, and returns ten recovery codes', async () => {
    const { visitor, user } = await signedIn(app());
    const elsewhere = new Visitor(app().url);
    await elsewhere.signIn(user.username);

    await visitor.get(PAGE);
    expect(visitor.page.html).toMatch(/<img src="data:image\/png;base64,[A-Za-z0-9+/]+(&#61;)*"/);
    const secret = secretOn(visitor);
    expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    // A second visit shows the same secret, since the QR code may have been scanned already.
    await visitor.get(PAGE);
    expect(secretOn(visitor)).toBe(secret);
    expect((await accountOf(user)).two_factor_enabled).toBe(false);

    expect(await send(visitor, 'enable', codeOf(secret))).toMatchObject({ status: 200 });
    expect(codesOn(visitor)).toHaveLength(10);
    expect(new Set(codesOn(visitor)).size).toBe(10);
    expect((await accountOf(user)).two_factor_enabled).toBe(true);
    // Other sessions end, because they started without a second factor. This one continues.
    expect(await elsewhere.get('/')).toMatchObject({ status: 303, location: '/users/sign_in?return_to=%2F' });
    expect(await visitor.get('/')).toMatchObject({ status: 200 });
    expect((await visitor.get(PAGE)).html).not.toContain('otp-secret');

    const events = await eventsAbout(user);
    expect(events).toMatchObject([{ kind: 'two_factor.enabled', user_ids: [user.id], payload: { user_id: user.id } }]);
    const sentMails = await mailsTo(app(), `${user.username}@example.com`);
    expect(sentMails.map(({ subject }) => subject)).toContain('Two-factor authentication was enabled');
  });

  it('is refused for a wrong code or password, and changes nothing', async () => {
    const { visitor, user } = await signedIn(app());
    await visitor.get(PAGE);
    const secret = secretOn(visitor);
    for (const [code, password] of [
      [codeOf(secret, 10), PASSWORD],
      ['', PASSWORD],
      ['abcdef', PASSWORD],
      [codeOf(secret), 'wrong'],
    ] as const) {
      const page = await send(visitor, 'enable', code, password);
      expect(page).toMatchObject({ status: 422 });
      // Listed once, and shown at both fields.
      expect(
        page.html.match(/<li><a href="#current_password">The password or the code is wrong<\/a><\/li>/g),
      ).toHaveLength(1);
      for (const name of ['current_password', 'code']) {
        expect(page.html).toContain(`<p class="error" id="${name}-error">The password or the code is wrong</p>`);
      }
      expect(page.html.match(/aria-invalid="true"/g)).toHaveLength(2);
    }
    expect(await accountOf(user)).toMatchObject({ two_factor_enabled: false, otp_used_step: null });
    expect(await eventsAbout(user)).toEqual([]);
  });

  it('stores the secret encrypted, and only digests of recovery codes', async () => {
    const { user, secret, recovery } = await enrolled();
    const { otp_secret: sealed } = await accountOf(user);
    if (!sealed) throw new Error('there is no secret');
    expect(sealed.toString('latin1')).not.toContain(secret);
    const { secretKey } = app().hub.services;
    expect(decrypt(secretKey, sealed, `otp:${user.id}`)).toBe(secret);
    // The secret cannot be decrypted for another account.
    expect(() => decrypt(secretKey, sealed, `otp:${user.id + 1}`)).toThrow();
    const rows = await db().selectFrom('recovery_codes').selectAll().where('user_id', '=', user.id).execute();
    expect(rows).toHaveLength(10);
    for (const { digest } of rows) expect(digest).toHaveLength(32);
    expect(recovery[0]).toMatch(/^([a-hjkmnp-z2-9]{5}-){4}[a-hjkmnp-z2-9]{5}$/);
  });

  it('requires a signed-in user', async () => {
    expect(await new Visitor(app().url).get(PAGE)).toMatchObject({
      status: 303,
      location: `/users/sign_in?return_to=${encodeURIComponent(PAGE)}`,
    });
  });

  it('shows on the account, to its user and to administrators', async () => {
    const { user } = await enrolled();
    expect((await app().as(user).get('/user')).body.two_factor_enabled).toBe(true);
    expect((await app().as(app().root).get(`/users/${user.id}`)).body.two_factor_enabled).toBe(true);
    const stranger = await app().make.user();
    expect((await app().as(stranger).get(`/users/${user.id}`)).body).not.toHaveProperty('two_factor_enabled');
  });
});

describe('the second step of signing in', () => {
  it('accepts the current code and its neighbours, each once', async () => {
    const { user, secret } = await enrolled();
    // The code of the enrolment has been used.
    expect(await secondStep(user, codeOf(secret))).toMatchObject({ status: 422 });
    nextStep();
    const code = codeOf(secret);
    expect(await secondStep(user, `${code.slice(0, 3)} ${code.slice(3)}`)).toMatchObject({
      status: 303,
      location: '/',
    });
    expect(await secondStep(user, code)).toMatchObject({ status: 422 });
    expect(await secondStep(user, codeOf(secret, 1))).toMatchObject({ status: 303 });
    // An unused code is refused if it is older than the last used one.
    expect(await secondStep(user, codeOf(secret))).toMatchObject({ status: 422 });
    nextStep();
    nextStep();
    nextStep();
    expect(await secondStep(user, codeOf(secret, -1))).toMatchObject({ status: 303 });
    expect(await secondStep(user, codeOf(secret, 2))).toMatchObject({ status: 422 });
    expect(await secondStep(user, codeOf(secret, -2))).toMatchObject({ status: 422 });
  });

  it('signs in only one of several who send the same code at once', async () => {
    const { user, secret } = await enrolled();
    nextStep();
    const code = codeOf(secret);
    const statuses = await Promise.all([1, 2, 3].map(async () => (await secondStep(user, code)).status));
    expect(statuses.sort()).toEqual([303, 422, 422]);
  });

  it('accepts a recovery code once instead, in any case and with or without dashes', async () => {
    const { user, recovery } = await enrolled();
    const [first = '', second = ''] = recovery;
    expect(await secondStep(user, first.toUpperCase())).toMatchObject({ status: 303 });
    expect(await secondStep(user, first)).toMatchObject({ status: 422 });
    expect(await secondStep(user, ` ${second.replaceAll('-', '')} `)).toMatchObject({ status: 303 });
    const left = await db().selectFrom('recovery_codes').select('digest').where('user_id', '=', user.id).execute();
    expect(left).toHaveLength(8);
  });

  it('refuses even right codes after too many wrong ones', async () => {
    const { user, secret } = await enrolled();
    nextStep();
    const visitor = new Visitor(app().url);
    await visitor.signIn(user.username);
    await visitor.follow();
    for (let n = 0; n < 10; n++) await visitor.submit('/users/sign_in/second_factor', { code: codeOf(secret, 20 + n) });
    const refused = await visitor.submit('/users/sign_in/second_factor', { code: codeOf(secret) });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    // Reset the limits, so that they do not affect the following tests.
    await db().deleteFrom('rate_counts').execute();
  });

  it('refuses the code of another user', async () => {
    const [one, other] = [await enrolled(), await enrolled()];
    nextStep();
    expect(await secondStep(one.user, codeOf(other.secret))).toMatchObject({ status: 422 });
    expect(await secondStep(one.user, other.recovery[0] ?? '')).toMatchObject({ status: 422 });
  });
});

describe('changing the second factor', () => {
  it('creates new recovery codes, and revokes the old ones', async () => {
    const { visitor, user, secret, recovery } = await enrolled();
    nextStep();
    await visitor.get(PAGE);
    await send(visitor, 'regenerate', codeOf(secret));
    const fresh = codesOn(visitor);
    expect(fresh).toHaveLength(10);
    expect(await secondStep(user, recovery[0] ?? '')).toMatchObject({ status: 422 });
    expect(await secondStep(user, fresh[0] ?? '')).toMatchObject({ status: 303 });
  });

  it('disables it only with both password and code', async () => {
    const { visitor, user, secret } = await enrolled();
    nextStep();
    await visitor.get(PAGE);
    expect(await send(visitor, 'disable', codeOf(secret), 'wrong')).toMatchObject({ status: 422 });
    expect(await send(visitor, 'disable', '000000')).toMatchObject({ status: 422 });
    expect((await accountOf(user)).two_factor_enabled).toBe(true);
    expect(await send(visitor, 'disable', codeOf(secret))).toMatchObject({ status: 303, location: PAGE });
    expect(await accountOf(user)).toMatchObject({ two_factor_enabled: false, otp_secret: null });
    expect((await eventsAbout(user)).map(({ kind }) => kind)).toEqual(['two_factor.enabled', 'two_factor.disabled']);
    expect(await new Visitor(app().url).signIn(user.username)).toMatchObject({ status: 303, location: '/' });
    const sentMails = await mailsTo(app(), `${user.username}@example.com`);
    expect(sentMails.map(({ subject }) => subject)).toContain('Two-factor authentication was disabled');
  });

  it('refuses to enable it twice from two pages', async () => {
    const { visitor, secret } = await enrolled();
    await visitor.get(PAGE);
    const page = await visitor.post(PAGE, { change: 'enable', code: codeOf(secret, 1), current_password: PASSWORD });
    expect(page).toMatchObject({ status: 422 });
    expect(page.text).toContain('already enabled');
  });
});

describe('PATCH /users/:id/disable_two_factor', () => {
  const disable = (as: TestUser, id: number) => app().as(as).patch(`/users/${id}/disable_two_factor`);

  it('answers 204 and disables it', async () => {
    const { user } = await enrolled();
    expect(await disable(app().root, user.id)).toMatchObject({ status: 204, body: '' });
    expect((await accountOf(user)).two_factor_enabled).toBe(false);
    expect((await eventsAbout(user)).at(-1)).toMatchObject({
      kind: 'two_factor.disabled',
      actor_id: app().root.id,
      user_ids: [user.id],
    });
    const rows = await db().selectFrom('recovery_codes').selectAll().where('user_id', '=', user.id).execute();
    expect(rows).toEqual([]);
  });

  it('answers 400 if it is not enabled', async () => {
    const user = await app().make.user();
    expect(await disable(app().root, user.id)).toMatchObject({
      status: 400,
      body: { message: '400 Bad request - Two-factor authentication is not enabled for this user' },
    });
  });

  it('answers 403 to everyone but administrators, and 401 to anonymous callers', async () => {
    const { user } = await enrolled();
    const stranger = await app().make.user();
    for (const as of [stranger, user]) expect(await disable(as, user.id)).toMatchObject({ status: 403 });
    expect(await disable(stranger, 999_999_999)).toMatchObject({ status: 403 });
    expect(await app().anonymous.patch(`/users/${user.id}/disable_two_factor`)).toMatchObject({ status: 401 });
    expect((await accountOf(user)).two_factor_enabled).toBe(true);
  });

  it("answers 403 for the caller's own account and other administrators", async () => {
    const { user } = await enrolled({ is_admin: true });
    expect(await disable(app().root, user.id)).toMatchObject({ status: 403 });
    expect(await disable(user, user.id)).toMatchObject({ status: 403 });
    expect((await accountOf(user)).two_factor_enabled).toBe(true);
  });

  it('answers 404 for an unknown user', async () => {
    expect(await disable(app().root, 999_999_999)).toMatchObject({
      status: 404,
      body: { message: '404 User Not Found' },
    });
  });

  it('follows the same rules in GraphQL', async () => {
    const { user } = await enrolled();
    const stranger = await app().make.user();
    const run = (as: TestUser, id: number) =>
      app()
        .as(as)
        .graphql(
          'mutation($id: UserID!) { userTwoFactorDisable(input: { id: $id }) { user { username twoFactorEnabled } errors } }',
          { id: `gid://gitlab/User/${id}` },
        );
    expect(JSON.stringify(await run(stranger, user.id))).toContain('FORBIDDEN');
    expect((await run(app().root, user.id)).data.userTwoFactorDisable).toEqual({
      user: { username: user.username, twoFactorEnabled: false },
      errors: [],
    });
    expect(JSON.stringify(await run(app().root, user.id))).toContain('is not enabled for this user');
    expect(JSON.stringify(await run(app().root, app().root.id))).toContain('FORBIDDEN');
  });
});
