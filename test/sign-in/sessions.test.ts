import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { sweepSessions } from '#domains/sign-in/jobs.ts';
import { csrfToken } from '#platform/caller/csrf.ts';
import { makePerson, signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { untilBlocked } from '../support/locks.ts';
import { until } from '../support/until.ts';

const app = useApp();
const db = () => app().hub.services.db;
const SESSIONS = '/-/user_settings/active_sessions';

const sessionsOf = (user: { readonly id: number }) =>
  db().selectFrom('sessions').selectAll().where('user_id', '=', user.id).orderBy('id').execute();

const chrome = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140.0.0.0 Safari/537.36' };
const phone = {
  'user-agent': 'Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) Version/18.0 Mobile Safari/604.1',
};

describe('a session', () => {
  it('is stored only by the digest of its cookie', async () => {
    const { visitor, user } = await signedIn(app());
    const [row] = await sessionsOf(user);
    expect(JSON.stringify(row)).not.toContain(visitor.session);
    expect(row).toMatchObject({ ip: '127.0.0.1' });
    const events = await db()
      .selectFrom('events')
      .selectAll()
      .where('kind', '=', 'session.created')
      .where('subject_id', '=', row?.id ?? 0)
      .execute();
    expect(events).toMatchObject([
      { actor_id: user.id, user_ids: [user.id], payload: { user_id: user.id, ip: '127.0.0.1' } },
    ]);
    expect(JSON.stringify(events)).not.toContain(visitor.session);
  });

  it('does not start with a password that is changed at the same moment', async () => {
    const user = await makePerson(app());
    const browser = new Visitor(app().url);
    await app().settle();
    const { answer } = await db()
      .transaction()
      .execute(async (trx) => {
        await sql`update users set password_hash = 'another' where id = ${user.id}`.execute(trx);
        const answer = browser.signIn(user.username);
        await untilBlocked(app());
        return { answer };
      });
    expect(await answer).toMatchObject({
      status: 422,
      text: expect.stringContaining('Invalid login or password.'),
    });
    expect(await sessionsOf(user)).toEqual([]);
  });

  it('is listed for its user, who ends one or all others', async () => {
    const user = await makePerson(app());
    const browsers = [new Visitor(app().url, chrome), new Visitor(app().url, phone), new Visitor(app().url)] as const;
    for (const browser of browsers) await browser.signIn(user.username);
    const [first, second, third] = browsers;
    const shown = await first.get(SESSIONS);
    expect(shown.text).toContain('Chrome on Linux');
    expect(shown.text).toContain('Safari on iOS');
    expect(shown.html.match(/<em>This session<\/em>/g)).toHaveLength(1);
    expect(shown.html).toContain('aria-label="End the session of Safari on iOS at 127.0.0.1"');

    const [, ofSecond] = await sessionsOf(user);
    expect(await first.submit(`${SESSIONS}/${ofSecond?.id}/revoke`)).toMatchObject({ status: 303, location: SESSIONS });
    expect((await first.follow()).text).toContain('The session has ended.');
    expect((await second.get(SESSIONS)).status).toBe(303);
    expect((await third.get(SESSIONS)).status).toBe(200);

    await first.get(SESSIONS);
    await first.submit(`${SESSIONS}/revoke_others`);
    expect((await first.follow()).text).toContain('One other session has ended.');
    expect((await third.get(SESSIONS)).status).toBe(303);
    expect((await first.get(SESSIONS)).status).toBe(200);
  });

  it('is listed and ended by its user over GraphQL too', async () => {
    const user = await makePerson(app());
    const first = new Visitor(app().url, phone);
    await first.signIn(user.username);
    const second = new Visitor(app().url, chrome);
    await second.signIn(user.username);
    const [ofFirst] = await sessionsOf(user);
    const query = '{ currentUser { sessions { nodes { id ipAddress userAgent current } } } }';
    const ask = async (client: Client, headers: Record<string, string> = {}) =>
      (await client.post('/api/graphql', { query }, headers)).body.data.currentUser.sessions.nodes;
    expect(await ask(app().as(user))).toMatchObject([
      { userAgent: chrome['user-agent'], current: false },
      { id: `gid://gitlab/Session/${ofFirst?.id}`, userAgent: phone['user-agent'], ipAddress: '127.0.0.1' },
    ]);
    const csrf = csrfToken(app().hub.services.secretKey, second.session ?? '');
    const [own] = await ask(app().anonymous, { cookie: second.cookieHeader, 'x-csrf-token': csrf });
    expect(own.current).toBe(true);

    const revoke = (client: Client, id: string | null) =>
      client.graphql('mutation ($id: SessionID) { sessionRevoke(input: { id: $id }) { errors } }', { id });
    const stranger = await app().make.user();
    const refused = await revoke(app().as(stranger), `gid://gitlab/Session/${ofFirst?.id}`);
    const absent = await revoke(app().as(stranger), 'gid://gitlab/Session/999999999');
    expect(refused.data ?? refused.errors?.map(({ message }) => message)).toEqual(
      absent.data ?? absent.errors?.map(({ message }) => message),
    );
    expect(await sessionsOf(user)).toHaveLength(2);
    expect(
      (await revoke(app().anonymous, `gid://gitlab/Session/${ofFirst?.id}`)).data?.sessionRevoke ?? null,
    ).toBeNull();
    expect(await sessionsOf(user)).toHaveLength(2);
    expect((await revoke(app().as(user), `gid://gitlab/Session/${ofFirst?.id}`)).data.sessionRevoke.errors).toEqual([]);
    expect((await first.get('/')).status).toBe(303);
    expect((await second.get('/')).status).toBe(200);
    await revoke(app().as(user), null);
    expect((await second.get('/')).status).toBe(303);
  });

  it('cannot be ended by another user, and looks like a missing one', async () => {
    const { user } = await signedIn(app());
    const { visitor: stranger } = await signedIn(app());
    const [theirs] = await sessionsOf(user);
    await stranger.get(SESSIONS);
    const refused = await stranger.post(`${SESSIONS}/${theirs?.id}/revoke`);
    await stranger.get(SESSIONS);
    const absent = await stranger.post(`${SESSIONS}/999999999/revoke`);
    expect([refused.status, absent.status]).toEqual([404, 404]);
    expect(refused.text).toBe(absent.text);
    expect(await sessionsOf(user)).toHaveLength(1);
  });

  it('expires when it is unused for the time in the settings, and each use extends it', async () => {
    await app().as(app().root).put('/application/settings', { session_expire_delay: 60 });
    const { visitor, user } = await signedIn(app());
    const age = (minutes: number) =>
      sql`update sessions set last_used_at = last_used_at - make_interval(mins => ${minutes}),
        expires_at = expires_at - make_interval(mins => ${minutes}) where user_id = ${user.id}`.execute(db());
    await age(59);
    expect((await visitor.get('/')).status).toBe(200);
    await until('the use is noted', async () => {
      const { rows } = await sql<{ left: number }>`
        select extract(epoch from expires_at - now())::integer as left from sessions where user_id = ${user.id}`.execute(
        db(),
      );
      return (rows[0]?.left ?? 0) > 3_500;
    });
    await age(61);
    expect((await visitor.get('/')).status).toBe(303);
    expect(await sessionsOf(user)).toHaveLength(1);
    await sweepSessions.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    expect(await sessionsOf(user)).toHaveLength(0);
    await app().as(app().root).put('/application/settings', { session_expire_delay: 10_080 });
  });

  it('ends when the account is blocked, and when the password changes in another session', async () => {
    const { visitor, user } = await signedIn(app());
    const other = new Visitor(app().url);
    await other.signIn(user.username);
    await visitor.get('/-/user_settings/password');
    expect(
      await visitor.submit('/-/user_settings/password', {
        current_password: PASSWORD,
        password: 'another-password',
        password_confirmation: 'another-password',
      }),
    ).toMatchObject({ status: 303, location: '/-/user_settings/password' });
    expect((await visitor.follow()).text).toContain('Your password was changed');
    expect((await other.get('/')).status).toBe(303);
    expect((await other.signIn(user.username)).status).toBe(422);

    expect((await app().as(app().root).post(`/users/${user.id}/block`)).status).toBe(201);
    expect((await visitor.get('/')).location).toContain('/users/sign_in');
    // A blocked user can still read why.
    expect((await visitor.signIn(user.username, 'another-password')).text).toContain('Your account has been blocked.');
  });

  it('emits its own event when it ends, for every user who ends it', async () => {
    const ended = async (user: { readonly id: number }) =>
      db()
        .selectFrom('events')
        .select(['actor_id', 'subject_id', 'payload'])
        .where('kind', '=', 'session.revoked')
        .where(sql<boolean>`${user.id} = any (user_ids)`)
        .orderBy('id')
        .execute();
    const root = app().root;
    const blocked = await signedIn(app());
    await new Visitor(app().url).signIn(blocked.user.username);
    const rows = await sessionsOf(blocked.user);
    await app().as(root).post(`/users/${blocked.user.id}/block`);
    const payload = { user_id: blocked.user.id, ip: '127.0.0.1' };
    expect(await ended(blocked.user)).toMatchObject(
      rows.map(({ id }) => ({ actor_id: root.id, subject_id: id, payload: { id, ...payload } })),
    );

    const { user } = await signedIn(app());
    await app().as(root).put(`/users/${user.id}`, { password: 'another-password' });
    const emitted = await ended(user);
    expect(emitted).toMatchObject([{ actor_id: root.id, payload: { user_id: user.id } }]);
    expect(JSON.stringify(emitted)).not.toContain('digest');
    expect(await sessionsOf(user)).toEqual([]);
  });

  it('is reported by mail if it comes from a new address, unless that is turned off', async () => {
    const user = await makePerson(app(), { sign_in_count: 3, current_sign_in_ip: '192.0.2.7' });
    const mails = async () => {
      await app().settle();
      return readFile(join(app().hub.services.config.dataDir, 'mail.log'), 'utf8');
    };
    await new Visitor(app().url).signIn(user.username);
    const log = await mails();
    expect(log).toContain(`${user.username}@example.com`);
    expect(log).toContain('from an address that we have not seen before: 127.0.0.1');
    await new Visitor(app().url).signIn(user.username);
    expect(await mails()).toBe(log);

    await app().as(app().root).put('/application/settings', { notify_on_unknown_sign_in: false });
    const other = await makePerson(app(), { sign_in_count: 3, current_sign_in_ip: '192.0.2.7' });
    await new Visitor(app().url).signIn(other.username);
    expect(await mails()).toBe(log);
    await app().as(app().root).put('/application/settings', { notify_on_unknown_sign_in: true });
  });
});

describe('the session cookie on REST and GraphQL', () => {
  it('allows reading as the user, and writing only with the CSRF token', async () => {
    const { visitor, user } = await signedIn(app());
    const cookie = visitor.cookieHeader;
    const token = csrfToken(app().hub.services.secretKey, visitor.session ?? '');
    const { anonymous } = app();
    expect((await anonymous.get('/user', { cookie })).body.username).toBe(user.username);
    const project = { name: `by-cookie-${user.id}` };
    const wrongs: readonly Record<string, string>[] = [
      {},
      { 'x-csrf-token': 'wrong' },
      { 'x-csrf-token': csrfToken(app().hub.services.secretKey, 'x') },
    ];
    for (const wrong of wrongs) {
      expect((await anonymous.post('/projects', project, { cookie, ...wrong })).status).toBe(401);
    }
    expect((await anonymous.post('/projects', project, { cookie, 'x-csrf-token': token })).status).toBe(201);

    const ask = async (headers: Record<string, string>) =>
      (await anonymous.post('/api/graphql', { query: '{ currentUser { username } }' }, headers)).body.data.currentUser;
    expect(await ask({ cookie })).toBeNull();
    expect(await ask({ cookie, 'x-csrf-token': token })).toEqual({ username: user.username });

    await visitor.get('/');
    await visitor.submit('/users/sign_out');
    expect((await anonymous.get('/user', { cookie })).status).toBe(401);
  });
});
