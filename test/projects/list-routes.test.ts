import { beforeAll, describe, expect, it } from 'vitest';
import { routes } from '#app/routes.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';

// Every list of projects takes the same filters and orders. Each is checked on each list that declares it.

const app = useApp();
const db = () => app().hub.services.db;

interface Scene {
  /** The owner of the personal namespace, who starred all projects and contributed to them. */
  readonly owner: TestUser;
  readonly viewer: TestUser;
  readonly projects: readonly TestProject[];
  readonly paths: Readonly<Record<string, string>>;
}
let personal: Scene;
let grouped: Scene;

/**
 * Creates four projects that are in each list of the scene, oldest first:
 * 0: public, archived, starred by the viewer, written in Brainfudge
 * 1: private, the viewer maintains it
 * 2: public, the viewer owns it, merge requests are disabled
 * 3: public, with the attribute team=blue, issues are disabled
 */
const scene = async (inGroup: boolean): Promise<Scene> => {
  const { make, as } = app();
  const [owner, viewer] = [await make.user(), await make.user()];
  const group = await make.group({ visibility: 'public' }, owner);
  const guests = await make.group({ visibility: 'public' }, owner);
  const source = await make.project({ visibility: 'public' });
  const projects: TestProject[] = [];
  const place = inGroup ? { namespace_id: group.id } : {};
  for (const attributes of [
    { name: 'Delta heron', visibility: 'public' },
    { name: 'Alpha egret' },
    { name: 'Charlie heron', visibility: 'public', merge_requests_access_level: 'disabled' },
    { name: 'Bravo egret', path: 'ZEBRA', visibility: 'public', issues_access_level: 'disabled' },
  ]) {
    projects.push(await make.project({ ...attributes, ...place }, owner));
  }
  const now = new Date().toISOString();
  for (const [index, { id }] of projects.entries()) {
    await as(owner).post(`/projects/${id}/share`, { group_id: guests.id, group_access: 10 });
    await db()
      .insertInto('project_stars')
      .values([{ user_id: owner.id, project_id: id }, ...(index === 0 ? [{ user_id: viewer.id, project_id: id }] : [])])
      .execute();
    await db()
      .insertInto('project_contributions')
      .values({ user_id: owner.id, project_id: id, last_at: now })
      .execute();
  }
  const [first, second, third, fourth] = projects;
  if (!first || !second || !third || !fourth) throw new Error('four projects were created');
  await db().updateTable('projects').set({ archived: true }).where('id', '=', first.id).execute();
  await db()
    .insertInto('project_languages')
    .values({ project_id: first.id, name: 'Brainfudge', share: 100, bytes: 9 })
    .execute();
  await make.projectMember(second, viewer, 40);
  await make.projectMember(third, viewer, 50);
  await as(app().root).put(`/projects/${fourth.id}/custom_attributes/team`, { value: 'blue' });
  // Followers set the times, too.
  await app().settle();
  for (const [index, { id }] of projects.entries()) {
    const at = { updated_at: `2020-01-0${index + 1}T00:00:00Z`, last_activity_at: `2020-02-0${4 - index}T00:00:00Z` };
    await db()
      .updateTable('projects')
      .set({ ...at, forked_from_id: source.id, star_count: index % 2 })
      .where('id', '=', id)
      .execute();
  }
  return {
    owner,
    viewer,
    projects,
    paths: {
      '/users/:user_id/projects': `/users/${owner.id}/projects`,
      '/users/:user_id/starred_projects': `/users/${owner.id}/starred_projects`,
      '/users/:user_id/contributed_projects': `/users/${owner.id}/contributed_projects`,
      '/projects/:id/forks': `/projects/${source.id}/forks`,
      '/groups/:id/projects': `/groups/${group.id}/projects`,
      '/groups/:id/projects/shared': `/groups/${guests.id}/projects/shared`,
    },
  };
};

beforeAll(async () => {
  personal = await scene(false);
  grouped = await scene(true);
});

type Query = Readonly<Record<string, string>>;
const ALL = [0, 1, 2, 3];

/** The result of each query for a viewer, as indexes of the projects. By id, unless the query sets another order. */
const FILTERS: readonly (readonly [Query, readonly number[]])[] = [
  [{}, ALL],
  [{ archived: 'true' }, [0]],
  [{ archived: 'false' }, [1, 2, 3]],
  [{ membership: 'true' }, [1, 2]],
  [{ min_access_level: '40' }, [1, 2]],
  [{ min_access_level: '50' }, [2]],
  [{ owned: 'true' }, [2]],
  [{ search: 'HERON' }, [0, 2]],
  [{ starred: 'true' }, [0]],
  [{ visibility: 'private' }, [1]],
  [{ visibility: 'public' }, [0, 2, 3]],
  [{ with_issues_enabled: 'true' }, [0, 1, 2]],
  [{ with_merge_requests_enabled: 'true' }, [0, 1, 3]],
  [{ with_programming_language: 'brainfudge' }, [0]],
  [{ order_by: 'name', sort: 'asc' }, [1, 3, 2, 0]],
  [{ order_by: 'path', sort: 'desc' }, [3, 2, 1, 0]],
  [{ order_by: 'created_at', sort: 'asc' }, ALL],
  [{ order_by: 'updated_at', sort: 'desc' }, [3, 2, 1, 0]],
  [{ order_by: 'last_activity_at', sort: 'asc' }, [3, 2, 1, 0]],
  [{ updated_after: '2020-01-02T12:00:00Z', order_by: 'updated_at' }, [2, 3]],
  [{ updated_before: '2020-01-02T12:00:00Z', order_by: 'updated_at' }, [0, 1]],
  // Without that order they do not apply (specification 1 §4.5).
  [{ updated_after: '2020-01-02T12:00:00Z' }, ALL],
  [{ last_activity_after: '2020-02-02T12:00:00Z' }, [0, 1]],
  [{ last_activity_before: '2020-02-02T12:00:00Z' }, [2, 3]],
];

const LISTS = [
  ['/users/:user_id/projects', () => personal],
  ['/users/:user_id/starred_projects', () => personal],
  ['/users/:user_id/contributed_projects', () => personal],
  ['/projects/:id/forks', () => personal],
  ['/groups/:id/projects', () => grouped],
  ['/groups/:id/projects/shared', () => grouped],
] as const;

describe.each(LISTS)('GET %s', (route, sceneOf) => {
  const declared = new Set(
    Object.keys(routes.find(({ method, path }) => method === 'GET' && path === route)?.shape ?? {}),
  );

  const list = async (user: TestUser, query: Query) => {
    const { paths } = sceneOf();
    const parameters = new URLSearchParams({ order_by: 'id', sort: 'asc', ...query });
    const { status, body } = await app().as(user).get(`${paths[route]}?${parameters}`);
    expect([status, body], String(parameters)).toEqual([200, expect.any(Array)]);
    return body;
  };
  const indexes = async (user: TestUser, query: Query): Promise<number[]> => {
    const { projects } = sceneOf();
    return (await list(user, query)).map((each: { id: number }) => projects.findIndex(({ id }) => id === each.id));
  };

  it('filters and orders', async () => {
    const { viewer } = sceneOf();
    for (const [query, expected] of FILTERS) {
      if (!Object.keys(query).every((name) => declared.has(name))) continue;
      expect([query, await indexes(viewer, query)]).toEqual([query, expected]);
    }
  });

  if (declared.has('id_after'))
    it('lists ids after and before another', async () => {
      const { viewer, projects } = sceneOf();
      expect(await indexes(viewer, { id_after: String(projects[1]?.id) })).toEqual([2, 3]);
      expect(await indexes(viewer, { id_before: String(projects[1]?.id) })).toEqual([0]);
    });

  it('uses custom attributes for administrators only', async () => {
    const { viewer, projects } = sceneOf();
    const { root } = app();
    if (declared.has('custom_attributes')) {
      expect(await indexes(root, { 'custom_attributes[team]': 'blue' })).toEqual([3]);
      expect(await indexes(root, { 'custom_attributes[team]': 'red' })).toEqual([]);
      expect(await indexes(viewer, { 'custom_attributes[team]': 'red' })).toEqual(ALL);
    }
    const shown = async (user: TestUser) =>
      (await list(user, { with_custom_attributes: 'true' })).find(({ id }: TestProject) => id === projects[3]?.id)
        .custom_attributes;
    expect(await shown(root)).toEqual([{ key: 'team', value: 'blue' }]);
    expect(await shown(viewer)).toBeUndefined();
  });

  it('shortens the records with `simple`', async () => {
    const { viewer } = sceneOf();
    const [full] = await list(viewer, { simple: 'false' });
    const [short] = await list(viewer, { simple: 'true' });
    expect(full).toHaveProperty('visibility');
    expect(short).not.toHaveProperty('visibility');
    expect(full).toMatchObject({ id: short.id, name: short.name });
  });

  it('has pages that link to the next', async () => {
    const { viewer, projects } = sceneOf();
    const at = `${sceneOf().paths[route]}?order_by=id&sort=asc&per_page=3`;
    const first = await app().as(viewer).get(at);
    expect(first.body).toHaveLength(3);
    expect(first.headers.get('link')).toMatch(/page=2[^>]*>; rel="next"/);
    const second = await app().as(viewer).get(`${at}&page=2`);
    expect(second.body.map((each: { id: number }) => each.id)).toEqual([projects[3]?.id]);
  });
});
