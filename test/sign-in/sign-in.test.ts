import { describe, expect, it } from 'vitest';
import { makePerson, signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';

const app = useApp();
const db = () => app().hub.services.db;
const visitor = () => new Visitor(app().url);

const accountOf = (id: number) => db().selectFrom('users').selectAll().where('id', '=', id).executeTakeFirstOrThrow();

describe('signing in', () => {
  it('redirects home, by user name or any confirmed address, in any case', async () => {
    const user = await makePerson(app());
    await db()
      .insertInto('emails')
      .values([
        { user_id: user.id, email: `second-${user.username}@example.com`, confirmed_at: new Date().toISOString() },
        { user_id: user.id, email: `waiting-${user.username}@example.com` },
      ])
      .execute();
    for (const login of [
      user.username.toUpperCase(),
      `${user.username}@EXAMPLE.com`,
      `second-${user.username}@example.com`,
    ]) {
      const person = visitor();
      expect(await person.signIn(login)).toMatchObject({ status: 303, location: '/' });
      expect((await person.follow()).text).toContain(`(@${user.username}, `);
    }
    expect((await visitor().signIn(`waiting-${user.username}@example.com`)).status).toBe(422);
  });

  it('is recorded on the account, with time and address', async () => {
    const { user, visitor: person } = await signedIn(app());
    expect(await accountOf(user.id)).toMatchObject({ sign_in_count: 1, current_sign_in_ip: '127.0.0.1' });
    await person.get('/');
    await person.submit('/users/sign_out');
    await person.signIn(user.username);
    const account = await accountOf(user.id);
    expect(account).toMatchObject({ sign_in_count: 2, last_sign_in_ip: '127.0.0.1' });
    expect(account.last_activity_on).toBe(new Date().toISOString().slice(0, 10));
  });

  it('gives the cookie a new value each time, hidden from scripts and other sites', async () => {
    const user = await makePerson(app());
    const person = visitor();
    await person.get('/users/sign_in');
    const planted = person.session;
    expect(planted).toBeDefined();
    await person.submit('/users/sign_in', { login: user.username, password: PASSWORD });
    expect(person.session).not.toBe(planted);
    expect(person.cookies.get('millrace_session')?.attributes).toEqual(['path=/', 'httponly', 'samesite=lax']);

    const fixed = visitor();
    fixed.cookies.set('millrace_session', { value: planted ?? '', attributes: [] });
    expect(await fixed.get('/')).toMatchObject({ status: 303, location: '/users/sign_in?return_to=%2F' });
  });

  it('ends the earlier session of the browser', async () => {
    const { visitor: person } = await signedIn(app());
    const other = await makePerson(app());
    const before = person.cookieHeader;
    await person.get('/-/user_settings/password');
    await person.post('/users/sign_in', { login: other.username, password: PASSWORD });
    expect((await person.get('/')).text).toContain(`@${other.username}`);
    const left = await fetch(`${app().url}/`, { headers: { cookie: before }, redirect: 'manual' });
    expect(left.status).toBe(303);
  });

  it('reports missing or wrong input at the form, but not whether the account exists', async () => {
    const user = await makePerson(app());
    const person = visitor();
    const empty = await person.signIn('', '');
    expect(empty.status).toBe(422);
    expect(empty.html).toContain('<a href="#login">User name or e-mail address can&#39;t be blank</a>');
    expect(empty.html).toContain('aria-invalid="true"');
    const wrong = await person.signIn(user.username, 'wrong');
    const unknown = await person.signIn('nobody-has-this-name', 'wrong');
    expect(wrong).toMatchObject({ status: 422, text: expect.stringContaining('Invalid login or password.') });
    // The message is at the field too.
    expect(wrong.html).toContain('<a href="#password">Invalid login or password.</a>');
    expect(wrong.html).toContain('<p class="error" id="password-error">Invalid login or password.</p>');
    expect(wrong.html).toMatch(/<input [^>]*id="password"[^>]* aria-describedby="password-error" aria-invalid="true"/);
    expect(unknown.text.replace('nobody-has-this-name', '')).toBe(wrong.text.replace(user.username, ''));
    expect(person.page.html).not.toContain('value="wrong"');
    expect((await accountOf(user.id)).sign_in_count).toBe(0);
    const bot = await makePerson(app(), { user_type: 'service_account' });
    expect((await visitor().signIn(bot.username)).status).toBe(422);
  });

  it('refuses parameters of other types', async () => {
    const person = visitor();
    await person.get('/users/sign_in');
    const sent: readonly Record<string, string | readonly string[]>[] = [
      { 'login[]': 'root', password: PASSWORD },
      { 'login[email]': 'root', password: PASSWORD },
      { login: ['root', 'root'], password: PASSWORD },
      { login: 'ro\0ot', password: PASSWORD },
    ];
    for (const fields of sent) {
      expect((await person.post('/users/sign_in', fields)).status).toBe(400);
      await person.get('/users/sign_in');
    }
  });

  it('has a message for each state of an account, shown only after the right password', async () => {
    for (const [state, sentence] of [
      ['blocked', 'Your account has been blocked.'],
      ['ldap_blocked', 'Your account has been blocked.'],
      ['banned', 'Your account has been banned.'],
      ['blocked_pending_approval', 'Your account is pending approval from your administrator.'],
    ] as const) {
      const user = await makePerson(app(), { state });
      const person = visitor();
      expect(await person.signIn(user.username)).toMatchObject({
        status: 403,
        text: expect.stringContaining(sentence),
      });
      expect((await person.signIn(user.username, 'wrong')).text).toContain('Invalid login or password.');
      expect(await accountOf(user.id)).toMatchObject({ state, sign_in_count: 0 });
    }
  });

  it('reactivates a deactivated account, and requires a confirmed address if the settings say so', async () => {
    const sleeper = await makePerson(app(), { state: 'deactivated' });
    expect((await visitor().signIn(sleeper.username)).status).toBe(303);
    expect((await accountOf(sleeper.id)).state).toBe('active');

    const unconfirmed = await makePerson(app(), { confirmed_at: null });
    await app().as(app().root).put('/application/settings', { send_user_confirmation_email: true });
    expect(await visitor().signIn(unconfirmed.username)).toMatchObject({
      status: 403,
      text: expect.stringContaining('You have to confirm your email address before continuing.'),
    });
    await app().as(app().root).put('/application/settings', { send_user_confirmation_email: false });
    expect((await visitor().signIn(unconfirmed.username)).status).toBe(303);
  });

  it('redirects to the requested page, but never to another host', async () => {
    const { username } = await makePerson(app());
    const person = visitor();
    const wanted = '/-/user_settings/active_sessions?page=2';
    const { location } = await person.get(wanted);
    expect(location).toBe(`/users/sign_in?return_to=${encodeURIComponent(wanted)}`);
    await person.follow();
    expect(await person.submit('/users/sign_in', { login: username, password: PASSWORD })).toMatchObject({
      location: wanted,
    });
    expect(await person.get(location ?? '')).toMatchObject({ status: 303, location: wanted });

    for (const elsewhere of [
      'https://evil.example/',
      '//evil.example/',
      '/\\evil.example/',
      '\\/evil.example',
      '/.//evil.example',
      '/%2e//evil.example',
      '/\t/evil.example',
      '/\n/evil.example',
      ' //evil.example',
      'javascript:alert(1)',
      'evil.example',
      '@evil.example',
    ]) {
      const lured = visitor();
      await lured.get(`/users/sign_in?return_to=${encodeURIComponent(elsewhere)}`);
      expect(lured.page.html).not.toContain('evil');
      const sent = await lured.submit('/users/sign_in', { login: username, password: PASSWORD, return_to: elsewhere });
      expect([elsewhere, sent.status, sent.location]).toEqual([elsewhere, 303, '/']);
    }
  });

  it('can be requested again while signed in, and then replaces the session', async () => {
    const { visitor: person, user } = await signedIn(app());
    const before = person.session;
    expect((await person.get('/users/sign_in?return_to=/-/user_settings/password')).location).toBe(
      '/-/user_settings/password',
    );
    const { status, html } = await person.get('/users/sign_in?return_to=/-/user_settings/password&again=1');
    expect(status).toBe(200);
    expect(html).toContain(`value="${user.username}"`);
    expect((await person.submit('/users/sign_in', { login: user.username, password: PASSWORD })).location).toBe(
      '/-/user_settings/password',
    );
    expect(person.session).not.toBe(before);
    expect(await db().selectFrom('sessions').select('id').where('user_id', '=', user.id).execute()).toHaveLength(1);
  });

  it('can be turned off for passwords', async () => {
    const { username } = await makePerson(app());
    const person = visitor();
    await person.get('/users/sign_in');
    await app().as(app().root).put('/application/settings', { password_authentication_enabled_for_web: false });
    expect((await person.submit('/users/sign_in', { login: username, password: PASSWORD })).status).toBe(403);
    expect((await person.get('/users/sign_in')).html).not.toContain('type="password"');
    await app().as(app().root).put('/application/settings', { password_authentication_enabled_for_web: true });
  });

  it('requires a new password first if somebody else set the old one', async () => {
    const user = await makePerson(app(), { password_change_required: true });
    const person = visitor();
    expect(await person.signIn(user.username)).toMatchObject({ status: 303, location: '/users/sign_in/new_password' });
    expect((await visitor().get('/users/sign_in/new_password')).location).toBe('/users/sign_in');
    await person.follow();
    expect((await person.get('/')).status).toBe(303);
    await person.get('/users/sign_in/new_password');
    const send = (password: string, again = password) =>
      person.submit('/users/sign_in/new_password', { password, password_confirmation: again });
    expect((await send('short')).text).toContain('New password is too short (minimum is 8 characters)');
    expect((await send(PASSWORD)).text).toContain('New password must differ from the current password');
    expect((await send('another-password', 'another-passwort')).text).toContain('is not the same password');
    expect((await accountOf(user.id)).sign_in_count).toBe(0);
    const pending = person.cookieHeader;
    expect(await send('another-password')).toMatchObject({ status: 303, location: '/' });
    expect((await person.follow()).text).toContain(user.username);
    expect(await accountOf(user.id)).toMatchObject({ password_change_required: false, sign_in_count: 1 });

    // The cookie of a completed step is not accepted again.
    const again = visitor();
    for (const pair of pending.split('; ')) {
      const [name = '', value = ''] = pair.split('=');
      again.cookies.set(name, { value, attributes: [] });
    }
    await again.get('/users/sign_in/new_password');
    await again.submit('/users/sign_in/new_password', {
      password: 'third-password',
      password_confirmation: 'third-password',
    });
    expect(again.page.location).toBe('/users/sign_in');
    expect((await visitor().signIn(user.username)).status).toBe(422);
    expect((await visitor().signIn(user.username, 'another-password')).status).toBe(303);
  });
});

describe('signing out', () => {
  it('ends the session at once and redirects to the sign-in page', async () => {
    const { visitor: person } = await signedIn(app());
    const cookie = person.cookieHeader;
    await person.get('/');
    expect(await person.submit('/users/sign_out')).toMatchObject({ status: 303, location: '/users/sign_in' });
    expect(person.session).toBeUndefined();
    expect((await person.follow()).text).toContain('You have signed out.');
    expect((await person.get('/users/sign_in')).text).not.toContain('You have signed out.');
    const { status } = await fetch(`${app().url}/`, { headers: { cookie }, redirect: 'manual' });
    expect(status).toBe(303);
  });

  it('redirects to the URL in the setting after_sign_out_path', async () => {
    const set = (after_sign_out_path: string) =>
      app().as(app().root).put('/application/settings', { after_sign_out_path });
    for (const wrong of ['javascript:alert(1)', '//evil.example', 'elsewhere'])
      expect((await set(wrong)).status).toBe(400);
    await set('https://home.example/bye');
    const first = await signedIn(app());
    await first.visitor.get('/');
    const shown = await first.visitor.submit('/users/sign_out');
    expect([shown.status, shown.headers.get('refresh')]).toEqual([200, '0; url=https://home.example/bye']);
    await set('/-/api-docs');
    const second = await signedIn(app());
    await second.visitor.get('/');
    expect((await second.visitor.submit('/users/sign_out')).location).toBe('/-/api-docs');
    await set('');
  });
});
