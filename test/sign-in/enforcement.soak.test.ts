import { TOTP } from 'otpauth';
import { afterEach, describe, expect, it } from 'vitest';
import { signedIn, type Visitor } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const db = () => app().hub.services.db;
const PAGE = '/-/user_settings/two_factor';

const demand = (settings: Record<string, unknown>) => app().as(app().root).put('/application/settings', settings);

afterEach(async () => {
  await demand({ require_two_factor_authentication: false, require_admin_two_factor_authentication: false });
});

const graceIsOver = (user: TestUser) =>
  db()
    .updateTable('users')
    .set({ two_factor_grace_started_at: '2020-01-01T00:00:00Z' })
    .where('id', '=', user.id)
    .execute();

const enrol = async (visitor: Visitor): Promise<string> => {
  await visitor.get(PAGE);
  const secret = /<code id="otp-secret">([A-Z2-7 ]+)<\/code>/.exec(visitor.page.html)?.[1]?.replaceAll(' ', '') ?? '';
  await visitor.submit(PAGE, {
    change: 'enable',
    code: new TOTP({ secret }).generate(),
    current_password: PASSWORD,
  });
  return secret;
};

/** Returns the status that the session's cookie gets outside the pages. */
const statusOf = async (visitor: Visitor, path: string) =>
  (await fetch(app().url + path, { headers: { cookie: visitor.cookieHeader } })).status;

describe('a second factor required by the settings', () => {
  it('may wait for a grace period, which starts when it is first required', async () => {
    const { visitor, user } = await signedIn(app());
    await demand({ require_two_factor_authentication: true, two_factor_grace_period: 2 });
    expect(await visitor.get('/')).toMatchObject({ status: 200 });
    const { rows } = await app().hub.services.pool.query(
      "select now() - two_factor_grace_started_at < interval '1 minute' as begun from users where id = $1",
      [user.id],
    );
    expect(rows).toEqual([{ begun: true }]);
    const { text } = await visitor.get(PAGE);
    expect(text).toMatch(/requires a second factor\. Enable it before 20\d\d-\d\d-\d\d \d\d:\d\d UTC/);
    await graceIsOver(user);
    expect(await visitor.get('/')).toMatchObject({ status: 303, location: PAGE });
  });

  it('limits a session to the page to enrol and to signing out after the grace period', async () => {
    await demand({ require_two_factor_authentication: true, two_factor_grace_period: 0 });
    const { visitor } = await signedIn(app());
    for (const path of [
      '/',
      '/-/user_settings/password',
      '/-/user_settings/emails',
      '/-/user_settings/active_sessions',
    ]) {
      expect(await visitor.get(path)).toMatchObject({ status: 303, location: PAGE });
    }
    await visitor.get(PAGE);
    const { csrfToken } = visitor;
    const posted = { email: 'a@example.org', authenticity_token: csrfToken ?? '' };
    expect(await visitor.post('/-/user_settings/emails', posted)).toMatchObject({ status: 303, location: PAGE });
    expect(await statusOf(visitor, '/api/v4/user')).toBe(403);
    const graphql = await fetch(`${app().url}/api/graphql`, {
      method: 'POST',
      headers: { cookie: visitor.cookieHeader, 'content-type': 'application/json', 'x-csrf-token': csrfToken ?? '' },
      body: JSON.stringify({ query: '{ currentUser { username } }' }),
    });
    expect(await graphql.text()).not.toContain('"username"');
    await visitor.get(PAGE);
    expect(await visitor.submit('/users/sign_out')).toMatchObject({ status: 303 });
  });

  it('gives full access once it is enabled', async () => {
    await demand({ require_two_factor_authentication: true, two_factor_grace_period: 0 });
    const { visitor } = await signedIn(app());
    await enrol(visitor);
    expect(await visitor.get('/')).toMatchObject({ status: 200 });
    expect(await statusOf(visitor, '/api/v4/user')).toBe(200);
  });

  it('gives no new grace period to users who disable it, but one if an administrator does', async () => {
    await demand({ require_two_factor_authentication: true, two_factor_grace_period: 2 });
    const { visitor, user } = await signedIn(app());
    await visitor.get('/');
    await graceIsOver(user);
    const secret = await enrol(visitor);
    await visitor.get(PAGE);
    const code = new TOTP({ secret }).generate({ timestamp: Date.now() + 30_000 });
    await visitor.submit(PAGE, { change: 'disable', code, current_password: PASSWORD });
    expect(await visitor.get('/')).toMatchObject({ status: 303, location: PAGE });

    await enrol(visitor);
    expect(await app().as(app().root).patch(`/users/${user.id}/disable_two_factor`)).toMatchObject({ status: 204 });
    expect(await visitor.get('/')).toMatchObject({ status: 200 });
  });

  it('is not required of tokens', async () => {
    await demand({ require_two_factor_authentication: true, two_factor_grace_period: 0 });
    const user = await app().make.user();
    expect(await app().as(user).get('/user')).toMatchObject({ status: 200 });
  });

  it('can be required only of administrators', async () => {
    await demand({ require_admin_two_factor_authentication: true, two_factor_grace_period: 0 });
    const [administrator, other] = [await signedIn(app(), { is_admin: true }), await signedIn(app())];
    expect(await administrator.visitor.get('/')).toMatchObject({ status: 303, location: PAGE });
    expect(await other.visitor.get('/')).toMatchObject({ status: 200 });
  });
});

describe('a second factor required by a group', () => {
  it('applies to members of the group and its subgroups, with the shortest grace period', async () => {
    const { visitor, user } = await signedIn(app());
    const outsider = await signedIn(app());
    const group = await app().make.group({});
    const child = await app().make.group({ parent_id: group.id });
    await app().make.groupMember(child, user, 10);
    await graceIsOver(user);
    await graceIsOver(outsider.user);
    expect(await visitor.get('/')).toMatchObject({ status: 200 });
    const update = (changes: Record<string, unknown>) => app().as(app().root).put(`/groups/${group.id}`, changes);
    await update({ require_two_factor_authentication: true, two_factor_grace_period: 1_000_000 });
    expect(await visitor.get('/')).toMatchObject({ status: 200 });
    await update({ two_factor_grace_period: 1 });
    expect(await visitor.get('/')).toMatchObject({ status: 303, location: PAGE });
    expect(await outsider.visitor.get('/')).toMatchObject({ status: 200 });
    // Requests with a token are not a sign-in.
    expect((await app().as(user).get(`/groups/${child.id}`)).status).toBe(200);
  });
});
