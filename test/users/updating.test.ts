import { describe, expect, it } from 'vitest';
import { startSession } from '#domains/sign-in/sessions.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { linkTo, mailsTo } from '../support/mails.ts';

const app = useApp();
const admin = () => app().as(app().root);

const addressesOf = async (user: TestUser) =>
  (
    await app()
      .hub.services.db.selectFrom('emails')
      .select(['email', 'confirmed_at'])
      .where('user_id', '=', user.id)
      .orderBy('id')
      .execute()
  ).map(({ email, confirmed_at }) => [email, confirmed_at !== null]);

const addAddress = (user: TestUser, email: string, confirmed: boolean) =>
  app()
    .hub.services.db.insertInto('emails')
    .values({ user_id: user.id, email, confirmed_at: confirmed ? '2024-01-01' : null })
    .execute();

const eventsOf = (user: TestUser) =>
  app()
    .hub.services.db.selectFrom('events')
    .select(['kind', 'payload', 'user_ids', 'actor_id'])
    .where('subject_type', '=', 'User')
    .where('subject_id', '=', user.id)
    .orderBy('id')
    .execute();

describe('the address of a user', () => {
  it('changes at once to a confirmed secondary address, and the old one becomes secondary', async () => {
    const user = await app().make.user();
    const second = `second-${user.username}@example.com`;
    await addAddress(user, second, true);
    const { status, body } = await admin().put(`/users/${user.id}`, { email: second.toUpperCase() });
    expect([status, body.email]).toEqual([200, second]);
    expect(await addressesOf(user)).toEqual([[`${user.username}@example.com`, true]]);
    expect((await eventsOf(user)).at(-1)).toMatchObject({
      kind: 'user.updated',
      payload: { changes: { email: { previous: `${user.username}@example.com`, current: second } } },
    });
  });

  it('waits for confirmation if the new one is unconfirmed, unless that is skipped', async () => {
    const user = await app().make.user();
    const second = `unsure-${user.username}@example.com`;
    await addAddress(user, second, false);
    const waiting = await admin().put(`/users/${user.id}`, { email: second });
    expect([waiting.status, waiting.body.email]).toEqual([200, `${user.username}@example.com`]);
    expect(await linkTo(app(), second, '/users/confirmation')).toContain('confirmation_token=');
    const sure = await admin().put(`/users/${user.id}`, { email: second, skip_reconfirmation: true });
    expect([sure.status, sure.body.email]).toEqual([200, second]);
  });

  it("cannot be another user's or one that was never added: 404, and nothing else changes", async () => {
    const user = await app().make.user();
    const other = await app().make.user();
    for (const email of [`${other.username}@example.com`, `new-${user.username}@example.com`]) {
      const { status, body } = await admin().put(`/users/${user.id}`, { email, bio: 'changed' });
      expect([status, body]).toEqual([404, { message: 'Email is not an address that was added to the account' }]);
    }
    const taken = `taken-${user.username}@example.com`;
    await addAddress(user, taken, false);
    await addAddress(other, taken, true);
    expect((await admin().put(`/users/${user.id}`, { email: taken, skip_reconfirmation: true })).status).toBe(404);
    for (const email of [[`${user.username}@example.com`], { a: 1 }]) {
      const { status, body } = await admin().put(`/users/${user.id}`, { email });
      expect([status, body]).toEqual([400, { error: 'email is invalid (allowed: a string)' }]);
    }
    expect((await admin().get(`/users/${user.id}`)).body).toMatchObject({
      email: `${user.username}@example.com`,
      bio: '',
    });
    expect(await mailsTo(app(), `${other.username}@example.com`)).toEqual([]);
  });

  it('may be sent unchanged', async () => {
    const user = await app().make.user();
    const email = `${user.username}@example.com`;
    expect((await admin().put(`/users/${user.id}`, { email, bio: 'b' })).body).toMatchObject({ email, bio: 'b' });
  });

  it('can be shown in the profile and in commits if it is confirmed', async () => {
    const user = await app().make.user();
    const [sure, unsure] = [`sure-${user.username}@example.com`, `not-${user.username}@example.com`];
    await addAddress(user, sure, true);
    await addAddress(user, unsure, false);
    const shown = await admin().put(`/users/${user.id}`, { public_email: sure, commit_email: sure });
    expect(shown.body).toMatchObject({ public_email: sure, commit_email: sure });
    for (const name of ['public_email', 'commit_email']) {
      const refused = await admin().put(`/users/${user.id}`, { [name]: unsure });
      expect(refused.status).toBe(404);
      expect(refused.body.message).toContain('is not a confirmed address of the user');
    }
    const hidden = await admin().put(`/users/${user.id}`, { public_email: '', commit_email: '_private' });
    expect(hidden.body).toMatchObject({
      public_email: '',
      commit_email: `${user.id}-${user.username}@users.noreply.127.0.0.1`,
    });
  });
});

describe('the password of a user', () => {
  const stateOf = (user: TestUser) =>
    app()
      .hub.services.db.selectFrom('users')
      .select(['password_change_required', 'failed_attempts', 'locked_until', 'password_hash'])
      .where('id', '=', user.id)
      .executeTakeFirstOrThrow();

  it('has to be changed if an administrator set it, ends sessions, and appears in no event', async () => {
    const user = await app().make.user({ failed_attempts: 9, locked_until: '2999-01-01' });
    await app()
      .context(user)
      .transaction((tx) => startSession(tx, user.id));
    const token = await app().tokenOf(user);
    const { status, body } = await admin().put(`/users/${user.id}`, { password: PASSWORD });
    expect([status, body.locked]).toEqual([200, false]);
    expect(await stateOf(user)).toMatchObject({
      password_change_required: true,
      failed_attempts: 0,
      locked_until: null,
    });
    const { db } = app().hub.services;
    expect(await db.selectFrom('sessions').select('id').where('user_id', '=', user.id).execute()).toEqual([]);
    // Tokens keep working, because they are not sessions.
    expect((await app().anonymous.get('/user', { 'private-token': token })).status).toBe(200);
    const events = await eventsOf(user);
    expect(events.at(-1)).toMatchObject({ payload: { changes: { password: { previous: null, current: null } } } });
    expect(JSON.stringify(events)).not.toContain(PASSWORD);
    expect(JSON.stringify(events)).not.toContain('argon2');
    expect((await mailsTo(app(), `${user.username}@example.com`)).map(({ subject }) => subject)).toEqual([
      'Your password was changed',
    ]);
  });

  it('need not be changed if administrators set their own', async () => {
    const second = await app().make.user({ is_admin: true });
    await app().as(second).put(`/users/${second.id}`, { password: PASSWORD });
    expect((await stateOf(second)).password_change_required).toBe(false);
    await app().hub.services.db.updateTable('users').set({ is_admin: false }).where('id', '=', second.id).execute();
  });

  it('is refused if it is too short', async () => {
    const user = await app().make.user();
    const before = await stateOf(user);
    const { status, body } = await admin().put(`/users/${user.id}`, { password: 'short' });
    expect([status, body.message]).toEqual([404, 'Password is too short (minimum is 8 characters)']);
    expect(await stateOf(user)).toEqual(before);
  });
});

describe("the caller's own profile", () => {
  it('is changed by the caller, with an event', async () => {
    const user = await app().make.user({ bio: 'before', location: 'here' });
    const { status, body } = await app().as(user).put('/user', {
      name: 'New Name',
      bio: 'after',
      location: null,
      timezone: 'Asia/Tokyo',
      private_profile: true,
      website_url: 'https://example.com',
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ name: 'New Name', bio: 'after', location: null, private_profile: true });
    expect(body.local_time).toMatch(/^\d{1,2}:\d\d [AP]M$/);
    expect((await eventsOf(user)).at(-1)).toMatchObject({
      kind: 'user.updated',
      actor_id: user.id,
      user_ids: [user.id],
      payload: { changes: { bio: { previous: 'before', current: 'after' }, timezone: { current: 'Asia/Tokyo' } } },
    });
    const { db } = app().hub.services;
    const namespace = await db
      .selectFrom('namespaces')
      .select('full_name')
      .where('owner_id', '=', user.id)
      .executeTakeFirst();
    expect(namespace?.full_name).toBe('New Name');
  });

  it('grants no rights for any input', async () => {
    const user = await app().make.user();
    const { status } = await app().as(user).put('/user', {
      admin: true,
      is_admin: true,
      auditor: true,
      external: false,
      can_create_group: true,
      projects_limit: 9_999,
      note: 'mine',
      username: 'root2',
      email: 'root@example.com',
      password: 'another-password',
      state: 'active',
      user_type: 'service_account',
      id: app().root.id,
      confirmed_at: '2020-01-01',
      shared_runners_minutes_limit: 1,
      provider: 'ldapmain',
      extern_uid: 'cn=root',
    });
    expect(status).toBe(200);
    expect((await admin().get(`/users/${user.id}`)).body).toMatchObject({
      username: user.username,
      is_admin: false,
      is_auditor: false,
      projects_limit: 100_000,
      note: null,
      email: `${user.username}@example.com`,
      identities: [],
      shared_runners_minutes_limit: null,
    });
  });

  it.each([
    [{ timezone: 'Mars/Olympus' }, { timezone: ['is not a time zone'] }],
    [{ name: ' ' }, { name: ["can't be blank"] }],
    [{ website_url: 'javascript:alert(1)' }, { website_url: ['is not a valid URL'] }],
    [{ public_email: 'root@example.com' }, { public_email: ['is not a confirmed address of the user'] }],
    [{ commit_email: 'root@example.com' }, { commit_email: ['is not a confirmed address of the user'] }],
    [{ bio: 'x'.repeat(256) }, { bio: ['is too long (maximum is 255 characters)'] }],
  ])('refuses %j', async (wrong, message) => {
    const user = await app().make.user();
    const { status, body } = await app()
      .as(user)
      .put('/user', { ...wrong, location: 'there' });
    expect([status, body]).toEqual([400, { message }]);
    expect((await app().as(user).get('/user')).body.location).toBeNull();
  });

  it('can be renamed only by administrators if the settings say so', async () => {
    const user = await app().make.user();
    await admin().put('/application/settings', { updating_name_disabled_for_users: true });
    const refused = await app().as(user).put('/user', { name: 'Other' });
    expect(refused.status).toBe(403);
    const same = await app()
      .as(user)
      .put('/user', { name: `Name of ${user.username}`, bio: 'b' });
    expect(same.body.bio).toBe('b');
    expect((await admin().put(`/users/${user.id}`, { name: 'Given' })).body.name).toBe('Given');
    await admin().put('/application/settings', { updating_name_disabled_for_users: false });
    expect((await app().as(user).put('/user', { name: 'Other' })).body.name).toBe('Other');
  });

  it('requires a signed-in user with a token that may write', async () => {
    const user = await app().make.user();
    expect((await app().anonymous.put('/user', { bio: 'x' })).status).toBe(401);
    expect((await app().as(user, ['read_user']).put('/user', { bio: 'x' })).status).toBe(403);
    expect((await app().as(user).get('/user')).body.bio).toBe('');
  });
});
