import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { daysAfter } from '#domains/tokens/model.ts';
import { digestToken } from '#platform/secrets.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { untilBlocked } from '../support/locks.ts';

const app = useApp();
const today = () => new Date().toISOString().slice(0, 10);
const admin = (...scopes: string[]) => app().as(app().root, scopes.length > 0 ? scopes : undefined);

const made = async (user: TestUser, scopes = ['api']) =>
  (await admin('api', 'sudo').post(`/users/${user.id}/personal_access_tokens`, { name: 'turning', scopes })).body;
const withToken = (token: string) => ({ 'private-token': token });
const reads = async (token: string) => (await app().anonymous.get('/user', withToken(token))).status;

describe('rotating a token', () => {
  it('revokes the token and returns a new one with its name and scopes, valid for a week', async () => {
    const user = await app().make.user();
    const old = await made(user, ['api', 'read_user']);
    const { status, body } = await app().as(user).post(`/personal_access_tokens/${old.id}/rotate`);
    expect([status, body]).toMatchObject([
      201,
      { name: 'turning', scopes: ['api', 'read_user'], user_id: user.id, active: true, revoked: false },
    ]);
    expect(body.id).not.toBe(old.id);
    expect(body.expires_at).toBe(daysAfter(today(), 7));
    expect([await reads(old.token), await reads(body.token)]).toEqual([401, 200]);
  });

  it('accepts the token in use, which needs only self_rotate, and a given expiry', async () => {
    const user = await app().make.user();
    const old = await made(user, ['self_rotate']);
    const expires_at = daysAfter(today(), 30);
    const rotate = (token: string, body = {}) =>
      app().anonymous.post('/personal_access_tokens/self/rotate', body, withToken(token));
    const { status, body } = await rotate(old.token, { expires_at });
    expect([status, body.expires_at]).toEqual([201, expires_at]);
    for (const [wrong, problem] of [
      [daysAfter(today(), 400), 'must be on or before'],
      [daysAfter(today(), -1), 'cannot be a date in the past'],
    ]) {
      const refused = await rotate(body.token, { expires_at: wrong });
      expect([refused.status, refused.body.message.expires_at[0]]).toEqual([
        400,
        expect.stringContaining(`${problem}`),
      ]);
    }
    const narrow = await made(user, ['read_api']);
    expect(await rotate(narrow.token)).toMatchObject({ status: 403, body: { scope: 'api self_rotate' } });
  });

  it('revokes the whole family when a rotated token is used to rotate again', async () => {
    const user = await app().make.user();
    const first = await made(user);
    const rotate = (token: string, which: number | string = 'self') =>
      app().anonymous.post(`/personal_access_tokens/${which}/rotate`, {}, withToken(token));
    const second = (await rotate(first.token)).body;
    const third = (await rotate(second.token)).body;
    const other = await made(user);
    // Reading with the rotated token is an ordinary error.
    expect([await reads(first.token), await reads(third.token)]).toEqual([401, 200]);
    expect(await rotate(first.token, first.id)).toMatchObject({ status: 401, body: { error: 'invalid_token' } });
    expect([await reads(third.token), await reads(other.token)]).toEqual([401, 200]);
    // A token that was only revoked does not revoke others.
    const fresh = (await rotate(other.token)).body;
    await app().as(user).delete(`/personal_access_tokens/${fresh.id}`);
    const apart = await made(user);
    expect((await rotate(fresh.token)).status).toBe(401);
    expect(await reads(apart.token)).toBe(200);
  });

  it('leaves no token of a revoked family that was being rotated', async () => {
    const user = await app().make.user();
    const first = await made(user);
    const rotate = (token: string) => app().anonymous.post('/personal_access_tokens/self/rotate', {}, withToken(token));
    const second = (await rotate(first.token)).body;
    await app().settle();
    const { db } = app().hub.services;
    const [third, refused] = await db.transaction().execute(async (trx) => {
      // Holds up the rotation right before its commit.
      await sql`lock table events in share mode`.execute(trx);
      const rotation = rotate(second.token);
      await untilBlocked(app());
      const reuse = rotate(first.token);
      await untilBlocked(app(), 2);
      return [rotation, reuse].map((answer) => ({ answer }));
    });
    expect((await refused?.answer)?.status).toBe(401);
    const { status, body } = (await third?.answer) ?? { status: 0, body: null };
    expect(status).toBe(201);
    expect(await reads(body.token)).toBe(401);
  });

  it('succeeds once for concurrent requests', async () => {
    const user = await app().make.user();
    const old = await made(user);
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => app().as(user).post(`/personal_access_tokens/${old.id}/rotate`)),
    );
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(5);
  });

  it('is refused to other users, and to callers who would gain scopes', async () => {
    const user = await app().make.user();
    const old = await made(user);
    const stranger = await app().make.user();
    const path = `/personal_access_tokens/${old.id}/rotate`;
    expect((await app().as(stranger).post(path)).status).toBe(404);
    expect((await app().anonymous.post(path)).status).toBe(401);
    expect((await app().as(user, ['read_api']).post(path)).status).toBe(403);
    expect((await app().as(user).post('/personal_access_tokens/99999999/rotate')).status).toBe(404);
    const powerful = await made(app().root, ['api', 'sudo']);
    const taken = await admin('api', 'read_user').post(`/personal_access_tokens/${powerful.id}/rotate`);
    expect([taken.status, taken.body.token]).toEqual([403, undefined]);
    expect([await reads(old.token), await reads(powerful.token)]).toEqual([200, 200]);
    const bySudo = await app().anonymous.post(
      `/personal_access_tokens/self/rotate?sudo=${user.id}`,
      {},
      withToken(powerful.token),
    );
    expect(bySudo.status).toBe(403);
    expect((await admin('api', 'sudo').post(path)).status).toBe(201);
  });

  it('has a mutation', async () => {
    const user = await app().make.user();
    const old = await made(user);
    const mutation = `mutation ($id: PersonalAccessTokenID) {
      personalAccessTokenRotate(input: { id: $id }) { token personalAccessToken { id expiresAt active } errors } }`;
    const { data } = await app()
      .as(user)
      .graphql(mutation, { id: `gid://gitlab/PersonalAccessToken/${old.id}` });
    expect(data.personalAccessTokenRotate).toMatchObject({
      token: expect.stringMatching(/^glpat-/),
      personalAccessToken: { active: true, expiresAt: daysAfter(today(), 7) },
      errors: [],
    });
    expect(await reads(old.token)).toBe(401);
    const family = await app()
      .hub.services.db.selectFrom('personal_access_tokens')
      .select('family_id')
      .where('digest', 'in', [digestToken(old.token), digestToken(data.personalAccessTokenRotate.token)])
      .execute();
    expect(new Set(family.map((row) => row.family_id)).size).toBe(1);
  });
});
