import { afterEach, describe, expect, it } from 'vitest';
import { settingsSchema } from '#domains/settings/registry.ts';
import { emailProblems } from '#domains/users/accounts/email-rules.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { computedMs } from '../support/computed-ms.ts';
import { linkTo, mailsTo } from '../support/mails.ts';

const app = useApp();
const admin = () => app().as(app().root);

let made = 0;
const fresh = () => {
  made += 1;
  return { email: `created${made}@example.com`, name: `Created ${made}`, username: `created-${made}` };
};
const create = (attributes: Record<string, unknown>) => admin().post('/users', { ...fresh(), ...attributes });

const secretsOf = (id: number) =>
  app()
    .hub.services.db.selectFrom('users')
    .select(['password_hash', 'password_change_required', 'confirmed_at', 'timezone'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();

const changed: string[] = [];
const set = async (settings: Record<string, unknown>) => {
  changed.push(...Object.keys(settings));
  const { status, body } = await admin().put('/application/settings', settings);
  expect([status, body]).toMatchObject([200, {}]);
};
const defaults: Readonly<Record<string, unknown>> = settingsSchema.parse({});
afterEach(async () => {
  const names = changed.splice(0);
  if (names.length === 0) return;
  await admin().put('/application/settings', Object.fromEntries(names.map((name) => [name, defaults[name]])));
});

describe('the password of a new user', () => {
  it('requires one of three parameters', async () => {
    for (const none of [
      {},
      { reset_password: false },
      { force_random_password: false },
      { reset_password: false, force_random_password: 'false' },
    ]) {
      const { status, body } = await create(none);
      expect([status, Object.keys(body.message)]).toEqual([400, ['password']]);
    }
    expect((await create({ password: PASSWORD, reset_password: false, force_random_password: false })).status).toBe(
      201,
    );
  });

  it('is replaced by a generated one with either flag', async () => {
    for (const flags of [
      { reset_password: true },
      { force_random_password: true },
      { reset_password: true, force_random_password: true },
      { reset_password: true, force_random_password: false },
    ]) {
      // With a flag, even an invalid password is ignored.
      const { status, body } = await create({ ...flags, password: 'x' });
      expect(status).toBe(201);
      const { password_hash } = await secretsOf(body.id);
      expect(password_hash).toMatch(/^\$argon2id\$/);
    }
  });

  it('is set by the user through a mail on request', async () => {
    const { body } = await create({ reset_password: true, skip_confirmation: true });
    const link = await linkTo(app(), body.email, '/users/password/edit');
    expect(link).toMatch(/\?reset_password_token=[\w-]{20,}$/);
    const other = await create({ force_random_password: true, skip_confirmation: true });
    expect(await mailsTo(app(), other.body.email)).toEqual([]);
  });
});

describe('the address of a new user', () => {
  it('has to be confirmed, unless that is skipped', async () => {
    const { body } = await create({ password: PASSWORD });
    expect(body.confirmed_at).toBeNull();
    expect(await linkTo(app(), body.email, '/users/confirmation')).toMatch(/\?confirmation_token=[\w-]{20,}$/);
    const sure = await create({ password: PASSWORD, skip_confirmation: 'true' });
    expect(sure.body.confirmed_at).toMatch(/Z$/);
    expect(await mailsTo(app(), sure.body.email)).toEqual([]);
  });

  it('is shown in the profile and in commits only when it is confirmed', async () => {
    const { email, ...rest } = fresh();
    for (const name of ['public_email', 'commit_email']) {
      const refused = await admin().post('/users', { ...rest, email, password: PASSWORD, [name]: email });
      expect(refused.body).toEqual({ message: { [name]: ['is not a confirmed address of the user'] } });
    }
    expect((await admin().get(`/users?username=${rest.username}`)).body).toEqual([]);
    const input = { ...rest, email, password: PASSWORD, skip_confirmation: true };
    const { body } = await admin().post('/users', { ...input, public_email: email, commit_email: '_private' });
    expect(body.public_email).toBe(email);
    expect(body.commit_email).toBe(`${body.id}-${body.username}@users.noreply.127.0.0.1`);
  });

  it("cannot be another user's confirmed secondary address", async () => {
    const user = await app().make.user();
    const { db } = app().hub.services;
    const email = `second-of-${user.username}@example.com`;
    await db.insertInto('emails').values({ user_id: user.id, email, confirmed_at: null }).execute();
    const before = await create({ email, password: PASSWORD });
    expect(before.status).toBe(201);
    const other = `sure-of-${user.username}@example.com`;
    await db.insertInto('emails').values({ user_id: user.id, email: other, confirmed_at: '2024-01-01' }).execute();
    const { status, body } = await create({ email: other.toUpperCase(), password: PASSWORD });
    expect([status, body]).toEqual([409, { message: 'Email has already been taken' }]);
  });

  it('has to match the domains and the expression in the settings', async () => {
    await set({ domain_allowlist: ['example.com', '*.example.org'] });
    expect((await create({ email: 'a@else.test', password: PASSWORD })).body).toEqual({
      message: { email: ['domain is not authorized for sign-up.'] },
    });
    expect((await create({ email: 'one@mail.EXAMPLE.org', password: PASSWORD })).status).toBe(201);
    expect((await create({ email: 'two@example.org', password: PASSWORD })).status).toBe(400);
    await set({ domain_allowlist: [], domain_denylist: ['bad.test'] });
    expect((await create({ email: 'three@bad.test', password: PASSWORD })).status).toBe(201);
    await set({ domain_denylist_enabled: true });
    expect((await create({ email: 'four@bad.test', password: PASSWORD })).status).toBe(400);
    expect((await create({ email: 'four@notbad.test', password: PASSWORD })).status).toBe(201);
    await set({ email_restrictions_enabled: true, email_restrictions: '@spam\\.test$|\\+' });
    expect((await create({ email: 'a+b@example.com', password: PASSWORD })).body).toEqual({
      message: { email: ['is not allowed for sign-up.'] },
    });
    expect((await create({ email: 'ab@example.com', password: PASSWORD })).status).toBe(201);
  });

  it('is matched in linear time, by RE2 expressions', async () => {
    const bad = await admin().put('/application/settings', { email_restrictions: '(a)\\1' });
    expect([bad.status, bad.body]).toEqual([400, { message: { email_restrictions: ['is not a regular expression'] } }]);
    const settings = settingsSchema.parse({ email_restrictions_enabled: true, email_restrictions: '^(a+)+$' });
    const started = computedMs();
    expect(emailProblems(settings, `${'a'.repeat(60)}!@${'a'.repeat(180)}.test`)).toEqual([]);
    expect(computedMs() - started).toBeLessThan(1_000);
  });
});

describe('a setting for new users', () => {
  it('applies if the administrator gives no value', async () => {
    await set({
      user_defaults_to_private_profile: true,
      can_create_group: false,
      default_projects_limit: 2,
      user_default_external: true,
      user_default_internal_regex: '@inside\\.test$',
    });
    const { body } = await create({ password: PASSWORD });
    expect(body).toMatchObject({
      private_profile: true,
      can_create_group: false,
      projects_limit: 2,
      external: true,
      bio: '',
      shared_runners_minutes_limit: null,
    });
    expect((await create({ password: PASSWORD, email: 'x@INSIDE.test' })).body.external).toBe(false);
    const said = await create({
      password: PASSWORD,
      private_profile: false,
      can_create_group: true,
      projects_limit: 5,
      external: false,
      shared_runners_minutes_limit: 0,
    });
    expect(said.body).toMatchObject({
      private_profile: false,
      can_create_group: true,
      projects_limit: 5,
      external: false,
      shared_runners_minutes_limit: 0,
    });
    expect((await create({ password: PASSWORD, private_profile: null })).body.private_profile).toBe(true);
    expect((await create({ password: PASSWORD, private_profile: '' })).body.private_profile).toBe(true);
  });
});

describe('an identity', () => {
  it('is stored with the user, and shown to administrators', async () => {
    const { body } = await create({ password: PASSWORD, provider: 'ldapmain', extern_uid: 'cn=one' });
    expect(body.identities).toEqual([{ provider: 'ldapmain', extern_uid: 'cn=one' }]);
    const taken = await create({ password: PASSWORD, provider: 'ldapmain', extern_uid: 'cn=one' });
    expect([taken.status, taken.body]).toEqual([409, { message: 'Extern uid has already been taken' }]);
    const alike = await create({ password: PASSWORD, provider: 'ldapmain', extern_uid: 'CN = One' });
    expect([alike.status, alike.body]).toEqual([409, { message: 'Extern uid has already been taken' }]);
    const again = await admin().put(`/users/${body.id}`, { provider: 'ldapmain', extern_uid: 'CN=One' });
    expect(again.body.identities).toEqual([{ provider: 'ldapmain', extern_uid: 'CN=One' }]);
    const found = await admin().get('/users?extern_uid=cn%3Done&provider=ldapmain');
    expect(found.body.map((user: { id: number }) => user.id)).toEqual([body.id]);
  });

  it.each([
    ['ldapmain', 'UID=Two, DC=Example', ['UID=Two, DC=Example', 'uid=two,dc=example'], ['uid=three,dc=example']],
    ['scim', 'two', ['two'], ['Two']],
    ['saml', 'Two', ['Two'], ['two']],
  ])('of %s is found by its name as it was given', async (provider, extern_uid, good, bad) => {
    const { body } = await create({ password: PASSWORD, provider, extern_uid });
    const found = async (name: string) => {
      const query = new URLSearchParams({ provider, extern_uid: name });
      return (await admin().get(`/users?${query}`)).body.map((user: { id: number }) => user.id);
    };
    for (const name of good) expect(await found(name)).toEqual([body.id]);
    for (const name of bad) expect(await found(name)).toEqual([]);
  });

  it('shows the SAML provider of its group', async () => {
    const group = await app().make.group();
    const { body } = await create({ password: PASSWORD, group_id_for_saml: group.id, extern_uid: 'nameid' });
    expect(body.identities).toEqual([{ provider: 'group_saml', extern_uid: 'nameid', saml_provider_id: group.id }]);
    const found = await admin().get(`/users?saml_provider_id=${group.id}`);
    expect(found.body.map((user: { id: number }) => user.id)).toEqual([body.id]);
  });

  it.each([
    [{ group_id_for_saml: 999_999_999, extern_uid: 'x' }, 'group_id_for_saml'],
    [{ group_id_for_saml: 1 }, 'group_id_for_saml'],
    [{ group_id_for_saml: 1, extern_uid: 'x', provider: 'ldapmain' }, 'provider'],
    [{ extern_uid: 'x', provider: 'group_saml' }, 'group_id_for_saml'],
    [{ extern_uid: 'x' }, 'extern_uid'],
    [{ extern_uid: '', provider: 'ldapmain' }, 'extern_uid'],
    [{ extern_uid: 'x', provider: ' ' }, 'provider'],
  ])('cannot be %j', async (wrong, name) => {
    const { status, body } = await create({ password: PASSWORD, ...wrong });
    expect([status, Object.keys(body.message)]).toEqual([400, [name]]);
  });

  it('emits events with only its provider when it is set, replaced and deleted', async () => {
    const { body } = await create({ password: PASSWORD });
    const set = (extern_uid: string) => admin().put(`/users/${body.id}`, { provider: 'saml', extern_uid });
    await set(`first${made}`);
    await set(`second${made}`);
    await admin().delete(`/users/${body.id}/identities/saml`);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['user_ids', 'payload'])
      .where('kind', '=', 'user.updated')
      .where('subject_id', '=', body.id)
      .orderBy('id')
      .execute();
    expect(events).toMatchObject(
      [
        { previous: null, current: 'saml' },
        { previous: 'saml', current: 'saml' },
        { previous: 'saml', current: null },
      ].map((identity) => ({ user_ids: [body.id], payload: { changes: { identity } } })),
    );
    expect(JSON.stringify(events)).not.toContain(`second${made}`);
  });

  it('is deleted by administrators, one provider at a time', async () => {
    const { body } = await create({ password: PASSWORD, provider: 'saml', extern_uid: `s${made}` });
    await admin().put(`/users/${body.id}`, { provider: 'ldapmain', extern_uid: `l${made}` });
    const path = `/users/${body.id}/identities/saml`;
    const user = await app().make.user();
    expect((await app().as(user).delete(path)).status).toBe(403);
    expect((await app().as({ id: body.id, username: body.username }).delete(path)).status).toBe(403);
    expect((await app().anonymous.delete(path)).status).toBe(401);
    const { status } = await admin().delete(path);
    expect(status).toBe(204);
    const again = await admin().delete(path);
    expect([again.status, again.body]).toEqual([404, { message: '404 Identity Not Found' }]);
    expect((await admin().delete('/users/999999999/identities/saml')).status).toBe(404);
    expect((await admin().get(`/users/${body.id}`)).body.identities).toEqual([
      { provider: 'ldapmain', extern_uid: `l${made}` },
    ]);
  });
});

describe('a parameter of a new user', () => {
  it('changes nothing if it is not part of the API', async () => {
    const { status, body } = await create({
      password: PASSWORD,
      id: 4_711,
      is_admin: true,
      state: 'blocked',
      user_type: 'ghost',
      password_hash: 'x',
      confirmed_at: '2020-01-01',
      created_by_id: 1,
      timezone: 'Europe/Paris',
      sign_in_count: 9,
    });
    expect(status).toBe(201);
    expect(body).toMatchObject({ is_admin: false, state: 'active', bot: false, confirmed_at: null, sign_in_count: 0 });
    expect(body.id).not.toBe(4_711);
    expect((await secretsOf(body.id)).timezone).toBeNull();
  });

  it('requires its exact type', async () => {
    for (const email of [['a@example.com'], { $ne: '' }, [['a@example.com']]]) {
      expect((await create({ email, password: PASSWORD })).body).toEqual({
        error: 'email is invalid (allowed: a string)',
      });
    }
    for (const name of ['email[]', 'email']) {
      const twice = new URLSearchParams([
        ['name', 'x'],
        ['username', 'twice-named'],
        ['password', PASSWORD],
        [name, 'a@example.com'],
        [name, 'b@example.com'],
      ]);
      expect((await admin().post('/users', twice)).status).toBe(400);
    }
    expect((await admin().get('/users?username=twice-named')).body).toEqual([]);
  });
});
