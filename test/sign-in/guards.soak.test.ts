import { sql } from 'kysely';
import { Agent, fetch as fetchWith } from 'undici';
import { afterAll, describe, expect, it } from 'vitest';
import { verifyPassword } from '#domains/users/password.ts';
import { makePerson, Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';

const app = useApp();
const db = () => app().hub.services.db;
const visitor = () => new Visitor(app().url);
const set = (settings: Record<string, unknown>) => app().as(app().root).put('/application/settings', settings);

const elsewhere = new Agent({ localAddress: '127.0.0.2' });
afterAll(() => elsewhere.close());

const fail = async (login: string, times: number) => {
  const statuses: number[] = [];
  for (let n = 0; n < times; n++) statuses.push((await visitor().signIn(login, 'wrong')).status);
  return statuses;
};

/** Resets the rate limits of accounts and addresses. */
const letPass = async () => {
  await db().deleteFrom('rate_counts').execute();
};

/** Expects that a lock, set after the time `before`, lasts seven minutes and has `seconds` left now. */
const expectSevenMinutes = (seconds: number, before: number): void => {
  expect(Date.now() + seconds * 1_000).toBeGreaterThanOrEqual(before + 420_000);
  expect(seconds).toBeLessThanOrEqual(420);
};

describe('a guessed password', () => {
  it('locks the account for a while, even for the right password, and reports for how long', async () => {
    await set({ max_login_attempts: 3, failed_login_attempts_unlock_period_in_minutes: 7 });
    const user = await makePerson(app());
    const before = Date.now();
    expect(await fail(user.username, 3)).toEqual([422, 422, 422]);
    const locked = await visitor().signIn(user.username);
    const seconds = Number(locked.headers.get('retry-after'));
    const minutes = Math.ceil(seconds / 60);
    expect(locked).toMatchObject({ status: 429, text: expect.stringContaining(`Try again in ${minutes} minute`) });
    expectSevenMinutes(seconds, before);
    expect((await app().as(app().root).get(`/users/${user.id}`)).body).toMatchObject({ locked: true, state: 'active' });

    // Tokens still work, so that nobody can lock out another user's automation.
    expect((await app().as(user).get('/user')).status).toBe(200);

    await db()
      .updateTable('users')
      .set({ locked_until: new Date(Date.now() - 1_000).toISOString() })
      .where('id', '=', user.id)
      .execute();
    expect(await fail(user.username, 2)).toEqual([422, 422]);
    expect((await visitor().signIn(user.username)).status).toBe(303);
    // A successful sign-in resets the count.
    expect(await fail(user.username, 2)).toEqual([422, 422]);
    expect((await visitor().signIn(user.username)).status).toBe(303);
    await letPass();
  });

  it('gets the same answers for an unknown login as for any other', async () => {
    await set({ max_login_attempts: 3, failed_login_attempts_unlock_period_in_minutes: 7 });
    const before = Date.now();
    expect(await fail('nobody-at-all', 4)).toEqual([422, 422, 422, 429]);
    const { headers } = await visitor().signIn('NOBODY-at-all', 'wrong');
    expectSevenMinutes(Number(headers.get('retry-after')), before);
    await letPass();
  });

  it('is counted, and locks, as long for an unknown login as for an account', async () => {
    await set({ max_login_attempts: 3, failed_login_attempts_unlock_period_in_minutes: 7 });
    const user = await makePerson(app());
    const nobody = `nobody-${user.username}`;
    for (const login of [user.username, nobody]) expect(await fail(login, 2)).toEqual([422, 422]);
    await db().updateTable('rate_counts').set({ resets_at: sql`resets_at - interval '8 minutes'` }).execute();
    for (const login of [user.username, nobody]) {
      const before = Date.now();
      expect(await fail(login, 1)).toEqual([422]);
      const { status, headers } = await visitor().signIn(login, 'wrong');
      expect(status).toBe(429);
      expectSevenMinutes(Number(headers.get('retry-after')), before);
    }
    await letPass();
  });

  it.each([
    ['right', PASSWORD],
    ['wrong', 'wrong'],
  ])('gets no answer if it is %s but the account was locked while it waited to be checked', async (_, password) => {
    const user = await makePerson(app());
    const person = visitor();
    await person.get('/users/sign_in');
    const ahead = Array.from({ length: 40 }, () => verifyPassword(null, 'whatever'));
    const waiting = person.submit('/users/sign_in', { login: user.username, password });
    await db()
      .updateTable('users')
      .set({ locked_until: new Date(Date.now() + 60_000).toISOString() })
      .where('id', '=', user.id)
      .execute();
    expect((await waiting).status).toBe(429);
    await Promise.all(ahead);
  });

  it('locks out its address for all accounts, and no other address', async () => {
    await set({ max_login_attempts: 50, max_login_attempts_per_address: 4 });
    const user = await makePerson(app());
    for (const login of ['one', 'two', 'three', 'four']) await fail(login, 1);
    const refused = await visitor().signIn(user.username);
    expect([refused.status, Number(refused.headers.get('retry-after')) > 0]).toEqual([429, true]);

    const page = await fetchWith(`${app().url}/users/sign_in`, { dispatcher: elsewhere });
    const token = /name="authenticity_token" value="([^"]*)"/.exec(await page.text())?.[1] ?? '';
    const [cookie = ''] = page.headers.getSetCookie();
    const answer = await fetchWith(`${app().url}/users/sign_in`, {
      method: 'POST',
      dispatcher: elsewhere,
      redirect: 'manual',
      headers: { cookie: cookie.split(';')[0] ?? '' },
      body: new URLSearchParams({ authenticity_token: token, login: user.username, password: PASSWORD }),
    });
    expect(answer.status).toBe(303);
    await set({ max_login_attempts: 10, max_login_attempts_per_address: 50 });
    await letPass();
  });

  it('is also limited where the current password is needed to set a new one', async () => {
    await set({ max_login_attempts: 3 });
    const user = await makePerson(app());
    const person = visitor();
    await person.signIn(user.username);
    const change = async (current_password: string) => {
      await person.get('/-/user_settings/password');
      return person.submit('/-/user_settings/password', {
        current_password,
        password: 'another-password',
        password_confirmation: 'another-password',
      });
    };
    for (let n = 0; n < 3; n++) {
      expect(await change('wrong')).toMatchObject({
        status: 422,
        text: expect.stringContaining('Present password is not right'),
      });
    }
    expect((await change(PASSWORD)).status).toBe(429);
    await set({ max_login_attempts: 10 });
    await letPass();
  });
});
