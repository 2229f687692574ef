import { describe, expect, it } from 'vitest';
import { deactivateDormantUsers } from '#domains/users/jobs.ts';
import { moveUser } from '#domains/users/states.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;

const post = (id: number, verb: string) => admin().post(`/users/${id}/${verb}`);

const stateOf = async (id: number) =>
  (await db().selectFrom('users').select('state').where('id', '=', id).executeTakeFirst())?.state ?? null;

const eventsOf = async (id: number) =>
  db()
    .selectFrom('events')
    .select(['kind', 'actor_id', 'user_ids', 'payload'])
    .where('subject_type', '=', 'User')
    .where('subject_id', '=', id)
    .orderBy('id')
    .execute();

const kindsOf = async (id: number) => (await eventsOf(id)).map(({ kind }) => kind);

const startSession = async (user: TestUser) => {
  await db()
    .insertInto('sessions')
    .values({
      user_id: user.id,
      digest: digestToken(randomToken()),
      expires_at: new Date(Date.now() + 1e7).toISOString(),
    })
    .execute();
};

const sessionsOf = async (user: TestUser) =>
  (await db().selectFrom('sessions').select('id').where('user_id', '=', user.id).execute()).length;

describe('a change of state', () => {
  it.each([
    ['block', 'active', 'blocked'],
    ['block', 'deactivated', 'blocked'],
    ['block', 'blocked_pending_approval', 'blocked'],
    ['unblock', 'blocked', 'active'],
    ['ban', 'active', 'banned'],
    ['unban', 'banned', 'active'],
    ['activate', 'deactivated', 'active'],
    ['deactivate', 'active', 'deactivated'],
  ])('%s: from %s to %s', async (verb, from, to) => {
    const user = await app().make.user({ state: from });
    const { status, body } = await post(user.id, verb);
    expect([status, body]).toEqual([201, true]);
    expect(await stateOf(user.id)).toBe(to);
    const [event, ...more] = await eventsOf(user.id);
    expect(more).toEqual([]);
    expect(event).toMatchObject({
      kind: expect.stringMatching(/^user\.(un)?(blocked|banned|activated|deactivated)$/),
      actor_id: app().root.id,
      user_ids: [user.id],
      payload: { id: user.id, username: user.username, state: to },
    });
    expect((await admin().get(`/users/${user.id}`)).body.state).toBe(to);
  });

  it.each([
    ['block', 'ldap_blocked', 'LDAP blocked users cannot be modified by the API'],
    ['block', 'banned', 'Banned users cannot be modified by the API'],
    ['unblock', 'ldap_blocked', 'LDAP blocked users cannot be unblocked by the API'],
    ['unblock', 'deactivated', 'Deactivated users cannot be unblocked by the API'],
    ['ban', 'blocked', 'You cannot ban blocked users.'],
    ['ban', 'banned', 'You cannot ban banned users.'],
    ['unban', 'active', 'You cannot unban active users.'],
    ['activate', 'blocked', 'A blocked user must be unblocked to be activated'],
    ['activate', 'ldap_blocked', 'A blocked user must be unblocked to be activated'],
    ['deactivate', 'blocked', 'A blocked user cannot be deactivated by the API'],
    ['approve', 'active', 'The user you are trying to approve is not pending approval'],
    ['reject', 'blocked', 'User does not have a pending request'],
  ])('%s of a user who is %s is refused', async (verb, state, reason) => {
    const user = await app().make.user({ state });
    const { status, body } = await post(user.id, verb);
    expect([status, body]).toEqual([403, { message: `403 Forbidden - ${reason}` }]);
    expect(await stateOf(user.id)).toBe(state);
    expect(await eventsOf(user.id)).toEqual([]);
  });

  it.each([
    ['block', 'blocked', null],
    ['unblock', 'active', false],
    ['activate', 'active', true],
    ['deactivate', 'deactivated', true],
  ])('%s of a user who is %s already changes nothing and emits no event', async (verb, state, answer) => {
    const user = await app().make.user({ state });
    const { status, body } = await post(user.id, verb);
    expect([status, body]).toEqual([201, answer]);
    expect(await stateOf(user.id)).toBe(state);
    expect(await eventsOf(user.id)).toEqual([]);
  });

  it('requires an administrator', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    for (const verb of ['block', 'unblock', 'ban', 'unban', 'activate', 'deactivate', 'approve', 'reject', 'unlock']) {
      expect((await app().as(other).post(`/users/${user.id}/${verb}`)).status).toBe(403);
      expect((await app().as(user).post(`/users/${user.id}/${verb}`)).status).toBe(403);
      expect((await app().anonymous.post(`/users/${user.id}/${verb}`)).status).toBe(401);
      expect((await app().as(app().root, ['read_api']).post(`/users/${user.id}/${verb}`)).status).toBe(403);
      expect((await post(987_654_321, verb)).body).toEqual({ message: '404 User Not Found' });
      expect((await post(987_654_321, verb)).status).toBe(404);
      expect((await admin().post(`/users/me/${verb}`)).status).toBe(400);
    }
    expect(await stateOf(user.id)).toBe('active');
    expect(await eventsOf(user.id)).toEqual([]);
  });

  it("never closes the caller's own account or an internal one", async () => {
    const internal = await app().make.user({ user_type: 'ghost' });
    for (const [verb, word] of [
      ['block', 'blocked'],
      ['ban', 'banned'],
      ['deactivate', 'deactivated'],
    ] as const) {
      const own = await post(app().root.id, verb);
      expect([own.status, own.body.message]).toEqual([
        403,
        `403 Forbidden - The API initiating user cannot be ${word} by the API`,
      ]);
      const ghost = await post(internal.id, verb);
      expect([ghost.status, ghost.body.message]).toEqual([
        403,
        `403 Forbidden - An internal user cannot be ${word} by the API`,
      ]);
    }
    expect([await stateOf(app().root.id), await stateOf(internal.id)]).toEqual(['active', 'active']);
  });

  it('keeps one administrator when two block each other concurrently', async () => {
    // For this test, these two are the only administrators.
    const [left, right] = [await app().make.user({ is_admin: true }), await app().make.user({ is_admin: true })];
    const { root } = app();
    await db().updateTable('users').set({ is_admin: false }).where('id', '=', root.id).execute();
    try {
      const answers = await Promise.all([
        app().as(left).post(`/users/${right.id}/block`),
        app().as(right).post(`/users/${left.id}/block`),
      ]);
      expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
      expect([await stateOf(left.id), await stateOf(right.id)].sort()).toEqual(['active', 'blocked']);
    } finally {
      await db().updateTable('users').set({ is_admin: true }).where('id', '=', root.id).execute();
      await db().updateTable('users').set({ is_admin: false }).where('id', 'in', [left.id, right.id]).execute();
    }
  });

  it('applies once for twenty concurrent requests', async () => {
    const user = await app().make.user();
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(user.id, 'block')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]));
    expect(await kindsOf(user.id)).toEqual(['user.blocked']);
  });
});

describe('a closed account', () => {
  it.each([
    ['block', 'Your account has been blocked.'],
    ['ban', 'Your account has been banned.'],
    ['deactivate', 'Your account has been deactivated by your administrator.'],
  ])('is refused at once after %s, with its tokens and sessions', async (verb, reason) => {
    const user = await app().make.user();
    await startSession(user);
    const other = await app().make.user();
    await startSession(other);
    const token = await app().tokenOf(user);
    // Deactivate the user before any activity, which would prevent it.
    expect((await post(user.id, verb)).status).toBe(201);
    const client = app().as(user);
    for (const answer of [
      await client.get('/user'),
      await client.get('/version'),
      await client.post('/api/graphql', { query: '{ currentUser { id } }' }),
      await app().anonymous.get(`/user?private_token=${token}`),
    ]) {
      expect(answer.status).toBe(403);
      expect(JSON.stringify(answer.body)).toContain(reason);
    }
    expect(await sessionsOf(user)).toBe(0);
    expect(await sessionsOf(other)).toBe(1);
  });

  it('can use the same token once it is active again', async () => {
    const user = await app().make.user();
    await post(user.id, 'block');
    expect((await app().as(user).get('/user')).status).toBe(403);
    await post(user.id, 'unblock');
    expect((await app().as(user).get('/user')).status).toBe(200);
  });

  it("keeps the user's projects", async () => {
    const user = await app().make.user();
    const project = await app().make.project({}, user);
    await post(user.id, 'block');
    expect((await admin().get(`/projects/${project.id}`)).status).toBe(200);
  });
});

describe('deactivating', () => {
  it('is refused for a user with activity within the period in the settings', async () => {
    const about = async (days: number) => {
      const day = new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);
      return app().make.user({ last_activity_on: day });
    };
    const user = await about(80);
    const refused = await post(user.id, 'deactivate');
    expect([refused.status, refused.body.message]).toEqual([
      403,
      '403 Forbidden - The user you are trying to deactivate has been active in the past 90 days and cannot be deactivated',
    ]);
    expect(await stateOf(user.id)).toBe('active');
    expect((await post((await about(100)).id, 'deactivate')).status).toBe(201);
    const signedIn = await app().make.user({
      last_activity_on: '2020-01-01',
      current_sign_in_at: new Date().toISOString(),
    });
    expect((await post(signedIn.id, 'deactivate')).status).toBe(403);
  });

  it('happens automatically to dormant users if the settings say so', async () => {
    const { make } = app();
    const old = '2020-01-01';
    const ages = { created_at: '2020-01-01T00:00:00Z' };
    const dormant = await make.user({ ...ages, last_activity_on: old });
    const neverUsed = await make.user(ages);
    const spared = [
      await make.user({ ...ages, last_activity_on: new Date().toISOString().slice(0, 10) }),
      await make.user({ ...ages, last_activity_on: old, current_sign_in_at: new Date().toISOString() }),
      await make.user(),
      await make.user({ ...ages, last_activity_on: old, is_admin: true }),
      await make.user({ ...ages, last_activity_on: old, user_type: 'project_bot' }),
    ];
    const blocked = await make.user({ ...ages, last_activity_on: old, state: 'blocked' });
    await startSession(dormant);
    const run = () => deactivateDormantUsers.run(app().context(), {}, { attempt: 1, lastAttempt: false });
    await run();
    expect(await stateOf(dormant.id)).toBe('active');
    await admin().put('/application/settings', { deactivate_dormant_users: true });
    try {
      await run();
      await run();
    } finally {
      await admin().put('/application/settings', { deactivate_dormant_users: false });
    }
    for (const user of [dormant, neverUsed]) {
      expect(await stateOf(user.id)).toBe('deactivated');
      expect(await kindsOf(user.id)).toEqual(['user.deactivated']);
    }
    expect(await sessionsOf(dormant)).toBe(0);
    for (const user of spared) expect([user.id, await stateOf(user.id)]).toEqual([user.id, 'active']);
    expect(await stateOf(blocked.id)).toBe('blocked');
  });
});

describe('a user pending approval', () => {
  it('can sign in after approval', async () => {
    const user = await app().make.user({ state: 'blocked_pending_approval' });
    expect((await app().as(user).get('/user')).status).toBe(403);
    const { status, body } = await post(user.id, 'approve');
    expect([status, body]).toEqual([201, { message: 'Success' }]);
    expect((await app().as(user).get('/user')).status).toBe(200);
    expect(await kindsOf(user.id)).toEqual(['user.approved']);
  });

  it('is deleted when rejected', async () => {
    const user = await app().make.user({ state: 'blocked_pending_approval' });
    const { status, body } = await post(user.id, 'reject');
    expect([status, body]).toEqual([201, { message: 'Success' }]);
    expect(await stateOf(user.id)).toBeNull();
    expect(await kindsOf(user.id)).toEqual(['user.rejected', 'user.deleted']);
    expect((await post(user.id, 'reject')).status).toBe(404);
  });
});

describe('unlocking', () => {
  it('allows passwords again, and emits one event', async () => {
    const user = await app().make.user({
      failed_attempts: 10,
      locked_until: new Date(Date.now() + 600_000).toISOString(),
    });
    expect((await admin().get(`/users/${user.id}`)).body.locked).toBe(true);
    expect((await post(user.id, 'unlock')).body).toBe(true);
    expect((await post(user.id, 'unlock')).status).toBe(201);
    expect((await admin().get(`/users/${user.id}`)).body.locked).toBe(false);
    expect(await kindsOf(user.id)).toEqual(['user.unlocked']);
  });
});

describe('a change of state as a domain function', () => {
  it('requires an administrator, wherever it is called from', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    await expect(moveUser(app().context(other), user.id, 'block')).rejects.toMatchObject({ code: 'forbidden' });
    expect(await stateOf(user.id)).toBe('active');
  });
});
