import { afterEach, describe, expect, it } from 'vitest';
import { settingsSchema } from '#domains/settings/registry.ts';
import { deleteUnconfirmedUsers } from '#domains/users/accounts/unconfirmed.ts';
import { sweepSignUps } from '#domains/users/mails/sign-up.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { linkTo, mailsTo } from '../support/mails.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;

const SIGN_UP = '/users/sign_up';
const CONFIRM = '/users/sign_up/confirm';
const LINK = `${CONFIRM}?confirmation_token=`;
/** The fields of the page that the mailed link opens. */
const CHOSEN = { password: PASSWORD, password_confirmation: PASSWORD };
const ROOT = 'root@localhost.localdomain';

const changed: string[] = [];
const set = async (settings: Record<string, unknown>) => {
  changed.push(...Object.keys(settings));
  expect(await admin().put('/application/settings', settings)).toMatchObject({ status: 200 });
};
/** Registration for everyone, without approval. The address is confirmed first. */
const open = (more: Record<string, unknown> = {}) =>
  set({
    signup_enabled: true,
    send_user_confirmation_email: true,
    require_admin_approval_after_user_signup: false,
    ...more,
  });
const defaults: Readonly<Record<string, unknown>> = settingsSchema.parse({});
afterEach(async () => {
  const names = changed.splice(0);
  await admin().put('/application/settings', Object.fromEntries(names.map((name) => [name, defaults[name]])));
  await app().hub.services.pool.query("delete from rate_counts where key like 'sign-ups:%'");
});

let count = 0;
const somebody = () => {
  const username = `newcomer-${++count}`;
  return { name: `Newcomer ${count}`, username, email: `${username}@example.org`, password: PASSWORD };
};
type Person = ReturnType<typeof somebody>;

const register = async (person: Person) => {
  const visitor = new Visitor(app().url);
  await visitor.get(SIGN_UP);
  return visitor.submit(SIGN_UP, person);
};
/** Opens the mailed link and chooses the password. */
const confirm = async ({ email }: Person, fields: Record<string, string> = {}) => {
  const visitor = new Visitor(app().url);
  await visitor.get(await linkTo(app(), email, LINK));
  await visitor.submit(CONFIRM, { ...CHOSEN, ...fields });
  return visitor;
};
const userCalled = async (username: string) =>
  (await db().selectFrom('users').selectAll().where('username', '=', username).executeTakeFirst()) ?? null;

describe('registration', () => {
  it('is closed until the setting opens it, and while passwords are off', async () => {
    const person = somebody();
    const visitor = new Visitor(app().url);
    expect((await visitor.get('/users/sign_in')).html).not.toContain(SIGN_UP);
    const csrf = visitor.csrfToken ?? '';
    for (const settings of [{}, { signup_enabled: true, password_authentication_enabled_for_web: false }]) {
      await set(settings.signup_enabled ? settings : { signup_enabled: false });
      expect(await visitor.get(SIGN_UP)).toMatchObject({ status: 403 });
      expect(visitor.page.text).toContain('Ask an administrator for an account.');
      for (const path of ['/users/sign_up/next', `${LINK}guess`]) expect((await visitor.get(path)).status).toBe(403);
      expect((await visitor.post(SIGN_UP, { ...person, authenticity_token: csrf })).status).toBe(403);
    }
    expect(await userCalled(person.username)).toBeNull();
    await set({ password_authentication_enabled_for_web: true });
    expect((await visitor.get('/users/sign_in')).html).toContain(`href="${SIGN_UP}"`);
    expect((await visitor.get(SIGN_UP)).status).toBe(200);
  });

  it('creates the account once the address is confirmed, by a link that works once', async () => {
    await open({ after_sign_up_text: 'Welcome to **the** <mill>.', user_default_external: true });
    const person = somebody();
    expect(await register(person)).toMatchObject({ status: 303, location: '/users/sign_up/next' });
    const next = await new Visitor(app().url).get('/users/sign_up/next');
    expect(next.text).toContain('We have mailed you a link.');
    expect(next.html).toContain('<div class="said"><p dir="auto">Welcome to <strong>the</strong> .</p>');
    // There is no account yet, so nothing differs from a login that does not exist.
    const link = await linkTo(app(), person.email, LINK);
    expect(await userCalled(person.username)).toBeNull();
    expect(await new Visitor(app().url).signIn(person.username)).toMatchObject({ status: 422 });

    const visitor = new Visitor(app().url);
    expect((await visitor.get(link)).text).toContain(
      `Choose a password for the account ${person.username} of ${person.email} .`,
    );
    expect(await userCalled(person.username)).toBeNull();
    await visitor.submit(CONFIRM, CHOSEN);
    expect((await visitor.follow()).text).toContain('Your account was created. Sign in.');
    expect((await visitor.get(link)).status).toBe(404);
    expect((await visitor.get('/users/sign_in')).status).toBe(200);
    const again = await visitor.post(CONFIRM, { ...CHOSEN, confirmation_token: link.slice(LINK.length) });
    expect([again.status, again.text]).toEqual([404, expect.stringContaining('no longer valid')]);

    const user = await userCalled(person.username);
    expect(user).toMatchObject({
      name: person.name,
      state: 'active',
      external: true,
      is_admin: false,
      created_by_id: null,
    });
    expect((await admin().get(`/users/${user?.id}`)).body).toMatchObject({
      created_by: null,
      confirmed_at: expect.stringMatching(/Z$/),
      namespace_id: expect.any(Number),
    });
    const events = await db()
      .selectFrom('events')
      .select(['kind', 'actor_id'])
      .where('subject_type', '=', 'User')
      .where('subject_id', '=', user?.id ?? 0)
      .execute();
    expect(events).toEqual([{ kind: 'user.created', actor_id: null }]);
    expect(await new Visitor(app().url).signIn(person.username)).toMatchObject({ status: 303, location: '/' });
  });

  it('applies the rules for users, at registration and again at confirmation', async () => {
    await open({
      domain_allowlist: ['example.org'],
      email_restrictions_enabled: true,
      email_restrictions: 'spam',
      minimum_password_length: 10,
    });
    const group = await app().make.group();
    const wrong: readonly (readonly [Partial<Person>, string])[] = [
      [{ email: 'a@example.net' }, 'domain is not authorized for sign-up.'],
      [{ email: 'spam@example.org' }, 'is not allowed for sign-up.'],
      [{ email: 'nonsense' }, 'E-mail address is invalid'],
      [{ email: '' }, 'E-mail address is invalid'],
      [{ name: ' ' }, "Name can't be blank"],
      [{ username: '' }, "User name can't be blank"],
      [{ username: 'admin' }, 'User name is a reserved name'],
      [{ username: 'ROOT' }, 'User name has already been taken'],
      [{ username: group.path.toUpperCase() }, 'User name has already been taken'],
    ];
    for (const [part, said] of wrong) {
      const person = { ...somebody(), ...part };
      const page = await register(person);
      expect([part, page.status]).toEqual([part, 422]);
      expect(page.text).toContain(said);
    }
    expect(await db().selectFrom('sign_ups').select('id').execute()).toEqual([]);
    await set({ send_user_confirmation_email: false });
    for (const [password, said] of [
      ['nine-long', 'Password is too short (minimum is 10 characters)'],
      ['x'.repeat(200), 'Password is too long'],
    ] as const) {
      const page = await register({ ...somebody(), password });
      expect([page.status, page.text]).toEqual([422, expect.stringContaining(said)]);
      expect(page.html).not.toContain(password);
    }
    await set({ send_user_confirmation_email: true });

    const person = somebody();
    await register(person);
    await set({ domain_allowlist: ['example.com'] });
    const visitor = await confirm(person);
    expect([visitor.page.status, visitor.page.text]).toEqual([
      422,
      expect.stringContaining('domain is not authorized'),
    ]);
    await set({ domain_allowlist: ['example.org'] });
    await set({ signup_enabled: false });
    expect((await visitor.get(await linkTo(app(), person.email, LINK))).status).toBe(403);
    await set({ signup_enabled: true });
    expect((await confirm(person)).page.status).toBe(303);
  });

  it('lets only the owner of the mailbox choose the password', async () => {
    await open({ minimum_password_length: 10 });
    const person = { ...somebody(), password: 'of an attacker' };
    const visitor = new Visitor(app().url);
    expect((await visitor.get(SIGN_UP)).html).not.toContain('type="password"');
    await register(person);
    await visitor.get(await linkTo(app(), person.email, LINK));
    const long = 'x'.repeat(200);
    for (const [fields, said] of [
      [{}, 'New password is too short (minimum is 10 characters)'],
      [{ password: 'nine-long', password_confirmation: 'nine-long' }, 'New password is too short'],
      [{ password: long, password_confirmation: long }, 'New password is too long'],
      [{ ...CHOSEN, password_confirmation: 'another one' }, 'New password again is not the same password'],
    ] as const) {
      const page = await visitor.submit(CONFIRM, fields);
      expect([page.status, page.text]).toEqual([422, expect.stringContaining(said)]);
      expect(page.html).not.toContain('name="username"');
    }
    expect(await userCalled(person.username)).toBeNull();
    const own = 'of the mailbox owner';
    expect((await visitor.submit(CONFIRM, { password: own, password_confirmation: own })).status).toBe(303);
    expect((await new Visitor(app().url).signIn(person.username, person.password)).status).toBe(422);
    expect((await new Visitor(app().url).signIn(person.username, own)).status).toBe(303);
  });

  it('makes users internal by their address only once it is confirmed', async () => {
    const internal = { user_default_external: true, user_default_internal_regex: '@example\\.org$' };
    await open({ ...internal, send_user_confirmation_email: false, require_admin_approval_after_user_signup: true });
    const [stranger, employee] = [somebody(), somebody()];
    await register(stranger);
    expect(await userCalled(stranger.username)).toMatchObject({ external: true, confirmed_at: null });
    expect((await mailsTo(app(), ROOT)).at(-1)?.text).toContain(`(${stranger.email}, unconfirmed) has registered`);
    await set({ send_user_confirmation_email: true });
    await register(employee);
    await confirm(employee);
    expect(await userCalled(employee.username)).toMatchObject({ external: false });
    expect((await mailsTo(app(), ROOT)).at(-1)?.text).toContain(`(${employee.email}) has registered`);
  });

  it('takes four fields only, each once', async () => {
    await open();
    const person = somebody();
    await register({ ...person, admin: 'true', is_admin: '1', state: 'active', confirmed_at: 'now' } as Person);
    await confirm(person, { admin: 'true' });
    expect(await userCalled(person.username)).toMatchObject({ is_admin: false, external: false });
    const visitor = new Visitor(app().url);
    await visitor.get(SIGN_UP);
    const { email: _, ...rest } = somebody();
    expect((await visitor.post(SIGN_UP, { ...rest, 'email[]': ['a@example.org', 'b@example.org'] })).status).toBe(400);
    expect((await visitor.post(SIGN_UP, { ...rest, email: 'a@example.org', name: 'a\0b' })).status).toBe(422);
  });

  it('refuses forms from other sites, and sends people with a session home', async () => {
    await open();
    const visitor = new Visitor(app().url);
    await visitor.get(SIGN_UP);
    expect((await visitor.post(SIGN_UP, { ...somebody(), authenticity_token: 'forged' })).status).toBe(422);
    expect(await db().selectFrom('sign_ups').select('id').execute()).toEqual([]);
    await visitor.signIn('root');
    expect(await visitor.get(SIGN_UP)).toMatchObject({ status: 303, location: '/' });
  });
});

describe('an address that has an account', () => {
  it('gets the same answers as a new one, and its owner a mail', async () => {
    await open();
    const owner = await app().make.user({ email: 'owner@example.org' });
    const seen = async (person: Person) => {
      const { status, location } = await register(person);
      await app().settle();
      const again = await register({ ...person, email: `other-${person.email}` });
      const signedIn = await new Visitor(app().url).signIn(person.username);
      const reset = new Visitor(app().url);
      await reset.get('/users/confirmation/new');
      const asked = await reset.submit('/users/confirmation/new', { email: person.email });
      const profile = await app().as(owner).get(`/users?username=${person.username}`);
      return [status, location, again.status, signedIn.status, asked.status, profile.body];
    };
    const known = await seen({ ...somebody(), email: 'Owner@example.org' });
    expect(known).toEqual(await seen(somebody()));
    expect(known).toEqual([303, '/users/sign_up/next', 303, 422, 303, []]);
    const [mail, ...more] = await mailsTo(app(), 'Owner@example.org');
    expect([mail?.subject, more]).toEqual(['You already have an account', []]);
    expect(mail?.text).not.toContain('confirmation_token');
  });

  it('cannot be confirmed by a second registration, and an account that came first keeps it', async () => {
    await open();
    const first = somebody();
    const second = { ...somebody(), email: first.email.toUpperCase() };
    await register(first);
    await register(second);
    const link = await linkTo(app(), second.email, LINK);
    await confirm(first);
    expect((await new Visitor(app().url).get(link)).status).toBe(404);
    expect(await userCalled(second.username)).toBeNull();

    const third = somebody();
    await register(third);
    const visitor = new Visitor(app().url);
    await visitor.get(await linkTo(app(), third.email, LINK));
    await app().make.user({ email: third.email });
    await visitor.submit(CONFIRM, CHOSEN);
    expect([visitor.page.status, visitor.page.text]).toEqual([
      409,
      expect.stringContaining('Email has already been taken'),
    ]);
  });

  it('learns of a taken address when addresses need no confirmation, because the account opens at once', async () => {
    await open({ send_user_confirmation_email: false });
    const person = somebody();
    expect((await register(person)).status).toBe(303);
    expect((await new Visitor(app().url).signIn(person.username)).status).toBe(303);
    expect(await userCalled(person.username)).toMatchObject({ confirmed_at: null });
    expect(await linkTo(app(), person.email, '/users/confirmation?confirmation_token=')).toBeTruthy();
    const taken = await register({ ...somebody(), email: person.email });
    expect([taken.status, taken.text]).toEqual([409, expect.stringContaining('Email has already been taken')]);
  });
});

describe('a race', () => {
  it('gives a user name to one of those who confirm at once, and lets the other choose another', async () => {
    await open();
    const one = somebody();
    const other = { ...somebody(), username: one.username.toUpperCase() };
    await register(one);
    await register(other);
    await app().settle();
    const visitors = await Promise.all([confirm(one), confirm(other)]);
    expect(visitors.map(({ page }) => page.status).sort()).toEqual([303, 409]);
    const refused = visitors.find(({ page }) => page.status === 409);
    expect(refused?.page.text).toContain('Username has already been taken');
    await refused?.submit(CONFIRM, { ...CHOSEN, username: `${one.username}-too` });
    expect(refused?.page.status).toBe(303);
    expect(await userCalled(`${one.username}-too`)).not.toBeNull();
  });

  it('uses a link up once', async () => {
    await open();
    const person = somebody();
    await register(person);
    await app().settle();
    const visitors = await Promise.all(
      [confirm(person), confirm(person), confirm(person)].map((each) => each.catch(() => null)),
    );
    expect(visitors.filter((visitor) => visitor?.page.status === 303)).toHaveLength(1);
  });
});

describe('limits', () => {
  it('allow a client address thirty registrations an hour, and a mail address five', async () => {
    await open();
    const person = somebody();
    const statuses: number[] = [];
    for (let n = 0; n < 6; n++) statuses.push((await register(person)).status);
    expect(statuses).toEqual([303, 303, 303, 303, 303, 429]);
    await app().hub.services.pool.query("update rate_counts set count = 30 where key like 'sign-ups:ip:%'");
    const refused = await register(somebody());
    expect([refused.status, refused.text]).toEqual([
      429,
      expect.stringContaining('There were too many registrations. Try again in'),
    ]);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(3_000);
  });

  it('end registrations that nobody confirms after three days', async () => {
    await open();
    const person = somebody();
    await register(person);
    const link = await linkTo(app(), person.email, LINK);
    const run = () => sweepSignUps.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    const waiting = () => db().selectFrom('sign_ups').select('id').where('username', '=', person.username).execute();
    await run();
    expect(await waiting()).toHaveLength(1);
    await app().hub.services.pool.query("update sign_ups set expires_at = expires_at - interval '72 hours'");
    expect((await new Visitor(app().url).get(link)).status).toBe(404);
    await run();
    expect(await waiting()).toEqual([]);
  });
});

describe('approval', () => {
  it('keeps new accounts closed until an administrator approves them, with a mail to each side', async () => {
    await open({ require_admin_approval_after_user_signup: true });
    const person = somebody();
    await register(person);
    expect((await new Visitor(app().url).get('/users/sign_up/next')).text).toContain(
      'An administrator must approve it',
    );
    const visitor = await confirm(person);
    expect((await visitor.follow()).text).toContain('An administrator must approve it');
    const user = await userCalled(person.username);
    expect(user?.state).toBe('blocked_pending_approval');
    const refused = await new Visitor(app().url).signIn(person.username);
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('pending approval')]);
    const asked = (await mailsTo(app(), ROOT)).at(-1);
    expect(asked?.subject).toBe(`${person.username} is waiting for approval`);
    expect(asked?.text).toContain(`POST ${app().url}/api/v4/users/${user?.id}/approve`);

    expect((await admin().post(`/users/${user?.id}/approve`)).status).toBe(201);
    expect((await mailsTo(app(), person.email)).at(-1)).toMatchObject({ subject: 'Your account was approved' });
    expect((await new Visitor(app().url).signIn(person.username)).status).toBe(303);
  });

  it('deletes a rejected account and mails its user, also without a confirmed address', async () => {
    await open({ require_admin_approval_after_user_signup: true, send_user_confirmation_email: false });
    const person = somebody();
    await register(person);
    const user = await userCalled(person.username);
    expect(user).toMatchObject({ state: 'blocked_pending_approval', confirmed_at: null });
    expect(
      (
        await app()
          .as(await app().make.user())
          .post(`/users/${user?.id}/reject`)
      ).status,
    ).toBe(403);
    expect((await admin().post(`/users/${user?.id}/reject`)).status).toBe(201);
    expect(await userCalled(person.username)).toBeNull();
    expect((await mailsTo(app(), person.email)).at(-1)).toMatchObject({ subject: 'Your account was rejected' });
  });

  it('is a page for administrators, and a list in REST and GraphQL', async () => {
    await open({ require_admin_approval_after_user_signup: true, send_user_confirmation_email: false });
    const [good, bad] = [somebody(), somebody()];
    for (const person of [good, bad]) await register(person);
    const waiting = [good, bad].map(({ username }) => username).sort();
    const listed = async (client = admin()) => {
      const { body } = await client.get('/users?pending_approval=true&humans=true&per_page=100');
      const { data } = await client.graphql('{ users(pendingApproval: true, humans: true) { nodes { username } } }');
      const ofRest: string[] = body.map(({ username }: { username: string }) => username);
      const ofGraphql: string[] = data.users.nodes.map(({ username }: { username: string }) => username);
      expect(ofGraphql.sort()).toEqual(ofRest.sort());
      return ofRest;
    };
    expect(await listed()).toEqual(expect.arrayContaining(waiting));
    // Other callers cannot filter by it, as by the other filters of administrators.
    const { user, visitor: stranger } = await signedIn(app());
    expect(await listed(app().as(user))).toContain(user.username);
    expect((await stranger.get('/admin/users/pending')).status).toBe(403);
    const id = (await userCalled(good.username))?.id;
    for (const decision of ['approve', 'reject']) {
      await stranger.get('/');
      expect((await stranger.post(`/admin/users/pending/${id}/${decision}`)).status).toBe(403);
    }
    expect(await listed()).toEqual(expect.arrayContaining(waiting));

    const { visitor } = await signedIn(app(), { is_admin: true });
    expect((await visitor.get('/')).html).toContain('href="/admin/users/pending"');
    expect((await visitor.get('/admin/users/pending')).text).toContain(`@${good.username}`);
    expect(visitor.page.text).toContain(`${good.email} unconfirmed`);
    await visitor.submit(`/admin/users/pending/${id}/approve`);
    expect((await visitor.follow()).text).toContain(`${good.username} was approved.`);
    expect(visitor.page.text).not.toContain(`@${good.username}`);
    expect((await new Visitor(app().url).signIn(good.username)).status).toBe(303);
    // Somebody else was faster.
    await visitor.post(`/admin/users/pending/${id}/reject`);
    expect((await visitor.follow()).text).toContain('no longer waits');
    expect(await userCalled(good.username)).toMatchObject({ state: 'active' });
    await visitor.submit(`/admin/users/pending/${(await userCalled(bad.username))?.id}/reject`);
    expect((await visitor.follow()).text).toContain('rejected and deleted');
    expect(await userCalled(bad.username)).toBeNull();
    expect(await listed()).not.toEqual(expect.arrayContaining([good.username]));
  });

  it('does not concern accounts that administrators create', async () => {
    await set({ require_admin_approval_after_user_signup: true });
    expect((await admin().post('/users', somebody())).body).toMatchObject({ state: 'active' });
  });
});

describe('unconfirmed accounts', () => {
  it('are deleted when they are old and unused, once the setting says so', async () => {
    const made = await Promise.all(Array.from({ length: 7 }, () => admin().post('/users', somebody())));
    const [old, young, confirmed, used, blocked, owner, administrator] = made.map(({ body }) => Number(body.id));
    const { pool } = app().hub.services;
    const age = (id: number | undefined, days: number, also = '') =>
      pool.query(`update users set created_at = now() - make_interval(days => $2)${also} where id = $1`, [id, days]);
    await age(old, 9);
    await age(young, 7);
    await age(confirmed, 9, ', confirmed_at = now()');
    await age(used, 9, ', last_activity_on = current_date');
    await age(blocked, 9, ", state = 'blocked'");
    await age(owner, 9);
    await age(administrator, 9, ', is_admin = true');
    await app().make.group({}, { id: owner ?? 0, username: '' });
    await app().settle();
    await age(owner, 9, ', last_activity_on = null');
    const run = () => deleteUnconfirmedUsers.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    const left = async () => {
      const ids = made.map(({ body }) => Number(body.id));
      const rows = await db().selectFrom('users').select('id').where('id', 'in', ids).orderBy('id').execute();
      return rows.map(({ id }) => id);
    };
    await run();
    expect(await left()).toHaveLength(7);
    await set({ delete_unconfirmed_users: true, unconfirmed_users_delete_after_days: 8 });
    await run();
    expect(await left()).toEqual([young, confirmed, used, blocked, owner, administrator].sort());
    await set({ unconfirmed_users_delete_after_days: 6 });
    await run();
    expect(await left()).not.toContain(young);
    await app().settle();
    const kinds = await db()
      .selectFrom('events')
      .select('kind')
      .where('subject_id', '=', old ?? 0)
      .where('kind', '=', 'user.deleted')
      .execute();
    expect(kinds).toHaveLength(1);
  });

  it('are deleted although one of them cannot be', async () => {
    const ids: number[] = [];
    for (let n = 0; n < 3; n++) ids.push(Number((await admin().post('/users', somebody())).body.id));
    const [, kept] = ids;
    const { pool } = app().hub.services;
    await pool.query("update users set created_at = now() - interval '30 days' where id = any ($1)", [ids]);
    await pool.query(`
      create function refuse_deletion() returns trigger language plpgsql as $$ begin raise 'not this one'; end $$;
      create trigger refuse_deletion before delete on users for each row when (old.id = ${kept})
        execute function refuse_deletion()`);
    await set({ delete_unconfirmed_users: true });
    const run = () => deleteUnconfirmedUsers.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    const left = async () =>
      (await db().selectFrom('users').select('id').where('id', 'in', ids).execute()).map(({ id }) => id);
    await run();
    expect(await left()).toEqual([kept]);
    await pool.query('drop trigger refuse_deletion on users; drop function refuse_deletion()');
    await run();
    expect(await left()).toEqual([]);
  });
});
