import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Hub, startHub } from '#app/build.ts';
import { assume, authenticate } from '#domains/tokens/authentication.ts';
import { daysAfter } from '#domains/tokens/model.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';
import { until } from '../support/until.ts';

// A process caches the caller of a token, and the database confirms it with the first statement of a read. Any change
// applies from the next request on, in each process.

const app = useApp();
let second: Hub;

beforeAll(async () => {
  const { databaseUrl, dataDir } = app().hub.services.config;
  second = await startHub({
    config: readConfig([], {
      DATABASE_URL: databaseUrl ?? '',
      MILLRACE_DATA_DIR: dataDir,
      MILLRACE_PORT: '0',
      MILLRACE_ROLE: 'web',
    }),
    log: createLogger('silent'),
    checkResponses: true,
  });
});
afterAll(() => second?.close());

const db = () => app().hub.services.db;

/** Lists, whose first statement confirms the caller, also if it finds nothing, and a record, which looks the caller up. */
const PATHS = [
  '/projects',
  '/projects?pagination=keyset&order_by=id',
  '/projects?search=no-such-project',
  '/groups',
  '/user',
] as const;

/** Queries whose first statement confirms the caller, that look the caller up, and that need no statement. */
const QUERIES = ['{ projects { nodes { id } } }', '{ currentUser { username } }', '{ __typename }'] as const;

const insertToken = async (user: TestUser, kind: 'personal' | 'oauth', scopes = ['api'], value = randomToken(43)) => {
  const row = { user_id: user.id, scopes, digest: digestToken(value), last_used_at: sql<string>`now()` };
  await db()
    .updateTable('users')
    .set({ last_activity_on: sql<string>`current_date`, current_sign_in_at: sql<string>`now()` })
    .where('id', '=', user.id)
    .execute();
  if (kind === 'personal')
    await db()
      .insertInto('personal_access_tokens')
      .values({ ...row, name: 'kept' })
      .execute();
  else
    await db()
      .insertInto('oauth_access_tokens')
      .values({ ...row, family_id: crypto.randomUUID() })
      .execute();
  const clients = [app().url, second.url].map((url) => new Client(url, () => Promise.resolve(value)));
  const ask = async () => {
    const answers = await Promise.all(
      clients.flatMap((client) => [
        ...PATHS.map((path) => client.get(path)),
        ...QUERIES.map((query) => client.post('/api/graphql', { query })),
      ]),
    );
    return [...new Set(answers.map(({ status }) => status))];
  };
  // Repeat the requests, so that both processes have cached the caller.
  for (let i = 0; i < 3; i++) expect(await ask()).toEqual([200]);
  return { ask, clients, digest: row.digest };
};

describe('a token that both processes have cached', () => {
  it('is refused by both as soon as it is revoked or has expired', async () => {
    const user = await app().make.user();
    const { ask, clients, digest } = await insertToken(user, 'personal');
    const set = (values: { expires_at?: string | null; revoked?: boolean }) =>
      db().updateTable('personal_access_tokens').set(values).where('digest', '=', digest).execute();
    const today = new Date().toISOString().slice(0, 10);
    await set({ expires_at: today });
    expect(await ask()).toEqual([200]);
    await set({ expires_at: daysAfter(today, -1) });
    expect(await ask()).toEqual([401]);
    await set({ expires_at: null });
    expect(await ask()).toEqual([200]);
    // Revoke it through one process.
    expect((await clients[0]?.delete('/personal_access_tokens/self'))?.status).toBe(204);
    expect(await ask()).toEqual([401]);
    await db().deleteFrom('personal_access_tokens').where('digest', '=', digest).execute();
    expect(await ask()).toEqual([401]);
  });

  it("is refused in the same way if it is an application's", async () => {
    const user = await app().make.user();
    const { ask, digest } = await insertToken(user, 'oauth');
    const set = (values: { expires_at?: string | null; revoked_at?: string | null }) =>
      db().updateTable('oauth_access_tokens').set(values).where('digest', '=', digest).execute();
    await set({ expires_at: new Date(Date.now() - 1_000).toISOString() });
    expect(await ask()).toEqual([401]);
    await set({ expires_at: null });
    expect(await ask()).toEqual([200]);
    await set({ revoked_at: new Date().toISOString() });
    expect(await ask()).toEqual([401]);
  });

  it('expires at its time without any write', async () => {
    const user = await app().make.user();
    const { clients, digest } = await insertToken(user, 'oauth');
    await db()
      .updateTable('oauth_access_tokens')
      .set({ expires_at: sql<string>`clock_timestamp() + interval '700 milliseconds'` })
      .where('digest', '=', digest)
      .execute();
    const [client] = clients;
    await until('it is refused', async () => (await client?.get('/projects'))?.status === 401);
  });

  it('gets the current rights of its user: blocked, administrator or external', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ visibility: 'internal' });
    const { ask, clients } = await insertToken(user, 'personal');
    const set = (values: { state?: string; is_admin?: boolean; external?: boolean }) =>
      db().updateTable('users').set(values).where('id', '=', user.id).execute();
    const sees = async () =>
      Promise.all(
        clients.map(async (client) => {
          const { body } = await client.get(`/projects?search=${project.path}`);
          return body.some((each: { readonly id: number }) => each.id === project.id);
        }),
      );
    expect(await sees()).toEqual([true, true]);
    await set({ external: true });
    expect(await sees()).toEqual([false, false]);
    await set({ is_admin: true });
    expect(await sees()).toEqual([true, true]);
    await set({ state: 'blocked' });
    expect(await ask()).toEqual([403]);
    await set({ state: 'active', is_admin: false });
    expect(await sees()).toEqual([false, false]);
  });

  it('gets the current rights of its user in GraphQL', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ visibility: 'internal' });
    const { clients } = await insertToken(user, 'personal');
    const set = (values: { external?: boolean }) =>
      db().updateTable('users').set(values).where('id', '=', user.id).execute();
    const query = `{ project(fullPath: "${project.path_with_namespace}") { id } }`;
    const sees = () => Promise.all(clients.map(async (client) => (await client.graphql(query)).data.project !== null));
    expect(await sees()).toEqual([true, true]);
    await set({ external: true });
    expect(await sees()).toEqual([false, false]);
    await set({ external: false });
    expect(await sees()).toEqual([true, true]);
  });

  it('gets no error of a query that its outdated rights caused', async () => {
    const user = await app().make.user();
    const { clients, digest } = await insertToken(user, 'personal');
    const [client] = clients;
    const wrong = { query: '{ projects(sort: "x") { nodes { id } } }' };
    expect((await client?.post('/api/graphql', wrong))?.status).toBe(200);
    await db().updateTable('personal_access_tokens').set({ revoked: true }).where('digest', '=', digest).execute();
    expect(await client?.post('/api/graphql', wrong)).toMatchObject({
      status: 401,
      body: { errors: [{ message: 'Invalid token' }] },
    });
  });

  it('changes nothing by a mutation once it is revoked', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ visibility: 'public' });
    const { clients, digest } = await insertToken(user, 'personal');
    const mutation = `mutation { starProject(input: { projectId: "gid://gitlab/Project/${project.id}", starred: true }) { count } }`;
    await db().updateTable('personal_access_tokens').set({ revoked: true }).where('digest', '=', digest).execute();
    for (const client of clients) expect((await client.post('/api/graphql', { query: mutation })).status).toBe(401);
    expect((await app().as(app().root).get(`/projects/${project.id}`)).body.star_count).toBe(0);
  });

  it('allows no more than its current scopes', async () => {
    const user = await app().make.user();
    const { clients, digest } = await insertToken(user, 'personal');
    await db()
      .updateTable('personal_access_tokens')
      .set({ scopes: ['self_rotate'] })
      .where('digest', '=', digest)
      .execute();
    for (const client of clients) {
      const answer = await client.get('/projects');
      expect(answer).toMatchObject({ status: 403, body: { error: 'insufficient_scope' } });
      expect(answer.headers.get('x-total')).toBeNull();
    }
  });

  it('is refused with 401 even if the request is invalid too', async () => {
    const user = await app().make.user();
    const { clients, digest } = await insertToken(user, 'personal');
    const wrong = ['/projects?per_page=x', '/projects/999999999', '/users/999999999', '/application/settings'];
    for (const path of wrong) expect((await clients[1]?.get(path))?.status).toBeOneOf([400, 403, 404]);
    await db().updateTable('personal_access_tokens').set({ revoked: true }).where('digest', '=', digest).execute();
    for (const path of wrong) expect((await clients[1]?.get(path))?.status).toBe(401);
  });

  it('is dropped from the cache when it is refused', async () => {
    const user = await app().make.user();
    const value = randomToken(43);
    const services = app().hub.services;
    const credential = { kind: 'token', value } as const;
    const asked = { sudo: null };
    await insertToken(user, 'personal', ['api'], value);
    expect(await assume(services, credential, asked)).not.toBeNull();
    await db().updateTable('users').set({ state: 'blocked' }).where('id', '=', user.id).execute();
    await expect(authenticate(services, credential, asked)).rejects.toThrow();
    expect(await assume(services, credential, asked)).toBeNull();
    await db().updateTable('users').set({ state: 'active' }).where('id', '=', user.id).execute();
    await authenticate(services, credential, asked);
    expect(await assume(services, credential, asked)).not.toBeNull();
  });

  it('no longer counts against the rate limit of its user once it is revoked', async () => {
    const user = await app().make.user();
    const { clients, digest } = await insertToken(user, 'personal');
    const other = await insertToken(user, 'personal');
    await db().updateTable('personal_access_tokens').set({ revoked: true }).where('digest', '=', digest).execute();
    const change = (values: Record<string, unknown>) => app().as(app().root).put('/application/settings', values);
    await change({
      throttle_authenticated_api_enabled: true,
      throttle_authenticated_api_requests_per_period: 100,
      throttle_authenticated_api_period_in_seconds: 600,
    });
    try {
      for (let i = 0; i < 3; i++) {
        const refused = await clients[0]?.get('/projects');
        expect(refused?.status).toBe(401);
        expect(refused?.headers.get('ratelimit-observed')).toBeNull();
      }
      expect((await other.clients[0]?.get('/projects'))?.headers.get('ratelimit-observed')).toBe('1');
    } finally {
      await change({ throttle_authenticated_api_enabled: false });
    }
  });

  it('no longer counts against the limit of an action once it is revoked', async () => {
    const user = await app().make.user();
    const project = await app().make.project({ visibility: 'public' }, user);
    const { clients, digest } = await insertToken(user, 'personal');
    const other = await insertToken(user, 'personal');
    const change = (values: Record<string, unknown>) => app().as(app().root).put('/application/settings', values);
    await change({ project_jobs_api_rate_limit: 1 });
    try {
      await db().updateTable('personal_access_tokens').set({ revoked: true }).where('digest', '=', digest).execute();
      for (const { client, status } of [
        { client: clients[0], status: 401 },
        { client: other.clients[0], status: 200 },
        { client: other.clients[0], status: 429 },
      ])
        expect((await client?.get(`/projects/${project.id}/jobs`))?.status).toBe(status);
    } finally {
      await change({ project_jobs_api_rate_limit: 0 });
    }
  });

  it('counts once for each request', async () => {
    const user = await app().make.user();
    const { clients, digest } = await insertToken(user, 'personal');
    const change = (values: Record<string, unknown>) => app().as(app().root).put('/application/settings', values);
    await change({
      throttle_authenticated_api_enabled: true,
      throttle_authenticated_api_requests_per_period: 100,
      throttle_authenticated_api_period_in_seconds: 600,
    });
    try {
      const observed = async () => Number((await clients[0]?.get('/projects'))?.headers.get('ratelimit-observed'));
      const first = await observed();
      expect(await observed()).toBe(first + 1);
      // The changed row causes a new lookup.
      await db().updateTable('personal_access_tokens').set({ name: 'renamed' }).where('digest', '=', digest).execute();
      expect(await observed()).toBe(first + 2);
      expect(await observed()).toBe(first + 3);
    } finally {
      await change({ throttle_authenticated_api_enabled: false });
    }
  });
});
