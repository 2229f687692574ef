import { describe, expect, it } from 'vitest';
import { emitExpiringTokens } from '#domains/service-accounts/expiring.ts';
import { daysAfter } from '#domains/tokens/model.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root, ['api', 'sudo']);
const today = new Date().toISOString().slice(0, 10);
const yesterday = daysAfter(today, -1);
const gid = (type: string, id: number) => `gid://gitlab/${type}/${id}`;

/** Returns the status of a request with the token. */
const reads = async (token: string) => (await app().anonymous.get('/version', { 'private-token': token })).status;

const makeServiceAccount = async () => {
  const owner = await app().make.user();
  const group = await app().make.group({}, owner);
  const account = (await app().as(owner).post(`/groups/${group.id}/service_accounts`, {})).body;
  return { owner, group, account, path: `/groups/${group.id}/service_accounts/${account.id}/personal_access_tokens` };
};

describe('a token with expires_at of today', () => {
  it.each([
    [
      'a personal token',
      async (expires_at: string) => {
        const user = await app().make.user();
        const path = `/users/${user.id}/personal_access_tokens`;
        return admin().post(path, { name: 'x', scopes: ['read_user'], expires_at });
      },
    ],
    [
      'an impersonation token',
      async (expires_at: string) => {
        const user = await app().make.user();
        return admin().post(`/users/${user.id}/impersonation_tokens`, { name: 'x', scopes: ['read_user'], expires_at });
      },
    ],
    [
      'a rotated token',
      async (expires_at: string) => {
        const user = await app().make.user();
        const path = `/users/${user.id}/personal_access_tokens`;
        const { body } = await admin().post(path, { name: 'x', scopes: ['read_user'] });
        return admin().post(`/personal_access_tokens/${body.id}/rotate`, { expires_at });
      },
    ],
    [
      'a token of a service account',
      async (expires_at: string) => {
        const { owner, path } = await makeServiceAccount();
        return app()
          .as(owner)
          .post(path, { name: 'x', scopes: ['read_user'], expires_at });
      },
    ],
    [
      'a rotated token of a service account',
      async (expires_at: string) => {
        const { owner, path } = await makeServiceAccount();
        const { body } = await app()
          .as(owner)
          .post(path, { name: 'x', scopes: ['read_user'] });
        return app().as(owner).post(`${path}/${body.id}/rotate`, { expires_at });
      },
    ],
  ])('is created over REST as %s and works', async (_name, create) => {
    const { status, body } = await create(today);
    expect([status, body]).toMatchObject([201, { expires_at: today, active: true }]);
    expect(await reads(body.token)).toBe(200);
    expect(await reads(body.token)).toBe(200);
    const refused = await create(yesterday);
    expect([refused.status, refused.body]).toEqual([
      400,
      { message: { expires_at: ['cannot be a date in the past'] } },
    ]);
  });

  it('is created for yourself over REST', async () => {
    const user = await app().make.user();
    const input = { name: 'x', scopes: ['k8s_proxy'] };
    const create = (expires_at: string) =>
      app()
        .as(user)
        .post('/user/personal_access_tokens', { ...input, expires_at });
    expect(await create(today)).toMatchObject({ status: 201, body: { expires_at: today, active: true } });
    expect((await create(yesterday)).status).toBe(400);
  });

  it.each([
    ['personalAccessTokenCreate', async () => ({ name: 'x', scopes: ['read_user'] })],
    [
      'impersonationTokenCreate',
      async () => ({ name: 'x', scopes: ['read_user'], userId: gid('User', (await app().make.user()).id) }),
    ],
    [
      'personalAccessTokenRotate',
      async () => {
        const { id } = await app().make.user();
        const made = await admin().post(`/users/${id}/personal_access_tokens`, { name: 'x', scopes: ['read_user'] });
        return { id: gid('PersonalAccessToken', made.body.id) };
      },
    ],
    [
      'serviceAccountTokenCreate',
      async () => {
        const { group, account } = await makeServiceAccount();
        return { name: 'x', scopes: ['read_user'], groupPath: group.full_path, userId: gid('User', account.id) };
      },
    ],
    [
      'serviceAccountTokenRotate',
      async () => {
        const { owner, group, account, path } = await makeServiceAccount();
        const made = await app()
          .as(owner)
          .post(path, { name: 'x', scopes: ['read_user'] });
        return {
          id: gid('PersonalAccessToken', made.body.id),
          groupPath: group.full_path,
          userId: gid('User', account.id),
        };
      },
    ],
  ])('is created over GraphQL by %s and works', async (name, inputOf) => {
    const type = `${name[0]?.toUpperCase()}${name.slice(1)}Input`;
    const mutation = `mutation ($input: ${type}!) {
      ${name}(input: $input) { token personalAccessToken { expiresAt active } errors } }`;
    const input = await inputOf();
    const refused = await admin().graphql(mutation, { input: { ...input, expiresAt: yesterday } });
    expect(refused.data[name]).toMatchObject({ token: null, errors: ['Expires at cannot be a date in the past'] });
    const { data } = await admin().graphql(mutation, { input: { ...input, expiresAt: today } });
    expect(data[name]).toMatchObject({ personalAccessToken: { expiresAt: today, active: true }, errors: [] });
    expect(await reads(data[name].token)).toBe(200);
  });

  it('is listed as active, can be rotated and keeps its subscriptions', async () => {
    const user = await app().make.user();
    const create = async (expires_at: string) => {
      const { body } = await admin().post(`/users/${user.id}/personal_access_tokens`, {
        name: expires_at,
        scopes: ['read_user', 'self_rotate'],
      });
      await app()
        .hub.services.db.updateTable('personal_access_tokens')
        .set({ expires_at })
        .where('id', '=', body.id)
        .execute();
      return body;
    };
    const [last, ended] = [await create(today), await create(yesterday)];
    const list = async (state: string) =>
      (await admin().get(`/personal_access_tokens?user_id=${user.id}&state=${state}`)).body.map(
        ({ id }: { id: number }) => id,
      );
    expect(await list('active')).toEqual([last.id]);
    expect(await list('inactive')).toEqual([ended.id]);
    const actor = (credentialId: number) => ({
      ...app().context().actor,
      userId: user.id,
      isAdmin: false,
      isSystem: false,
      credential: { kind: 'token' as const, id: credentialId, holderId: user.id, originId: null },
    });
    expect(await stillValid(app().hub.services, [actor(last.id), actor(ended.id)])).toEqual(new Set([0]));
    const rotate = (token: string) =>
      app().anonymous.post('/personal_access_tokens/self/rotate', {}, { 'private-token': token });
    expect([(await rotate(last.token)).status, (await rotate(ended.token)).status]).toEqual([201, 401]);
  });

  it('still gets the notice of a night that was missed', async () => {
    const { owner, path } = await makeServiceAccount();
    const { body } = await app()
      .as(owner)
      .post(path, { name: 'x', scopes: ['read_user'] });
    const { db } = app().hub.services;
    await db
      .updateTable('personal_access_tokens')
      .set({ expires_at: today, created_at: '2020-01-01T00:00:00Z' })
      .where('id', '=', body.id)
      .execute();
    await app()
      .context()
      .transaction(async (tx) => tx.enqueue(emitExpiringTokens, {}));
    await app().settle();
    const notices = await db
      .selectFrom('events')
      .select('payload')
      .where('kind', '=', 'token.expiring')
      .where('subject_id', '=', body.id)
      .execute();
    expect(notices).toMatchObject([{ payload: { days: 1, expires_at: today } }]);
  });
});
