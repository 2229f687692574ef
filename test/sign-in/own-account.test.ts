import { afterEach, describe, expect, it } from 'vitest';
import { settingsSchema } from '#domains/settings/registry.ts';
import { newSecret, sealSecret, totpOf } from '#domains/sign-in/two-factor.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { mailsTo } from '../support/mails.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;
const ACCOUNT = '/-/user_settings/account';

const changed: string[] = [];
const set = async (settings: Record<string, unknown>) => {
  changed.push(...Object.keys(settings));
  expect(await admin().put('/application/settings', settings)).toMatchObject({ status: 200 });
};
const defaults: Readonly<Record<string, unknown>> = settingsSchema.parse({});
afterEach(async () => {
  const names = changed.splice(0);
  if (names.length > 0) {
    await admin().put('/application/settings', Object.fromEntries(names.map((name) => [name, defaults[name]])));
  }
});

const exists = async (id: number) =>
  (await db().selectFrom('users').select('id').where('id', '=', id).executeTakeFirst()) !== undefined;
const remove = async (visitor: Visitor, fields: Record<string, string> = {}) => {
  await visitor.get(ACCOUNT);
  return visitor.submit(ACCOUNT, { current_password: PASSWORD, ...fields });
};

describe('deleting the own account', () => {
  it('takes the password, ends the session, and mails the user', async () => {
    const { visitor, user } = await signedIn(app());
    const project = await app().make.project({}, user);
    await visitor.get('/');
    expect(visitor.page.html).toContain(`href="${ACCOUNT}"`);
    expect((await remove(visitor, { current_password: 'wrong' })).status).toBe(422);
    expect((await visitor.post(ACCOUNT, { current_password: PASSWORD, authenticity_token: 'forged' })).status).toBe(
      422,
    );
    expect(await exists(user.id)).toBe(true);
    expect(await remove(visitor)).toMatchObject({ status: 303, location: '/users/sign_in' });
    expect((await visitor.follow()).text).toContain('Your account was deleted.');
    expect(await exists(user.id)).toBe(false);
    expect((await admin().get(`/projects/${project.id}`)).status).toBe(404);
    expect(await new Visitor(app().url).signIn(user.username)).toMatchObject({ status: 422 });
    expect((await mailsTo(app(), `${user.username}@example.com`)).at(-1)?.subject).toBe('Your account was deleted');
    const events = await db()
      .selectFrom('events')
      .select('actor_id')
      .where('kind', '=', 'user.deleted')
      .where('subject_id', '=', user.id)
      .execute();
    expect(events).toEqual([{ actor_id: user.id }]);
  });

  it('takes a code too, if the account has a second factor', async () => {
    const { visitor, user } = await signedIn(app());
    const { services } = app().hub;
    const secret = newSecret();
    await db()
      .updateTable('users')
      .set({ two_factor_enabled: true, otp_secret: sealSecret({ services }, user.id, secret) })
      .where('id', '=', user.id)
      .execute();
    expect((await remove(visitor)).status).toBe(422);
    expect(await exists(user.id)).toBe(true);
    const code = totpOf({ services }, { username: user.username, secret }).generate();
    expect((await remove(visitor, { code })).status).toBe(303);
    expect(await exists(user.id)).toBe(false);
  });

  it('is refused to the only owner of a group, with the reason', async () => {
    const { visitor, user } = await signedIn(app());
    await app().make.group({}, user);
    const { status, text } = await remove(visitor);
    expect([status, text]).toEqual([409, expect.stringContaining('sole-owner of a group')]);
    expect(await exists(user.id)).toBe(true);
  });

  it('can be left to administrators', async () => {
    const { visitor, user } = await signedIn(app());
    await visitor.get(ACCOUNT);
    await set({ allow_account_deletion: false });
    const posted = await visitor.submit(ACCOUNT, { current_password: PASSWORD });
    expect(posted.status).toBe(403);
    expect((await visitor.get(ACCOUNT)).text).toContain('Only administrators can delete accounts on this hub.');
    expect(visitor.page.html).not.toContain(`action="${ACCOUNT}"`);
    expect(await exists(user.id)).toBe(true);
  });
});

describe('a deactivated user', () => {
  it('gets a mail, unless the setting is off or the address is unconfirmed', async () => {
    const mailed = async (attributes: Parameters<ReturnType<typeof app>['make']['user']>[0] = {}) => {
      const user = await app().make.user(attributes);
      expect((await admin().post(`/users/${user.id}/deactivate`)).status).toBe(201);
      return (await mailsTo(app(), `${user.username}@example.com`)).map(({ subject }) => subject);
    };
    expect(await mailed()).toEqual(['Your account was deactivated']);
    expect(await mailed({ confirmed_at: null })).toEqual([]);
    await set({ user_deactivation_emails_enabled: false });
    expect(await mailed()).toEqual([]);
  });
});

describe('the start page', () => {
  it('sends anonymous visitors to home_page_url, and users nowhere', async () => {
    const stranger = new Visitor(app().url);
    const { visitor } = await signedIn(app());
    expect((await stranger.get('/')).location).toBe('/users/sign_in?return_to=%2F');
    await set({ home_page_url: 'https://about.example.org/hub' });
    expect(await stranger.get('/')).toMatchObject({ status: 303, location: 'https://about.example.org/hub' });
    expect((await visitor.get('/')).status).toBe(200);
    await set({ home_page_url: `${app().url}/` });
    expect((await stranger.get('/')).location).toBe('/users/sign_in?return_to=%2F');
  });
});

describe('a new user', () => {
  it('gets the language and first day of the week of the settings', async () => {
    const create = async (username: string) => {
      const sent = { username, email: `${username}@example.org`, name: username, password: PASSWORD };
      const { body } = await admin().post('/users', sent);
      const own = await app().as({ id: body.id, username }).get('/user');
      const { data } = await app()
        .as({ id: body.id, username })
        .graphql('{ currentUser { preferredLanguage firstDayOfWeek } }');
      expect(data.currentUser).toEqual({
        preferredLanguage: body.preferred_language,
        firstDayOfWeek: body.first_day_of_week,
      });
      return [own.body.preferred_language, own.body.first_day_of_week];
    };
    expect(await create('speaks-english')).toEqual(['en', 0]);
    await set({ default_preferred_language: 'pt_BR', first_day_of_week: 1 });
    expect(await create('speaks-portuguese')).toEqual(['pt_BR', 1]);
    await set({ default_preferred_language: 'de' });
    expect((await admin().get('/users?username=speaks-portuguese')).body[0]).toMatchObject({
      preferred_language: 'pt_BR',
    });
  });

  it('can choose another language and first day, and so can administrators for them', async () => {
    const user = await app().make.user();
    const own = app().as(user);
    const changed = { preferred_language: 'fr', first_day_of_week: 6 };
    expect(await own.put('/user', changed)).toMatchObject({ status: 200, body: changed });
    const byGraphql = 'mutation ($i: ProfileUpdateInput!) { profileUpdate(input: $i) { errors } }';
    const input = { preferredLanguage: 'de', firstDayOfWeek: 1 };
    expect((await own.graphql(byGraphql, { i: input })).data.profileUpdate.errors).toEqual([]);
    expect((await own.get('/user')).body).toMatchObject({ preferred_language: 'de', first_day_of_week: 1 });
    for (const [given, problem] of [
      [{ preferred_language: 'English' }, { preferred_language: ['is not a language such as en or pt_BR'] }],
      [{ first_day_of_week: 2 }, { first_day_of_week: ['is invalid'] }],
    ]) {
      expect(await own.put('/user', given)).toMatchObject({ status: 400, body: { message: problem } });
    }
    const at = `/users/${user.id}`;
    expect((await admin().put(at, { preferred_language: 'en' })).body).toMatchObject({ preferred_language: 'en' });
    expect(
      (
        await app()
          .as(await app().make.user())
          .put(at, changed)
      ).status,
    ).toBe(403);
    expect((await own.get('/user')).body).toMatchObject({ preferred_language: 'en', first_day_of_week: 1 });
  });
});
