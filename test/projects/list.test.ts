import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();

const ids = (answer: { readonly body: readonly { readonly id: number }[] }) => answer.body.map((each) => each.id);
const names = (answer: { readonly body: readonly { readonly name: string }[] }) => answer.body.map((each) => each.name);

/** Returns the ids of all pages, following `Link: rel="next"`. */
const walk = async (client: Client, path: string): Promise<number[]> => {
  const found: number[] = [];
  for (let next: string | undefined = path; next; ) {
    const answer = await client.get(next);
    expect(answer.status).toBe(200);
    found.push(...ids(answer));
    const link = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
    next = link?.slice(link.indexOf('/api/'));
  }
  return found;
};

describe('GET /projects', () => {
  it('shows each caller only the projects they may see', async () => {
    const { make } = app();
    const [owner, member, stranger, external] = [
      await make.user(),
      await make.user(),
      await make.user(),
      await make.user({ external: true }),
    ];
    const topic = 'who-sees';
    const made = [];
    for (const visibility of ['private', 'internal', 'public']) {
      made.push((await make.project({ visibility, topics: topic }, owner)).id);
    }
    const [hidden, internal, open] = made;
    await make.projectMember({ id: hidden ?? 0 }, member, 10);
    const list = async (client: Client) => ids(await client.get(`/projects?topic=${topic}&order_by=id&sort=asc`));
    expect(await list(app().as(owner))).toEqual([hidden, internal, open]);
    expect(await list(app().as(member))).toEqual([hidden, internal, open]);
    expect(await list(app().as(stranger))).toEqual([internal, open]);
    expect(await list(app().as(external))).toEqual([open]);
    expect(await list(app().as(app().root))).toEqual([hidden, internal, open]);
    expect(await list(app().anonymous)).toEqual([open]);
    const [simple] = (await app().anonymous.get(`/projects?topic=${topic}`)).body;
    expect(Object.keys(simple)).not.toContain('visibility');
    expect(simple).toMatchObject({ readme_url: null, forks_count: 0, star_count: 0 });
    const [asked] = (await app().as(owner).get(`/projects?topic=${topic}&simple=1`)).body;
    expect(Object.keys(asked)).not.toContain('visibility');
  });

  it('finds terms without three letters or digits in a row, for every caller', async () => {
    const { make } = app();
    const user = await make.user();
    const texts = ['龘靐 and more', 'of the 麤龘靐', 'Щёголь', "it's ⁂'\\⁂", 'ends with ⁑'];
    for (const description of texts) await make.project({ description, visibility: 'public' }, user);
    const found = async (client: Client, term: string, query = '') =>
      (await client.get(`/projects?search=${encodeURIComponent(term)}&order_by=id&sort=asc&simple=1${query}`)).body.map(
        (each: { description: string }) => texts.indexOf(each.description),
      );
    for (const client of [app().anonymous, app().as(user), app().as(app().root)]) {
      expect(await found(client, '龘靐')).toEqual([0, 1]);
      expect(await found(client, '靐')).toEqual([0, 1]);
      expect(await found(client, '麤龘靐')).toEqual([1]);
      expect(await found(client, '龘麤')).toEqual([]);
      expect(await found(client, 'щЁГ')).toEqual([2]);
      expect(await found(client, "⁂'\\⁂")).toEqual([3]);
      expect(await found(client, ' ⁂')).toEqual([3]);
      expect(await found(client, '⁑')).toEqual([4]);
      expect(await found(client, '⁑', '&search_namespaces=true')).toEqual([4]);
      expect(
        (await client.get(`/projects?search=${encodeURIComponent('龘靐')}&per_page=1`)).headers.get('x-total'),
      ).toBe('2');
    }
  });

  it('filters', async () => {
    const { make } = app();
    const user = await make.user();
    const client = app().as(user);
    const group = await make.group({}, user);
    const a = await make.project({ name: 'alpha', topics: 'red,blue', visibility: 'public' }, user);
    const b = await make.project({ name: 'beta', topics: 'red', issues_enabled: false, namespace_id: group.id }, user);
    const c = await make.project(
      { name: 'gamma', description: '100% alphabetical', merge_requests_enabled: false },
      user,
    );
    await client.post(`/projects/${c.id}/archive`);
    await client.post(`/projects/${b.id}/star`);
    const list = async (query: string) =>
      names(await client.get(`/projects?membership=yes&sort=asc&order_by=id&${query}`));
    expect(await list('')).toEqual(['alpha', 'beta', 'gamma']);
    expect(await list('archived=true')).toEqual(['gamma']);
    expect(await list('archived=false')).toEqual(['alpha', 'beta']);
    expect(await list('search=ALPHA')).toEqual(['alpha', 'gamma']);
    expect(await list('search=100%25')).toEqual(['gamma']);
    expect(await list('search=_')).toEqual([]);
    expect(await list(`search=${group.path}&search_namespaces=true`)).toEqual(['beta']);
    const renamed = await client.put(`/groups/${group.id}`, { name: 'Makers of the 鏡' });
    expect(renamed.status).toBe(200);
    for (const term of ['makers of', 'Makers of the 鏡', '鏡']) {
      expect([term, await list(`search=${encodeURIComponent(term)}`)]).toEqual([term, []]);
      expect([term, await list(`search=${encodeURIComponent(term)}&search_namespaces=true`)]).toEqual([term, ['beta']]);
    }
    expect(await list('topic=red')).toEqual(['alpha', 'beta']);
    expect(await list('topic=red,blue')).toEqual(['alpha']);
    expect(await list('visibility=public')).toEqual(['alpha']);
    expect(await list('starred=true')).toEqual(['beta']);
    expect(await list('with_issues_enabled=true')).toEqual(['alpha', 'gamma']);
    expect(await list('with_merge_requests_enabled=true')).toEqual(['alpha', 'beta']);
    expect(await list('min_access_level=50')).toEqual(['alpha', 'beta', 'gamma']);
    expect(await list('owned=true')).toEqual(['alpha', 'beta', 'gamma']);
    expect(await list('imported=true')).toEqual([]);
    expect(await list(`id_after=${a.id}&id_before=${c.id}`)).toEqual(['beta']);
    expect(await list('last_activity_after=2999-01-01')).toEqual([]);
    expect(await list('last_activity_before=2999-01-01')).toHaveLength(3);
    expect(await list('updated_after=2999-01-01')).toHaveLength(3);
    expect(names(await client.get('/projects?membership=1&order_by=updated_at&updated_after=2999-01-01'))).toEqual([]);
    expect((await client.get('/projects?min_access_level=17')).status).toBe(400);
    expect((await client.get('/projects?id_after=x')).body).toEqual({
      error: 'id_after is invalid (allowed: a whole number)',
    });
  });

  it('orders', async () => {
    const { make } = app();
    const user = await make.user();
    const client = app().as(user);
    for (const name of ['Zeta match', 'eta', 'Match']) await make.project({ name, description: name }, user);
    const list = async (query: string) => names(await client.get(`/projects?owned=true&${query}`));
    expect(await list('')).toEqual(['Match', 'eta', 'Zeta match']);
    expect(await list('order_by=name&sort=asc')).toEqual(['eta', 'Match', 'Zeta match']);
    expect(await list('order_by=similarity&search=match&sort=asc')).toEqual(['Match', 'Zeta match']);
    for (const order of ['id', 'path', 'updated_at', 'last_activity_at', 'star_count', 'storage_size']) {
      expect(await list(`order_by=${order}`)).toHaveLength(3);
    }
    const root = app().as(app().root);
    for (const order of ['repository_size', 'storage_size', 'packages_size', 'wiki_size']) {
      expect((await root.get(`/projects?order_by=${order}&per_page=2`)).body).toHaveLength(2);
    }
  });

  it('finds all words of a term in any order, and long ones as a whole, not by their two ends', async () => {
    const user = await app().make.user();
    await app().make.project({ name: 'honeycreeper-of-kauai', description: null }, user);
    await app().make.project({ name: 'honeycreeper-on-kauai', description: null }, user);
    await app().make.project({ name: 'Quokka census of 2024', description: null }, user);
    await app().make.project({ name: 'Quokka counts of 2024', description: null }, user);
    await app().make.project({ name: 'Other', description: 'QUOKKA CENSUS of 2024, continued' }, user);
    const list = async (query: string) => names(await app().as(user).get(`/projects?owned=true&${query}`)).sort();
    expect(await list('search=quokka census of 2024')).toEqual(['Other', 'Quokka census of 2024']);
    expect(await list('search=census of 2024&order_by=similarity')).toEqual(['Other', 'Quokka census of 2024']);
    expect(await list('search=2024 quokka')).toEqual(['Other', 'Quokka census of 2024', 'Quokka counts of 2024']);
    expect(await list('search=2024%20%20of counts')).toEqual(['Quokka counts of 2024']);
    // One of the columns must have all words.
    expect(await list('search=other quokka')).toEqual([]);
    expect(await list('search=honeycreeper-of-kauai')).toEqual(['honeycreeper-of-kauai']);
    expect(await list('search=100%25 quokka')).toEqual([]);
    const { data } = await app().as(user).graphql('{ projects(search: "kauai creeper-on") { nodes { name } } }');
    expect(data.projects.nodes).toEqual([{ name: 'honeycreeper-on-kauai' }]);
  });

  it('paginates by offset and by id', async () => {
    const { make } = app();
    const user = await make.user();
    const client = app().as(user);
    const made = [];
    for (let i = 0; i < 5; i++) made.push((await make.project({}, user)).id);
    const page = await client.get('/projects?owned=true&per_page=2&page=2');
    expect(ids(page)).toEqual([made[2], made[1]]);
    expect(Object.fromEntries(page.headers)).toMatchObject({
      'x-page': '2',
      'x-per-page': '2',
      'x-next-page': '3',
      'x-prev-page': '1',
      'x-total': '5',
      'x-total-pages': '3',
    });
    expect(await walk(client, '/projects?owned=true&per_page=2')).toEqual(made.toReversed());
    const keyset = '/projects?owned=true&pagination=keyset&order_by=id&per_page=2';
    expect((await client.get(keyset)).headers.get('link')).toContain(`id_before=${made[3]}`);
    expect((await client.get(keyset)).headers.get('x-total')).toBeNull();
    expect(await walk(client, keyset)).toEqual(made.toReversed());
    expect(await walk(client, `${keyset}&sort=asc`)).toEqual(made);
    expect((await client.get('/projects?pagination=keyset&order_by=name')).status).toBe(405);
    expect((await client.get('/projects?per_page=100&page=502')).status).toBe(405);
    const head = await client.head('/projects?owned=true&per_page=2');
    expect([head.status, head.headers.get('x-total'), head.body]).toEqual([200, '5', '']);
  });

  it('shows statistics to Reporters and above', async () => {
    const { make } = app();
    const [owner, guest] = [await make.user(), await make.user()];
    const project = await make.project({ visibility: 'public' }, owner);
    await make.projectMember(project, guest, 10);
    const read = async (user: typeof owner) =>
      (await app().as(user).get(`/projects?statistics=true&membership=true`)).body[0].statistics;
    expect(await read(owner)).toMatchObject({ commit_count: 0, storage_size: 0 });
    expect(await read(guest)).toBeUndefined();
  });
});

describe('other lists of projects', () => {
  it('lists the projects of a user, and none for a private profile', async () => {
    const { make } = app();
    const user = await make.user();
    const closed = await make.user({ private_profile: true });
    const [own] = [
      await make.project({ visibility: 'public' }, user),
      await make.project({ visibility: 'public' }, closed),
    ];
    const other = app().as(await make.user());
    expect(ids(await other.get(`/users/${user.username}/projects`))).toEqual([own.id]);
    expect(ids(await app().anonymous.get(`/users/${user.id}/projects`))).toEqual([own.id]);
    expect((await other.get(`/users/${closed.id}/projects`)).body).toEqual([]);
    expect((await app().as(closed).get(`/users/${closed.id}/projects`)).body).toHaveLength(1);
    expect(await other.get('/users/nobody-at-all/projects')).toMatchObject({
      status: 404,
      body: { message: '404 User Not Found' },
    });
    const [mine] = (await app().as(user).get(`/users/${user.id}/projects?statistics=1`)).body;
    expect(mine).toMatchObject({
      owner: { id: user.id },
      runners_token: expect.any(String),
      statistics: { commit_count: 0 },
    });
    const [theirs] = (await other.get(`/users/${user.id}/projects`)).body;
    expect(theirs.runners_token).toBeUndefined();
    await other.post(`/projects/${own.id}/star`);
    const { id } = (await other.get('/user')).body;
    expect(ids(await app().as(user).get(`/users/${id}/starred_projects`))).toEqual([own.id]);
  });

  it('lists no projects with security reports, because none exist', async () => {
    const user = await app().make.user();
    const group = await app().make.group({}, user);
    const project = await app().make.project({ namespace_id: group.id }, user);
    const list = async (query: string) => ids(await app().as(user).get(`/groups/${group.id}/projects${query}`));
    expect(await list('?with_security_reports=false')).toEqual([project.id]);
    expect(await list('?with_security_reports=true')).toEqual([]);
  });

  it('hides the projects of a private profile in REST and GraphQL, except from its owner and administrators', async () => {
    const { make, as, root, anonymous } = app();
    const closed = await make.user({ private_profile: true });
    const member = await make.user();
    const project = await make.project({ visibility: 'public' }, closed);
    await make.projectMember(project, member, 30);
    await as(closed).post(`/projects/${project.id}/star`);
    const { data } = await as(root).graphql('query ($name: String!) { user(username: $name) { id } }', {
      name: closed.username,
    });
    const query = `query ($id: UserID!, $path: ID!) {
      namespace(fullPath: $path) { projects { count nodes { fullPath } } }
      user(id: $id) { namespace { projects { nodes { fullPath } } } starredProjects { nodes { fullPath } } } }`;
    const shown = async (client: typeof anonymous) => {
      const answer = await client.graphql(query, { id: data.user.id, path: closed.username });
      return [
        (await client.get(`/users/${closed.id}/projects`)).body.length,
        (await client.get(`/users/${closed.id}/starred_projects`)).body.length,
        answer.data.namespace.projects.nodes.length,
        answer.data.namespace.projects.count,
        answer.data.user.namespace.projects.nodes.length,
        answer.data.user.starredProjects.nodes.length,
      ];
    };
    expect(await shown(as(closed))).toEqual([1, 1, 1, 1, 1, 1]);
    expect(await shown(as(root))).toEqual([1, 1, 1, 1, 1, 1]);
    expect(await shown(as(member))).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await shown(as(await make.user()))).toEqual([0, 0, 0, 0, 0, 0]);
    // The project itself is as visible as before.
    expect(ids(await as(member).get('/projects?membership=1'))).toEqual([project.id]);
    expect((await anonymous.get(`/projects/${project.id}`)).status).toBe(200);
    const hidden = await anonymous.graphql('query ($path: ID!) { namespace(fullPath: $path) { projects { count } } }', {
      path: closed.username,
    });
    expect(hidden.data.namespace.projects.count).toBe(0);
  });

  it('lists the projects of a group and its subgroups, and shared ones', async () => {
    const { make } = app();
    const owner = await make.user();
    const client = app().as(owner);
    const group = await make.group({}, owner);
    const sub = await make.group({ parent_id: group.id }, owner);
    const elsewhere = await make.project({ name: 'shared' }, owner);
    const a = await make.project({ name: 'a', namespace_id: group.id }, owner);
    const b = await make.project({ name: 'b', namespace_id: sub.id }, owner);
    await app()
      .hub.services.db.insertInto('project_shares')
      .values({ project_id: elsewhere.id, shared_with_id: group.id, access_level: 30 })
      .execute();
    const list = async (query: string) => names(await client.get(`/groups/${group.id}/${query}`)).sort();
    expect(await list('projects')).toEqual(['a', 'shared']);
    expect(await list('projects?with_shared=false')).toEqual(['a']);
    expect(await list('projects?include_subgroups=true&with_shared=false')).toEqual(['a', 'b']);
    expect(await list('projects/shared')).toEqual(['shared']);
    expect(
      (
        await app()
          .as(await make.user())
          .get(`/groups/${group.id}/projects`)
      ).status,
    ).toBe(404);
    const record = (await client.get(`/groups/${group.id}`)).body;
    expect(record.projects).toMatchObject([{ id: a.id }]);
    expect(record.shared_projects).toMatchObject([
      { id: elsewhere.id, shared_with_groups: [{ group_id: group.id, group_access_level: 30, expires_at: null }] },
    ]);
    expect((await client.get(`/groups/${group.id}?with_projects=false`)).body.projects).toBeUndefined();
    expect(b.id).toBeGreaterThan(0);
  });
});
