import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { newSecret, sealSecret, totpOf } from '#domains/sign-in/two-factor.ts';
import { actorFor } from '#domains/tokens/authentication.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import { csrfToken } from '#platform/caller/csrf.ts';
import { type Actor, anonymous } from '#platform/context.ts';
import { makePerson, signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { readTree } from '../transfers/archive.ts';

const app = useApp();
/** The token of `root` has every scope, so it administers in admin mode too. */
const root = () => app().as(app().root);
const db = () => app().hub.services.db;
const ENTER = '/admin/session/new';
const SESSION = '/admin/session';

const set = async (settings: Record<string, unknown>) =>
  expect(await root().put('/application/settings', settings)).toMatchObject({ status: 200 });
beforeEach(() => set({ admin_mode: true }));
afterEach(() => set({ admin_mode: false }));

/** The rights of a session, by REST and by GraphQL. */
const asSession = async (value: string | undefined) => {
  const cookie = `millrace_session=${value}`;
  const csrf = csrfToken(app().hub.services.secretKey, value ?? '');
  const rest = await app().anonymous.get('/application/settings', { cookie });
  const query = '{ currentUser { username admin } applicationSettings { adminMode } }';
  const graphql = await app().anonymous.request('POST', '/api/graphql', { query }, { cookie, 'x-csrf-token': csrf });
  return [
    rest.status,
    graphql.body.data?.currentUser?.admin ?? null,
    graphql.body.data?.applicationSettings?.adminMode ?? null,
  ];
};
const ADMIN = [200, true, true];
const ORDINARY = [403, null, null];

const enter = async (visitor: Visitor, fields: Record<string, string> = {}, returnTo = '') => {
  await visitor.get(`${ENTER}?return_to=${encodeURIComponent(returnTo)}`);
  return visitor.submit(SESSION, { current_password: PASSWORD, ...fields });
};
const administrator = () => signedIn(app(), { is_admin: true });
const sessionsOf = (user: TestUser) =>
  db().selectFrom('sessions').select(['id', 'admin_until']).where('user_id', '=', user.id).execute();

describe('admin mode', () => {
  it('makes a session ordinary until its user authenticates again', async () => {
    const { visitor, user } = await administrator();
    await set({ admin_mode: false });
    expect((await asSession(visitor.session))[0]).toBe(200);
    await set({ admin_mode: true });
    expect(await asSession(visitor.session)).toEqual(ORDINARY);
    const refused = await app().anonymous.get('/application/settings', { cookie: visitor.cookieHeader });
    expect(refused.body.message).toContain('Admin mode is on.');
    expect((await app().anonymous.get('/user', { cookie: visitor.cookieHeader })).body).not.toHaveProperty('is_admin');

    expect((await visitor.get('/')).html).toContain(`href="${ENTER}"`);
    expect((await visitor.get('/admin/applications?page=1')).location).toBe(
      `${ENTER}?return_to=${encodeURIComponent('/admin/applications?page=1')}`,
    );
    await visitor.follow();
    const wrong = await visitor.submit(SESSION, { current_password: 'wrong' });
    expect([wrong.status, wrong.text]).toEqual([422, expect.stringContaining('The password or the code is wrong')]);
    expect(await asSession(visitor.session)).toEqual(ORDINARY);

    const stolen = visitor.session;
    const entered = await visitor.submit(SESSION, { current_password: PASSWORD });
    expect([entered.status, entered.location]).toEqual([303, '/admin/applications?page=1']);
    expect((await visitor.follow()).status).toBe(200);
    expect(await asSession(visitor.session)).toEqual(ADMIN);
    // A cookie that was stolen before is worth nothing now.
    expect(visitor.session).not.toBe(stolen);
    expect((await asSession(stolen))[0]).toBe(401);
    // The session is the same one, so the list of sessions shows one.
    expect(await sessionsOf(user)).toHaveLength(1);

    expect((await visitor.get('/')).text).toContain('You are in admin mode.');
    expect((await visitor.get(ENTER)).location).toBe('/');
    await visitor.get('/');
    expect((await visitor.submit('/admin/session/destroy')).location).toBe('/');
    expect(await asSession(visitor.session)).toEqual(ORDINARY);
    const events = await db()
      .selectFrom('events')
      .select(['kind', 'actor_id'])
      .where('kind', 'like', 'admin\\_mode.%')
      .where('actor_id', '=', user.id)
      .orderBy('id')
      .execute();
    expect(events.map(({ kind }) => kind)).toEqual(['admin_mode.entered', 'admin_mode.left']);
  });

  it('ends by itself, in the one session that entered it', async () => {
    const { visitor, user } = await administrator();
    const elsewhere = new Visitor(app().url);
    await elsewhere.signIn(user.username);
    await enter(visitor);
    expect([await asSession(visitor.session), await asSession(elsewhere.session)]).toEqual([ADMIN, ORDINARY]);
    const { data } = await app().as(user).graphql('{ currentUser { sessions { nodes { adminUntil } } } }');
    expect(
      data.currentUser.sessions.nodes.map(({ adminUntil }: { adminUntil: string | null }) => adminUntil !== null),
    ).toEqual([false, true]);
    const { rows } = await app().hub.services.pool.query(
      'select extract(epoch from admin_until - now()) / 3600 as hours from sessions where user_id = $1 and admin_until is not null',
      [user.id],
    );
    expect(Number(rows[0].hours)).toBeCloseTo(6, 1);
    await app().hub.services.pool.query(
      "update sessions set admin_until = now() - interval '1 second' where user_id = $1",
      [user.id],
    );
    expect(await asSession(visitor.session)).toEqual(ORDINARY);
  });

  it('asks for the second factor, each code once', async () => {
    const { visitor, user } = await administrator();
    const services = app().hub.services;
    const secret = newSecret();
    await db()
      .updateTable('users')
      .set({ two_factor_enabled: true, otp_secret: sealSecret({ services }, user.id, secret) })
      .where('id', '=', user.id)
      .execute();
    const code = totpOf({ services }, { username: user.username, secret }).generate();
    expect((await enter(visitor)).status).toBe(422);
    expect((await enter(visitor, { code: '000000' })).status).toBe(422);
    expect((await enter(visitor, { code, current_password: 'wrong' })).status).toBe(422);
    expect(await asSession(visitor.session)).toEqual(ORDINARY);
    expect((await enter(visitor, { code })).status).toBe(303);
    expect(await asSession(visitor.session)).toEqual(ADMIN);
    await visitor.get('/');
    await visitor.submit('/admin/session/destroy');
    expect((await enter(visitor, { code })).status).toBe(422);
  });

  it('locks out those who guess', async () => {
    const { visitor } = await administrator();
    const statuses: number[] = [];
    for (let n = 0; n < 11; n++) statuses.push((await enter(visitor, { current_password: `guess-${n}` })).status);
    expect([statuses[0], statuses.at(-1)]).toEqual([422, 429]);
    expect((await enter(visitor)).status).toBe(429);
    expect(await asSession(visitor.session)).toEqual(ORDINARY);
  });

  it('is refused to others, to other sites, and while it is off', async () => {
    const { visitor: ordinary } = await signedIn(app());
    expect((await ordinary.get(ENTER)).status).toBe(403);
    await ordinary.get('/');
    expect((await ordinary.post(SESSION, { current_password: PASSWORD })).status).toBe(403);
    expect(await asSession(ordinary.session)).toEqual(ORDINARY);
    const { visitor } = await administrator();
    await visitor.get(ENTER);
    expect((await visitor.post(SESSION, { current_password: PASSWORD, authenticity_token: 'forged' })).status).toBe(
      422,
    );
    for (const target of ['https://evil.example/', '//evil.example']) {
      await set({ admin_mode: true });
      expect((await enter(visitor, {}, target)).location).toBe('/');
      await visitor.get('/');
      await visitor.submit('/admin/session/destroy');
    }
    await set({ admin_mode: false });
    expect((await visitor.get(ENTER)).location).toBe('/');
    await visitor.get('/');
    expect((await visitor.post(SESSION, { current_password: PASSWORD })).location).toBe('/');
    await set({ admin_mode: true });
    expect(await asSession(visitor.session)).toEqual(ORDINARY);
    expect((await new Visitor(app().url).get(ENTER)).location).toContain('/users/sign_in');
  });
});

describe('a token in admin mode', () => {
  let admin: TestUser;
  let other: TestUser;
  beforeAll(async () => {
    admin = await makePerson(app(), { is_admin: true });
    other = await app().make.user();
  });
  const what = async (scopes: readonly string[], headers: Record<string, string> = {}) => {
    const client = app().as(admin, scopes);
    const { data } = await client.graphql('{ currentUser { admin } }');
    return [(await client.get('/application/settings', headers)).status, data?.currentUser.admin ?? null];
  };

  it('administers only with the scope admin_mode', async () => {
    expect(await what(['api'])).toEqual([403, null]);
    expect(await what(['api', 'admin_mode'])).toEqual([200, true]);
    expect(await what(['read_api', 'admin_mode'])).toEqual([200, true]);
    expect((await app().as(admin, ['api']).get('/application/settings')).body.message).toContain(
      'a token with the scope admin_mode',
    );
    await set({ admin_mode: false });
    expect(await what(['api'])).toEqual([200, true]);
  });

  it('acts as another user only with the scopes sudo and admin_mode', async () => {
    const path = `/user?sudo=${other.id}`;
    const refused = await app().as(admin, ['api', 'sudo']).get(path);
    expect([refused.status, refused.body]).toMatchObject([403, { error: 'insufficient_scope', scope: 'admin_mode' }]);
    expect((await app().as(admin, ['api', 'admin_mode']).get(path)).status).toBe(403);
    const both = ['api', 'sudo', 'admin_mode'];
    expect((await app().as(admin, both).get(path)).body.id).toBe(other.id);
    expect(
      (
        await app()
          .as(admin, both)
          .get('/application/settings', { sudo: String(other.id) })
      ).status,
    ).toBe(403);
    expect((await app().as(admin, both).get('/application/settings', { sudo: 'root' })).status).toBe(200);
  });

  it('counts for git too, and a password does not', async () => {
    const project = await app().make.project({ initialize_with_readme: true }, other);
    const clone = (username: string, password: string) =>
      fetch(`${app().url}/${project.path_with_namespace}.git/info/refs?service=git-upload-pack`, {
        headers: { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` },
      }).then(({ status }) => status);
    expect(await clone('oauth2', await app().tokenOf(admin, ['api', 'admin_mode']))).toBe(200);
    expect(await clone('oauth2', await app().tokenOf(admin, ['api']))).toBe(404);
    expect(await clone(admin.username, PASSWORD)).toBe(404);
    await set({ admin_mode: false });
    expect(await clone(admin.username, PASSWORD)).toBe(200);
  });

  it('cannot be had from a session that has not entered it', async () => {
    const visitor = new Visitor(app().url);
    await visitor.signIn(admin.username);
    const TOKENS = '/-/user_settings/personal_access_tokens';
    const create = async () => {
      await visitor.get(TOKENS);
      return visitor.submit(TOKENS, { name: 'x', 'scopes[]': ['api', 'admin_mode'] });
    };
    expect((await visitor.get(TOKENS)).html).not.toContain('value="admin_mode"');
    expect((await create()).status).toBe(422);
    const bySudo = await app()
      .as(admin, ['api', 'sudo'])
      .post(`/users/${admin.id}/personal_access_tokens`, { name: 'x', scopes: ['admin_mode'] });
    expect(bySudo.status).toBe(403);
    // Rotating a token shows its new value, so that would be another way in.
    const stored = {
      user_id: admin.id,
      name: 'old',
      scopes: ['api', 'admin_mode'],
      digest: Buffer.from(`old-${admin.id}`),
    };
    const { id } = await db()
      .insertInto('personal_access_tokens')
      .values(stored)
      .returning('id')
      .executeTakeFirstOrThrow();
    await visitor.get(TOKENS);
    const rotate = () => visitor.submit(`${TOKENS}/${id}/rotate`);
    expect((await rotate()).status).toBe(403);
    expect((await app().as(admin, ['api', 'sudo']).post(`/personal_access_tokens/${id}/rotate`)).status).toBe(403);
    await enter(visitor);
    expect((await create()).text).toContain('shown only once');
    await visitor.get(TOKENS);
    expect((await rotate()).text).toContain('shown only once');
  });

  it('is not needed for work that the hub goes on with, which has the roles of the user', async () => {
    const { services } = app().hub;
    expect(await actorFor(services, admin.id)).toMatchObject({ isAdmin: false, needsAdminMode: true });
    expect(await actorFor(services, other.id)).not.toHaveProperty('needsAdminMode');
    await set({ admin_mode: false });
    expect(await actorFor(services, admin.id)).toMatchObject({ isAdmin: true });
  });
});

describe('an export', () => {
  it('has the parts for administrators only if it was requested in admin mode', async () => {
    const admin = await makePerson(app(), { is_admin: true });
    const project = await app().make.project({}, admin);
    const attribute = await root().put(`/projects/${project.id}/custom_attributes/department`, { value: 'Mills' });
    expect(attribute.status).toBe(200);
    const exported = async (scopes: readonly string[]) => {
      expect((await app().as(admin, scopes).post(`/projects/${project.id}/export`)).status).toBe(202);
      await app().settle();
      const file = await app().as(admin, ['api', 'admin_mode']).fetch('GET', `/projects/${project.id}/export/download`);
      return 'custom_attributes' in (await readTree(Buffer.from(await file.arrayBuffer())));
    };
    expect(await exported(['api'])).toBe(false);
    expect(await exported(['api', 'admin_mode'])).toBe(true);
    const maintainer = await app().make.user();
    await app().make.projectMember(project, maintainer, 40);
    const download = () => app().as(maintainer).get(`/projects/${project.id}/export/download`);
    const refused = await download();
    expect([refused.status, refused.body.message]).toEqual([403, expect.stringContaining('Export the project again')]);
    expect(await exported(['api'])).toBe(false);
    expect((await download()).status).toBe(200);
  });
});

describe('a subscription', () => {
  it('ends when the rights of the administrator do', async () => {
    const { visitor, user } = await administrator();
    const { services } = app().hub;
    await enter(visitor);
    const [session] = await sessionsOf(user);
    const insert = async (scopes: string[]) =>
      (
        await db()
          .insertInto('personal_access_tokens')
          .values({ user_id: user.id, name: 'x', scopes, digest: Buffer.from(`${user.id}${scopes}`) })
          .returning('id')
          .executeTakeFirstOrThrow()
      ).id;
    const actor = (kind: 'token' | 'session', id: number, more: Partial<Actor> = {}): Actor => ({
      ...anonymous,
      userId: user.id,
      isAdmin: true,
      credential: { kind, id, holderId: user.id, originId: null },
      ...more,
    });
    const plain = await insert(['api']);
    const scoped = await insert(['api', 'admin_mode']);
    const actors = [
      actor('session', session?.id ?? 0),
      actor('token', plain),
      actor('token', plain, { isAdmin: false, needsAdminMode: true }),
      actor('token', scoped),
    ];
    const valid = async () => [...(await stillValid(services, actors))].sort();
    expect(await valid()).toEqual([0, 2, 3]);
    await visitor.get('/');
    await visitor.submit('/admin/session/destroy');
    expect(await valid()).toEqual([2, 3]);
    await set({ admin_mode: false });
    expect(await valid()).toEqual([0, 1, 3]);
  });
});

describe('an administrator without a second factor', () => {
  it('has to enrol one before admin mode, if the settings demand it', async () => {
    const { visitor } = await administrator();
    await set({ require_admin_two_factor_authentication: true, two_factor_grace_period: 0 });
    expect((await visitor.get(ENTER)).location).toBe('/-/user_settings/two_factor');
    await set({ require_admin_two_factor_authentication: false, two_factor_grace_period: 48 });
  });
});
