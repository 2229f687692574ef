import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { countStatements } from '../support/statements.ts';

const app = useApp();
const db = () => app().hub.services.db;

/** Requests a list of projects and returns their names. */
const names = async (client: Client, field: string, of = 'projects') => {
  const { data, errors } = await client.graphql(`{ ${field} }`);
  expect(errors, field).toBeUndefined();
  const found = of.split('.').reduce((at, key) => at[key], data);
  return found.nodes.map((each: { name: string }) => each.name);
};
const list = (client: Client, args: string) => names(client, `projects(${args}) { nodes { name } }`);

describe('projects', () => {
  it('accepts the same filters as REST', async () => {
    const { make, as, root, anonymous } = app();
    const [owner, other] = [await make.user(), await make.user()];
    const group = await make.group({}, owner);
    const a = await make.project({ name: 'Alpha', topics: ['gql-list', 'gql-more'], visibility: 'public' }, owner);
    const b = await make.project({ name: 'beta', topics: ['gql-list'], namespace_id: group.id }, owner);
    const c = await make.project(
      { name: 'gamma', topics: ['gql-list'], description: 'of alphabets', issues_enabled: false },
      owner,
    );
    const d = await make.project({ name: 'delta', topics: ['gql-list'], merge_requests_enabled: false }, owner);
    await as(owner).post(`/projects/${c.id}/archive`);
    await as(owner).post(`/projects/${b.id}/star`);
    await make.projectMember(b, other, 30);
    await db().updateTable('projects').set({ marked_for_deletion_on: '2020-01-01' }).where('id', '=', d.id).execute();
    await db()
      .insertInto('project_languages')
      .values({ project_id: a.id, name: 'Graphish', share: 100, bytes: 1 })
      .execute();
    await as(root).put(`/projects/${b.id}/custom_attributes/team`, { value: 'blue' });
    const mine = (args: string, client = as(owner)) => list(client, `topics: ["gql-list"], sort: "id_asc"${args}`);
    expect(await mine('')).toEqual(['Alpha', 'beta', 'gamma', 'delta']);
    expect(await mine('', as(other))).toEqual(['Alpha', 'beta']);
    expect(await mine('', anonymous)).toEqual(['Alpha']);
    expect(await mine(', membership: true', as(other))).toEqual(['beta']);
    expect(await mine(', membership: true', anonymous)).toEqual([]);
    expect(await mine(', minAccessLevel: MAINTAINER', as(other))).toEqual([]);
    expect(await mine(', minAccessLevel: DEVELOPER', as(other))).toEqual(['beta']);
    expect(await mine(', owned: true')).toEqual(['Alpha', 'beta', 'gamma', 'delta']);
    expect(await mine(', personal: true')).toEqual(['Alpha', 'gamma', 'delta']);
    expect(await mine(', starred: true')).toEqual(['beta']);
    expect(await mine(', search: "ALPHA"')).toEqual(['Alpha', 'gamma']);
    expect(await mine(`, search: "${group.path}", searchNamespaces: true`)).toEqual(['beta']);
    expect(await list(as(owner), 'topics: ["GQL-more", "gql-list"]')).toEqual(['Alpha']);
    const { body } = await as(root).get('/topics?search=gql-more');
    expect(await list(as(owner), `topicId: "gid://gitlab/Projects::Topic/${body[0].id}"`)).toEqual(['Alpha']);
    expect(await mine(', programmingLanguageName: "graphish"')).toEqual(['Alpha']);
    expect(await mine(', visibilityLevel: public')).toEqual(['Alpha']);
    expect(await mine(', archived: true')).toEqual(['gamma']);
    expect(await mine(', archived: false')).toEqual(['Alpha', 'beta', 'delta']);
    expect(await mine(', aimedForDeletion: true')).toEqual(['delta']);
    expect(await mine(', aimedForDeletion: false')).toEqual(['Alpha', 'beta', 'gamma']);
    expect(await mine(', active: true')).toEqual(['Alpha', 'beta']);
    expect(await mine(', active: false')).toEqual(['gamma', 'delta']);
    expect(await mine(', markedForDeletionOn: "2020-01-01"')).toEqual(['delta']);
    expect(await mine(', withIssuesEnabled: true')).toEqual(['Alpha', 'beta', 'delta']);
    expect(await mine(', withMergeRequestsEnabled: true')).toEqual(['Alpha', 'beta', 'gamma']);
    expect(await mine(', imported: true')).toEqual([]);
    expect(await mine(`, idAfter: "gid://gitlab/Project/${b.id}"`)).toEqual(['gamma', 'delta']);
    expect(await mine(`, idBefore: "gid://gitlab/Project/${b.id}"`)).toEqual(['Alpha']);
    expect(await mine(', repositoryChecksumFailed: true')).toEqual([]);
    expect(await mine(', wikiChecksumFailed: true')).toEqual([]);
    expect(await mine(', repositoryChecksumFailed: false, wikiChecksumFailed: false')).toHaveLength(4);
    expect(await mine(`, ids: ["gid://gitlab/Project/${b.id}"]`)).toEqual(['beta']);
    expect(await mine(`, fullPaths: ["${a.path_with_namespace.toUpperCase()}"]`)).toEqual(['Alpha']);
    expect(await mine(', lastActivityAfter: "2999-01-01T00:00:00Z"')).toEqual([]);
    expect(await mine(', lastActivityBefore: "2999-01-01T00:00:00Z"')).toHaveLength(4);
    expect(
      await list(as(owner), 'membership: true, sort: "updated_asc", updatedAfter: "2999-01-01T00:00:00Z"'),
    ).toEqual([]);
    const attributes = ', customAttributes: [{ key: "team", value: "blue" }]';
    expect(await mine(attributes, as(root))).toEqual(['beta']);
    expect(await mine(attributes)).toHaveLength(4);
    await db()
      .updateTable('projects')
      .set({ hidden: true, repository_storage: 'far' })
      .where('id', '=', b.id)
      .execute();
    expect(await mine('', as(root))).not.toContain('beta');
    expect(await mine(', includeHidden: true, repositoryStorage: "far"', as(root))).toEqual(['beta']);
    expect(await mine(', includeHidden: true')).not.toContain('beta');
  });

  it('sorts by each column, both ways and in either case, and refuses an unknown order', async () => {
    const owner = await app().make.user();
    for (const [name, path] of [
      ['b', 'z'],
      ['A', 'y'],
      ['c', 'x'],
    ] as const) {
      await app().make.project({ name, path }, owner);
    }
    const sorted = (sort: string) => list(app().as(owner), `membership: true, sort: "${sort}"`);
    expect(await sorted('id_asc')).toEqual(['b', 'A', 'c']);
    expect(await sorted('ID_DESC')).toEqual(['c', 'A', 'b']);
    expect(await sorted('NAME_ASC')).toEqual(['A', 'b', 'c']);
    expect(await sorted('name_desc')).toEqual(['c', 'b', 'A']);
    expect(await sorted('path_asc')).toEqual(['c', 'A', 'b']);
    expect(await sorted('created_desc')).toEqual(['c', 'A', 'b']);
    expect(await sorted('latest_activity_asc')).toEqual(['b', 'A', 'c']);
    for (const sort of ['updated_at_asc', 'stars_desc', 'star_count_asc', 'similarity', 'storage_size_desc']) {
      expect(await sorted(sort)).toHaveLength(3);
    }
    for (const sort of ['nonsense', 'name_up', 'id; drop table']) {
      const { errors } = await app()
        .as(owner)
        .graphql('query ($sort: String) { projects(sort: $sort) { nodes { id } } }', { sort });
      expect(errors?.[0]?.message).toContain('sort does not have a valid value (allowed: id, name, path,');
    }
  });

  it('continues after the cursor despite new rows and equal values', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const made: string[] = [];
    const add = async (namespace_id?: number) => {
      const path = `same${made.length}`;
      const { id } = await app().make.project({ name: path, path, ...(namespace_id ? { namespace_id } : {}) }, owner);
      // Set a date in the future, because the event of the creation still updates `last_activity_at` later.
      await db()
        .updateTable('projects')
        .set({ star_count: 3, last_activity_at: '2100-01-01T00:00:00Z' })
        .where('id', '=', id)
        .execute();
      made.push(path);
    };
    for (let i = 0; i < 5; i++) await add(i % 2 ? group.id : undefined);
    for (const sort of ['stars_desc', 'latest_activity_asc', 'name_asc', 'id_desc']) {
      const before = [...made];
      const seen: string[] = [];
      let after: string | null = null;
      for (let page = 0; page < 20; page++) {
        const { data, errors }: Awaited<ReturnType<Client['graphql']>> = await app()
          .as(owner)
          .graphql(
            'query ($sort: String, $after: String) { projects(membership: true, sort: $sort, first: 2, after: $after) { nodes { path } edges { cursor } pageInfo { hasNextPage endCursor } } }',
            { sort, after },
          );
        expect(errors).toBeUndefined();
        seen.push(...data.projects.nodes.map((each: { path: string }) => each.path));
        expect(data.projects.edges.at(-1).cursor).toBe(data.projects.pageInfo.endCursor);
        if (!data.projects.pageInfo.hasNextPage) break;
        after = data.projects.pageInfo.endCursor;
        if (page === 0) await add();
      }
      expect(new Set(seen).size, sort).toBe(seen.length);
      expect(
        before.filter((path) => !seen.includes(path)),
        sort,
      ).toEqual([]);
    }
  });

  it('refuses an invalid cursor', async () => {
    const client = app().as(await app().make.user());
    for (const after of ['x', btoa('["a"]'), btoa('{}')]) {
      const { errors } = await client.graphql('query ($after: String) { projects(after: $after) { nodes { id } } }', {
        after,
      });
      expect(errors?.[0]?.message.toLowerCase()).toContain('cursor');
    }
  });
});

describe('project', () => {
  it('is found by path in any case, or by id', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const id = `gid://gitlab/Project/${project.id}`;
    const read = (client: Client, args: string) => client.graphql(`{ project(${args}) { id } }`);
    expect(
      (await read(app().as(owner), `fullPath: "${project.path_with_namespace.toUpperCase()}"`)).data.project,
    ).toEqual({ id });
    expect((await read(app().as(owner), `id: "${id}"`)).data.project).toEqual({ id });
    const stranger = app().as(await app().make.user());
    expect((await read(stranger, `id: "${id}"`)).data.project).toBeNull();
    expect((await read(stranger, `fullPath: "${project.path_with_namespace}"`)).data.project).toBeNull();
    expect((await read(stranger, 'id: "gid://gitlab/Project/999999999"')).data.project).toBeNull();
    expect((await read(app().as(owner), `id: "${id}", fullPath: "a/b"`)).errors?.[0]?.message).toContain(
      'fullPath or id',
    );
    expect((await app().as(owner).graphql('{ project { id } }')).errors?.[0]?.message).toContain('fullPath or id');
  });
});

describe('the list of projects of a namespace', () => {
  it('is filtered and sorted, for groups and for users', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const sub = await app().make.group({ parent_id: group.id }, owner);
    const one = await app().make.project({ name: 'one', namespace_id: group.id }, owner);
    const two = await app().make.project({ name: 'two', namespace_id: sub.id }, owner);
    await app().make.project({ name: 'own' }, owner);
    await db().updateTable('projects').set({ marked_for_deletion_on: '2020-01-01' }).where('id', '=', two.id).execute();
    await db()
      .insertInto('project_languages')
      .values({ project_id: one.id, name: 'Namespacish', share: 100, bytes: 1 })
      .execute();
    const of = (path: string, args: string) =>
      names(
        app().as(owner),
        `namespace(fullPath: "${path}") { projects(${args}) { count nodes { name } } }`,
        'namespace.projects',
      );
    const all = 'includeSubgroups: true, sort: NAME_DESC';
    expect(await of(group.full_path, all)).toEqual(['two', 'one']);
    expect(await of(group.full_path, 'sort: NAME_ASC')).toEqual(['one']);
    expect(await of(group.full_path, `${all}, search: "tw"`)).toEqual(['two']);
    expect(await of(group.full_path, `${all}, search: ""`)).toEqual(['two', 'one']);
    expect(await of(group.full_path, `${all}, notAimedForDeletion: true`)).toEqual(['one']);
    expect(await of(group.full_path, `${all}, programmingLanguageName: "NAMESPACISH"`)).toEqual(['one']);
    expect(await of(owner.username, 'sort: ID_ASC')).toEqual(['own']);
    const hidden = await app().anonymous.graphql(
      `{ namespace(fullPath: "${group.full_path}") { projects { count } } }`,
    );
    expect(hidden.data.namespace).toBeNull();
  });
});

describe('a list of projects or groups of a user', () => {
  const contributed = (client: Client, username: string, args = '') =>
    names(
      client,
      `user(username: "${username}") { contributedProjects${args} { count nodes { name } } }`,
      'user.contributedProjects',
    );

  it('shows contributions to callers who may see the projects', async () => {
    const [owner, user] = [await app().make.user(), await app().make.user()];
    const [open, closed, confidential, none] = [
      await app().make.project({ name: 'open work', visibility: 'public' }, owner),
      await app().make.project({ name: 'closed work' }, owner),
      await app().make.project({ name: 'confidential work', visibility: 'public' }, owner),
      await app().make.project({ name: 'no work', visibility: 'public' }, owner),
    ];
    await app().make.projectMember(closed, user, 30);
    expect((await app().as(user).post(`/projects/${open.id}/issues`, { title: 't' })).status).toBe(201);
    await app().as(user).post(`/projects/${open.id}/issues`, { title: 'again' });
    await app().as(user).post(`/projects/${closed.id}/issues`, { title: 't' });
    await app().as(user).post(`/projects/${confidential.id}/issues`, { title: 't', confidential: true });
    await app().as(user).post(`/projects/${none.id}/star`);
    await app().settle();
    expect(await contributed(app().as(user), user.username)).toEqual(['closed work', 'open work']);
    expect(await contributed(app().as(user), user.username, '(sort: ID_ASC, search: "open")')).toEqual(['open work']);
    expect(await contributed(app().anonymous, user.username)).toEqual(['open work']);
    expect(await contributed(app().as(owner), user.username, '(membership: true)')).toEqual([
      'closed work',
      'open work',
    ]);
    expect(await contributed(app().as(owner), owner.username)).toEqual([]);
    const rest = async (client: Client, query = '') =>
      (await client.get(`/users/${user.id}/contributed_projects${query}`)).body.map(
        (each: { name: string }) => each.name,
      );
    expect(await rest(app().as(user))).toEqual(['closed work', 'open work']);
    expect(await rest(app().as(user), '?order_by=name&sort=desc&simple=true')).toEqual(['open work', 'closed work']);
    expect(await rest(app().anonymous)).toEqual(['open work']);
    expect((await app().anonymous.get('/users/999999999/contributed_projects')).status).toBe(404);
    // Contributions older than a year are not shown.
    await db()
      .updateTable('project_contributions')
      .set({ last_at: new Date(Date.now() - 366 * 86_400_000).toISOString() })
      .where('project_id', '=', open.id)
      .execute();
    expect(await rest(app().as(user))).toEqual(['closed work']);
    // A private profile shows contributions only to its owner.
    await db().updateTable('users').set({ private_profile: true }).where('id', '=', user.id).execute();
    expect(await rest(app().as(owner))).toEqual([]);
    expect(await contributed(app().as(owner), user.username)).toEqual([]);
    expect(await rest(app().as(user))).toEqual(['closed work']);
  });

  it('counts commits in a private project for its members, and in a public one only if everyone may read the code', async () => {
    const [owner, user, guest] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const closed = await app().make.project({ name: 'closed code' }, owner);
    const membersOnly = await app().make.project({ name: 'code for members', visibility: 'public' }, owner);
    await app().as(owner).put(`/projects/${membersOnly.id}`, { repository_access_level: 'private' });
    for (const project of [closed, membersOnly]) {
      await app().make.projectMember(project, user, 40);
      await app().make.projectMember(project, guest, 10);
      const { status } = await app()
        .as(user)
        .post(`/projects/${project.id}/repository/commits`, {
          branch: 'main',
          commit_message: 'Begin',
          actions: [{ action: 'create', file_path: 'a', content: 'a' }],
        });
      expect(status).toBe(201);
    }
    await app().settle();
    const seenBy = (client: Client) => contributed(client, user.username);
    expect(await seenBy(app().as(user))).toEqual(['closed code']);
    expect(await seenBy(app().as(guest))).toEqual(['closed code']);
    expect(await seenBy(app().as(await app().make.user()))).toEqual([]);
    expect(await seenBy(app().anonymous)).toEqual([]);
  });

  it('shows memberships to callers who may see the groups', async () => {
    const [owner, user, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const open = await app().make.group({ name: 'Open group', visibility: 'public' }, owner);
    const closed = await app().make.group({ name: 'Closed group' }, owner);
    const past = await app().make.group({ name: 'Past group', visibility: 'public' }, owner);
    await app().make.groupMember(open, user, 10);
    await app().make.groupMember(closed, user, 30);
    await app().make.groupMember(past, user, 30, '2020-01-01');
    const groups = (client: Client, args = '') =>
      names(client, `user(username: "${user.username}") { groups${args} { count nodes { name } } }`, 'user.groups');
    expect(await groups(app().as(user))).toEqual(['Closed group', 'Open group']);
    expect(await groups(app().as(owner))).toEqual(['Closed group', 'Open group']);
    expect(await groups(app().as(stranger))).toEqual(['Open group']);
    expect(await groups(app().as(user), '(search: "open")')).toEqual(['Open group']);
    const query = `{ user(username: "${user.username}") { groups { nodes { name } } } }`;
    expect((await app().anonymous.graphql(query)).data.user.groups).toBeNull();
    await db().updateTable('users').set({ private_profile: true }).where('id', '=', user.id).execute();
    expect((await app().as(stranger).graphql(query)).data.user.groups).toBeNull();
    expect(await groups(app().as(user))).toHaveLength(2);
  });

  it('shows starred projects, sorted and filtered', async () => {
    const [owner, user] = [await app().make.user(), await app().make.user()];
    for (const name of ['star b', 'star a']) {
      const { id } = await app().make.project({ name, visibility: 'public' }, owner);
      await app().as(user).post(`/projects/${id}/star`);
    }
    const starred = (client: Client, args = '') =>
      names(
        client,
        `user(username: "${user.username}") { starredProjects${args} { nodes { name } } }`,
        'user.starredProjects',
      );
    expect(await starred(app().anonymous)).toEqual(['star a', 'star b']);
    expect(await starred(app().anonymous, '(sort: NAME_DESC)')).toEqual(['star b', 'star a']);
    expect(await starred(app().as(user), '(membership: true)')).toEqual([]);
    expect(await starred(app().as(owner), '(minAccessLevel: OWNER, search: "b")')).toEqual(['star b']);
  });
});

describe('a query for many users', () => {
  it('runs as many statements for three users and sources of forks as for two, with the right result for each', async () => {
    // Create these in sequence, because they are listed by creation.
    const [owner, a] = [await app().make.user(), await app().make.user()];
    const [b, c] = [await app().make.user(), await app().make.user()];
    const source = async (name: string, by: number) => {
      const project = await app().make.project({ name, visibility: 'public' }, owner);
      for (const visibility of ['public', 'private']) {
        const { id } = await app().make.project({ name: `${visibility} of ${project.id}`, visibility }, owner);
        await db().updateTable('projects').set({ forked_from_id: project.id }).where('id', '=', id).execute();
      }
      await db().insertInto('project_stars').values({ project_id: project.id, user_id: by }).execute();
      await db()
        .insertInto('project_contributions')
        .values({ project_id: project.id, user_id: by, last_at: new Date().toISOString() })
        .execute();
      return project;
    };
    const [one, two] = [await source('first source', a.id), await source('second source', b.id)];
    const three = await source('third source', c.id);
    const queries = (ids: readonly number[], usernames: readonly string[]) => [
      `{ projects(ids: ${JSON.stringify(ids.map((id) => `gid://gitlab/Project/${id}`))}, sort: "id_asc") {
          nodes { forks(first: 5) { count nodes { name } } } } }`,
      `{ users(usernames: ${JSON.stringify(usernames)}, sort: CREATED_ASC, first: 5) {
          nodes { starredProjects(first: 5) { count nodes { name } } contributedProjects(first: 5) { count nodes { name } } } } }`,
    ];
    const stranger = app().as(await app().make.user());
    const both = queries([one.id, two.id], [a.username, b.username]);
    const tell = async (query: string) => {
      const { data, errors } = await stranger.graphql(query);
      expect(errors).toBeUndefined();
      return data;
    };
    const nested = [await tell(both[0] ?? ''), await tell(both[1] ?? '')];
    const shown = (name: string) => ({ count: 1, nodes: [{ name }] });
    expect(nested).toEqual([
      { projects: { nodes: [one, two].map(({ id }) => ({ forks: shown(`public of ${id}`) })) } },
      {
        users: {
          nodes: ['first source', 'second source'].map((name) => ({
            starredProjects: shown(name),
            contributedProjects: shown(name),
          })),
        },
      },
    ]);
    for (const [i, all] of queries([one.id, two.id, three.id], [a.username, b.username, c.username]).entries()) {
      // Run the query once, so that row caches are warm.
      await tell(all);
      const least = await countStatements(app(), () => stranger.graphql(both[i] ?? ''));
      expect(await countStatements(app(), () => stranger.graphql(all))).toBe(least);
    }
  });
});
