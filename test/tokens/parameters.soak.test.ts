import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import type { TestGroup } from '../support/factories.ts';

// The parameters of tokens, for people and service accounts, and the attributes of service accounts.

const app = useApp();
const db = () => app().hub.services.db;

const EXPIRY = new Date(Date.now() + 20 * 86_400_000).toISOString().slice(0, 10);
let user: TestUser;
let group: TestGroup;
let account: { readonly id: number };
let client: Client;
const root = () => app().as(app().root);

beforeAll(async () => {
  user = await app().make.user();
  client = app().as(user);
  group = await app().make.group({}, user);
  account = (await client.post(`/groups/${group.id}/service_accounts`, {})).body;
});

const ofAccount = () => `/groups/${group.id}/service_accounts/${account.id}/personal_access_tokens`;
const LISTS = [
  ['/personal_access_tokens', () => '/personal_access_tokens', () => user.id],
  ['/groups/:id/service_accounts/:user_id/personal_access_tokens', ofAccount, () => account.id],
] as const;

describe.each(LISTS)('GET %s', (_route, path, ownerId) => {
  it('filters by state, text and times', async () => {
    const names: string[] = [];
    for (const [index, name] of ['Filter old heron', 'Filter mid', 'Filter new heron'].entries()) {
      const day = index + 1;
      await db()
        .insertInto('personal_access_tokens')
        .values({
          user_id: ownerId(),
          name,
          scopes: ['api'],
          digest: Buffer.from(`${name} ${ownerId()}`),
          created_at: `2020-01-0${day}T00:00:00Z`,
          last_used_at: `2020-02-0${day}T00:00:00Z`,
          expires_at: `209${day}-01-01`,
          revoked: index === 1,
        })
        .execute();
      names.push(name);
    }
    const found = async (query: string) => {
      const { status, body } = await client.get(`${path()}?${query}`);
      expect([status, body]).toEqual([200, expect.any(Array)]);
      return body.map(({ name }: { name: string }) => names.indexOf(name)).sort();
    };
    for (const [query, expected] of [
      ['search=filter', [0, 1, 2]],
      ['search=HERON', [0, 2]],
      ['revoked=true', [1]],
      ['revoked=false', [0, 2]],
      ['state=active', [0, 2]],
      ['state=inactive', [1]],
      ['created_after=2020-01-02T00:00:00Z', [1, 2]],
      ['created_before=2020-01-02T00:00:00Z', [0, 1]],
      ['last_used_after=2020-02-02T00:00:00Z', [1, 2]],
      ['last_used_before=2020-02-02T00:00:00Z', [0, 1]],
      ['expires_after=2092-01-01', [1, 2]],
      ['expires_before=2092-01-01', [0, 1]],
    ] as const) {
      const search = query.startsWith('search') ? '' : '&search=filter';
      expect([query, await found(query + search)]).toEqual([query, expected]);
    }
  });
});

describe('new tokens', () => {
  it('keep their description and expiry', async () => {
    const wanted = { name: 'Described', description: 'For a test', expires_at: EXPIRY };
    for (const [as, path, scopes] of [
      [client, '/user/personal_access_tokens', 'k8s_proxy'],
      [client, ofAccount(), 'api'],
      [root(), `/users/${user.id}/impersonation_tokens`, 'api'],
    ] as const) {
      const { status, body } = await as.post(path, { ...wanted, scopes });
      expect([path, status, body]).toEqual([path, 201, expect.objectContaining(wanted)]);
    }
  });

  it('get the wanted expiry when they replace another', async () => {
    const { body: own } = await root().post(`/users/${user.id}/personal_access_tokens`, {
      name: 'To rotate',
      scopes: 'api',
    });
    const { body: bots } = await client.post(ofAccount(), { name: 'To rotate', scopes: 'api' });
    for (const [path, old] of [
      ['/personal_access_tokens', own],
      [ofAccount(), bots],
    ]) {
      const { status, body } = await client.post(`${path}/${old.id}/rotate`, { expires_at: EXPIRY });
      expect([status, body.expires_at, body.name]).toEqual([201, EXPIRY, 'To rotate']);
      expect(body.id).not.toBe(old.id);
    }
  });
});

describe('service accounts', () => {
  it('keep their name, username and address', async () => {
    const made = async (path: string, as: Client) => {
      const wanted = { name: 'First', username: `first-${path.length}`, email: `first-${path.length}@example.com` };
      const { status, body } = await as.post(path, wanted);
      expect([status, body]).toEqual([201, expect.objectContaining(wanted)]);
      return body.id;
    };
    const ofGroup = `/groups/${group.id}/service_accounts`;
    const inGroup = `${ofGroup}/${await made(ofGroup, client)}`;
    const ofInstance = `/service_accounts/${await made('/service_accounts', root())}`;
    for (const [method, path, as] of [
      ['PUT', inGroup, client],
      ['PATCH', inGroup, client],
      ['PATCH', ofInstance, root()],
    ] as const) {
      const word = `${method}-${path.length}`.toLowerCase();
      const { status, body } = await as.request(method, path, {
        name: `Changed by ${method}`,
        username: word,
        email: `${word}@example.com`,
      });
      expect([status, body]).toEqual([200, expect.objectContaining({ name: `Changed by ${method}`, username: word })]);
      const row = await db()
        .selectFrom('users')
        .select(['username', 'email', 'unconfirmed_email'])
        .where('id', '=', body.id)
        .executeTakeFirstOrThrow();
      expect([row.email, row.unconfirmed_email]).toContain(`${word}@example.com`);
    }
  });

  it('of the instance are ordered by id and username', async () => {
    const ids: number[] = [];
    for (const username of ['zz-bot', 'aa-bot'])
      ids.push((await root().post('/service_accounts', { username })).body.id);
    const listed = async (query: string) =>
      (await root().get(`/service_accounts?per_page=100&${query}`)).body
        .map(({ id }: { id: number }) => ids.indexOf(id))
        .filter((index: number) => index >= 0);
    expect(await listed('order_by=id&sort=asc')).toEqual([0, 1]);
    expect(await listed('order_by=id&sort=desc')).toEqual([1, 0]);
    expect(await listed('order_by=username&sort=asc')).toEqual([1, 0]);
    expect(await listed('order_by=username&sort=desc')).toEqual([0, 1]);
  });
});
