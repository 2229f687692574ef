import { beforeAll, describe, expect, it } from 'vitest';
import { pruneUses } from '#domains/deprecations/jobs.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { type Answer, Client } from '../support/client.ts';
import type { TestProject } from '../support/factories.ts';

// The use of what is deprecated in version 4: its headers (RFC 9745, 8594, 5829), and its counts.

const app = useApp();
const admin = () => app().as(app().root);
const owned = () => app().as(owner);

let owner: TestUser;
let project: TestProject;
let at: string;

beforeAll(async () => {
  owner = await app().make.user();
  project = await app().make.project({ visibility: 'private' }, owner);
  at = `/projects/${project.id}`;
});

/** Gives the user a token of the application 'A tool'. */
const oauthTokenOf = async (user: TestUser): Promise<string> => {
  const value = randomToken(43);
  const application = await admin().post('/applications', {
    name: 'A tool',
    redirect_uri: 'https://tool.example/callback',
    scopes: 'api',
  });
  expect(application.status).toBe(201);
  const token = { user_id: user.id, digest: digestToken(value), scopes: ['api'], family_id: crypto.randomUUID() };
  await app()
    .hub.services.db.insertInto('oauth_access_tokens')
    .values({ ...token, application_id: application.body.id })
    .execute();
  return value;
};

const headersOf = ({ headers }: Answer) => [headers.get('deprecation'), headers.get('sunset'), headers.get('link')];
const SINCE = expect.stringMatching(/^@\d{10}$/);
const successor = (path: string) => `<${app().url}/api/v5${path}>; rel="successor-version"`;

const USES = `query ($name: String, $since: Date, $mine: Boolean, $after: String) {
  deprecatedUsage(name: $name, since: $since, mine: $mine, first: 2, after: $after) {
    count
    nodes { name credential credentialId credentialName uses firstDay lastUsedAt user { username } }
    pageInfo { endCursor hasNextPage }
  }
}`;
const usesOf = async (user: TestUser, variables: Record<string, unknown>) =>
  (await app().as(user).graphql(USES, variables)).data.deprecatedUsage;
const countOf = async (user: TestUser, name: string, variables: Record<string, unknown> = {}) =>
  Number((await usesOf(user, { name, ...variables })).nodes[0]?.uses ?? 0);

describe('a request that uses what is deprecated', () => {
  it('is answered with Deprecation and the successor of its route', async () => {
    const nodes = await admin().get('/geo_nodes?per_page=1');
    expect(headersOf(nodes)).toEqual([
      SINCE,
      null,
      expect.stringMatching(/rel="first".*, <.*rel="successor-version"$/),
    ]);
    expect(nodes.headers.get('link')).toContain(successor('/geo_sites'));
    // Also if it fails.
    expect(headersOf(await admin().get('/geo_nodes/7'))).toEqual([SINCE, null, successor('/geo_sites/7')]);
    const links = await owned().delete(`/groups/1/ldap_group_links/a%2Fb`);
    expect(links.headers.get('link')).toBe(successor('/groups/1/ldap_group_links'));
    const licenses = await owned().get(`/projects/${encodeURIComponent(project.path_with_namespace)}/managed_licenses`);
    expect(licenses.headers.get('link')).toContain(
      successor(`/projects/${encodeURIComponent(project.path_with_namespace)}/approval_rules`),
    );
  });

  it('is answered with the same path in version 5, if a parameter is deprecated', async () => {
    const changed = await owned().put(`${at}?description=a`, { tag_list: ['a'] });
    expect([changed.status, ...headersOf(changed)]).toEqual([200, SINCE, null, successor(at)]);
    const refused = await owned().put(at, { tag_list: ['a'], visibility: 'nobody' });
    expect([refused.status, ...headersOf(refused)]).toEqual([400, SINCE, null, successor(at)]);
    const runners = await owned().get(`${at}/runners?status=paused`);
    expect(runners.headers.get('deprecation')).toEqual(SINCE);
    const token = await app().tokenOf(owner);
    const inQuery = await app().anonymous.get(`/user?access_token=${token}`);
    expect(headersOf(inQuery)).toEqual([SINCE, null, successor('/user')]);
  });

  it('names the day after which it ends, if there is one', async () => {
    const change = (settings: Record<string, unknown>) => admin().put('/application/settings', settings);
    expect((await change({ api_v4_sunset_on: 'soon' })).status).toBe(400);
    expect((await change({ api_v4_sunset_on: '2027-03-01' })).status).toBe(200);
    expect((await admin().get('/geo_nodes')).headers.get('sunset')).toBe('Mon, 01 Mar 2027 00:00:00 GMT');
    await change({ api_v4_sunset_on: null, api_v5_preview_enabled: false });
    // Without the preview there is no version 5 to point to.
    expect((await admin().get('/geo_nodes')).headers.get('link')).toContain(
      `<${app().url}/api/v4/geo_sites>; rel="successor-version"`,
    );
    expect(headersOf(await owned().put(at, { tag_list: ['a'] }))).toEqual([SINCE, null, null]);
    const inQuery = `${app().url}/oauth/token/info?access_token=${await oauthTokenOf(owner)}`;
    expect(headersOf(await app().anonymous.get(inQuery))).toEqual([SINCE, null, null]);
    await change({ api_v5_preview_enabled: true });
    expect(headersOf(await app().anonymous.get(inQuery))).toEqual([SINCE, null, successor('/oauth/token/info')]);
    expect((await admin().get('/geo_nodes')).headers.get('sunset')).toBeNull();
  });

  it('is answered so and counted also if the caller may not use it', async () => {
    const [user, narrow] = [await app().make.user(), await app().make.user()];
    const scoped = app().as(narrow, ['read_user']);
    const unknown = new Client(app().url, () => Promise.resolve('glpat-unknown'));
    const refusals: readonly (readonly [number, Answer])[] = [
      [401, await app().anonymous.get('/geo_nodes')],
      [401, await unknown.get('/geo_nodes')],
      [403, await app().as(user).get('/geo_nodes')],
      [403, await scoped.get('/geo_nodes')],
    ];
    for (const [status, answer] of refusals) {
      expect([answer.status, ...headersOf(answer)]).toEqual([status, SINCE, null, successor('/geo_sites')]);
    }
    const changes: readonly (readonly [number, Answer])[] = [
      [401, await unknown.put(`${at}?tag_list=a`, {})],
      [403, await scoped.put(`${at}?tag_list=a`, {})],
      [404, await app().as(user).put(at, { tag_list: 'a' })],
    ];
    for (const [status, answer] of changes) {
      expect([answer.status, ...headersOf(answer)]).toEqual([status, SINCE, null, successor(at)]);
    }
    await expect.poll(() => countOf(user, 'GET /geo_nodes')).toBe(1);
    await expect.poll(() => countOf(narrow, 'GET /geo_nodes')).toBe(1);
    await expect.poll(() => countOf(narrow, 'PUT /projects/:id tag_list')).toBe(1);
  });

  it('differs from all others', async () => {
    for (const answer of [
      await owned().get(at),
      await owned().put(at, { topics: ['a'] }),
      await owned().get(`${at}/runners?status=online`),
      await owned().get(`/api/v5${at}`),
      await admin().get('/geo_sites'),
    ]) {
      expect(answer.headers.get('deprecation')).toBeNull();
      expect(answer.headers.get('link') ?? '').not.toContain('successor');
    }
  });
});

describe('deprecatedUsage', () => {
  it('counts by token and by name, for their owner and for administrators', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    const mine = await app().make.project({ visibility: 'private' }, user);
    const tagList = 'PUT /projects/:id tag_list';
    for (const client of [app().as(user), app().as(user), app().as(user, ['api', 'read_user'])]) {
      await client.put(`/projects/${mine.id}`, { tag_list: ['a'] });
    }
    const counts = async () =>
      (await usesOf(user, { name: tagList })).nodes.map(({ uses }: { uses: unknown }) => Number(uses)).sort();
    await expect.poll(counts).toEqual([1, 2]);
    expect((await usesOf(user, { name: tagList })).count).toBe(2);
    const [first] = (await usesOf(user, { name: tagList })).nodes;
    expect(first).toMatchObject({
      name: tagList,
      credential: 'PERSONAL_ACCESS_TOKEN',
      credentialId: expect.stringMatching(/^\d+$/),
      credentialName: 'test',
      user: { username: user.username },
    });
    expect((await usesOf(other, {})).nodes).toEqual([]);
    expect((await usesOf(other, { mine: false })).nodes).toEqual([]);
    const all = await usesOf(app().root, { name: tagList });
    expect(all.nodes.map((use: { user: { username: string } }) => use.user.username)).toContain(user.username);
    expect(all.pageInfo.hasNextPage).toBe(all.count > 2);
    expect(await countOf(app().root, tagList, { mine: true })).toBe(0);
    expect((await app().anonymous.graphql(USES)).data.deprecatedUsage).toBeNull();
    expect(await countOf(user, tagList, { since: '2100-01-01' })).toBe(0);
    expect((await usesOf(user, { after: (await usesOf(user, {})).pageInfo.endCursor })).nodes).toEqual([]);
  });

  it('counts callers of all kinds', async () => {
    const user = await app().make.user();
    const value = await oauthTokenOf(user);
    await app().anonymous.get(`/user?access_token=${value}`);
    await app().anonymous.get(`${app().url}/oauth/token/info?access_token=${value}`);
    await app().anonymous.get('/projects/1/merge_requests/1/changes');
    const inQuery = 'access_token in the query';
    const byApplication = { credential: 'OAUTH_TOKEN', credentialId: null, credentialName: 'A tool' };
    for (const name of [inQuery, 'GET /oauth/token/info access_token']) {
      await expect.poll(async () => (await usesOf(user, { name })).nodes[0]).toMatchObject(byApplication);
    }
    await fetch(`${app().url}/api/v4/geo_nodes`, {
      headers: { authorization: `Basic ${btoa(`${app().root.username}:${PASSWORD}`)}` },
    });
    await expect
      .poll(async () => (await usesOf(app().root, { name: 'GET /geo_nodes', since: '2026-01-01' })).count)
      .toBeGreaterThan(0);
    const changes = 'GET /projects/:id/merge_requests/:merge_request_iid/changes';
    await expect.poll(async () => (await usesOf(app().root, { name: changes })).nodes[0]?.credential).toBe('NONE');
  });

  it('counts deprecated fields and inputs of GraphQL', async () => {
    const user = await app().make.user();
    const own = await app().make.project({ visibility: 'private' }, user);
    const client = app().as(user);
    const path = own.path_with_namespace;
    const field = 'Project.containerRegistryEnabled';
    const query = `{ project(fullPath: "${path}") { ...parts } } fragment parts on Project { containerRegistryEnabled containerRegistryAccessLevel mergeRequests { nodes { mergeStatus } } }`;
    const { data } = await client.graphql(query);
    expect(data.project).toMatchObject({ containerRegistryEnabled: true, containerRegistryAccessLevel: 'enabled' });
    await client.graphql(query);
    expect(await countOf(user, field)).toBe(2);
    expect(await countOf(user, 'MergeRequest.mergeStatus')).toBe(2);
    const input = 'ProjectUpdateInput.approvalsBeforeMerge';
    const update = (more: string) =>
      `mutation ($input: ProjectUpdateInput!) { projectUpdate(input: $input) { errors } ${more} }`;
    await client.graphql(update(''), { input: { fullPath: path, approvalsBeforeMerge: 1 } });
    await client.graphql(update(''), { input: { fullPath: path, description: 'a' } });
    await client.graphql(
      `mutation { projectUpdate(input: { fullPath: "${path}", approvalsBeforeMerge: 2 }) { errors } }`,
    );
    expect(await countOf(user, input)).toBe(2);
    const schema = await client.graphql(
      '{ __type(name: "MergeRequest") { fields(includeDeprecated: true) { name deprecationReason } } }',
    );
    expect(schema.data.__type.fields).toContainEqual({
      name: 'mergeStatus',
      deprecationReason: 'Use `detailedMergeStatus`.',
    });
  });

  it('keeps counts for 90 days', async () => {
    const user = await app().make.user();
    const insert = (day: string) =>
      app().hub.services.pool.query(
        `insert into deprecated_uses (day, kind, credential, holder_id, name, uses, last_used_at)
         values (current_date - ${day}::integer, 'session', $1::text, $1::bigint, 'GET /geo_nodes', 3, now() - interval '${day} days')`,
        [user.id],
      );
    await insert('91');
    await insert('90');
    await insert('1');
    expect(await countOf(user, 'GET /geo_nodes')).toBe(9);
    await app()
      .context()
      .transaction(async (tx) => tx.enqueue(pruneUses, {}));
    await app().settle();
    expect(await countOf(user, 'GET /geo_nodes')).toBe(6);
  });
});
