import { beforeAll, describe, expect, it } from 'vitest';
import { routes } from '#app/routes.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup } from '../support/factories.ts';

// Every list of groups takes the same filters and orders. Each is checked on each list that declares it.

const app = useApp();
const db = () => app().hub.services.db;

let viewer: TestUser;
let groups: TestGroup[];
let paths: Readonly<Record<string, string>>;

/**
 * Four groups below one parent, shared with another group, oldest first:
 * 0: public, marked for deletion, on the storage `far`
 * 1: private, the viewer is a Maintainer
 * 2: public, the viewer is an Owner
 * 3: public, with the attribute team=blue, the viewer is a Guest
 */
beforeAll(async () => {
  const { make, as, root } = app();
  const owner = await make.user();
  viewer = await make.user();
  const parent = await make.group({ name: 'Aviary', path: 'aviary', visibility: 'public' }, owner);
  const guests = await make.group({ visibility: 'public' }, owner);
  groups = [];
  for (const [name, path, visibility] of [
    ['Delta', 'delta-heron', 'public'],
    ['Alpha heron', 'xenon-egret', 'private'],
    ['charlie', 'charlie-heron', 'public'],
    ['Bravo', 'Bravo-egret', 'public'],
  ])
    groups.push(await make.group({ name, path, visibility, parent_id: parent.id }, owner));
  const [first, second, third, fourth] = groups;
  if (!first || !second || !third || !fourth) throw new Error('four groups were created');
  for (const { id } of groups) await as(owner).post(`/groups/${id}/share`, { group_id: guests.id, group_access: 10 });
  await db()
    .updateTable('namespaces')
    .set({ marked_for_deletion_on: '2020-02-02', repository_storage: 'far' })
    .where('id', '=', first.id)
    .execute();
  await make.groupMember(second, viewer, 40);
  await make.groupMember(third, viewer, 50);
  await make.groupMember(fourth, viewer, 10);
  await as(root).put(`/groups/${fourth.id}/custom_attributes/team`, { value: 'blue' });
  paths = {
    '/groups': '/groups',
    '/groups/:id/subgroups': `/groups/${parent.id}/subgroups`,
    '/groups/:id/descendant_groups': `/groups/${parent.id}/descendant_groups`,
    '/groups/:id/groups/shared': `/groups/${guests.id}/groups/shared`,
  };
});

type Query = Readonly<Record<string, string>>;
const ALL = [0, 1, 2, 3];
const ROUTES = ['/groups', '/groups/:id/subgroups', '/groups/:id/descendant_groups', '/groups/:id/groups/shared'];

/** The result of each query for a viewer, as indexes of the groups. By id, unless the query sets another order. */
const FILTERS: readonly (readonly [Query, readonly number[]])[] = [
  [{}, ALL],
  [{ min_access_level: '10' }, [1, 2, 3]],
  [{ min_access_level: '40' }, [1, 2]],
  [{ owned: 'true' }, [2]],
  [{ visibility: 'private' }, [1]],
  [{ visibility: 'public' }, [0, 2, 3]],
  [{ marked_for_deletion_on: '2020-02-02' }, [0]],
  [{ marked_for_deletion_on: '2020-02-03' }, []],
  [{ order_by: 'name', sort: 'asc' }, [1, 3, 2, 0]],
  [{ order_by: 'name', sort: 'desc' }, [0, 2, 3, 1]],
  [{ order_by: 'path', sort: 'asc' }, [3, 2, 0, 1]],
  [{ order_by: 'path', sort: 'desc' }, [1, 0, 2, 3]],
  [{ order_by: 'id', sort: 'desc' }, [3, 2, 1, 0]],
];

it('are ordered by name, whatever its case, over GraphQL and where a project may move', async () => {
  const { make, as } = app();
  const { data } = await as(viewer).graphql(
    `{ group(fullPath: "aviary") {
      all: descendantGroups { nodes { name } } page: descendantGroups(first: 3) { pageInfo { endCursor } } } }`,
  );
  expect(data.group.all.nodes.map(({ name }: { name: string }) => name)).toEqual([
    ...['Alpha heron', 'Bravo', 'charlie', 'Delta'],
  ]);
  const after = data.group.page.pageInfo.endCursor;
  const rest = await as(viewer).graphql(
    'query ($after: String) { group(fullPath: "aviary") { descendantGroups(after: $after) { nodes { name } } } }',
    { after },
  );
  expect(rest.data.group.descendantGroups.nodes).toEqual([{ name: 'Delta' }]);
  const mover = await make.user();
  for (const name of ['beech', 'Cedar', 'Alder']) await make.group({ name }, mover);
  const project = await make.project({}, mover);
  const places = await as(mover).get(`/projects/${project.id}/transfer_locations`);
  expect(places.body.map(({ name }: { name: string }) => name)).toEqual(['Alder', 'beech', 'Cedar']);
});

describe.each(ROUTES)('GET %s', (route) => {
  const declared = new Set(
    Object.keys(routes.find(({ method, path }) => method === 'GET' && path === route)?.shape ?? {}),
  );

  /** The records of the scene's groups, in the order of the list. */
  const list = async (user: TestUser, query: Query) => {
    const all: Query = declared.has('all_available') ? { all_available: 'true' } : {};
    const parameters = new URLSearchParams({ order_by: 'id', sort: 'asc', per_page: '100', ...all, ...query });
    const { status, body } = await app().as(user).get(`${paths[route]}?${parameters}`);
    expect([status, body], String(parameters)).toEqual([200, expect.any(Array)]);
    return body.filter((each: TestGroup) => groups.some(({ id }) => id === each.id));
  };
  const indexes = async (user: TestUser, query: Query): Promise<number[]> =>
    (await list(user, query)).map((each: TestGroup) => groups.findIndex(({ id }) => id === each.id));

  it('filters and orders', async () => {
    for (const [query, expected] of FILTERS) expect([query, await indexes(viewer, query)]).toEqual([query, expected]);
    const skipped = groups.slice(0, 2).map(({ id }) => id);
    expect(await indexes(viewer, { skip_groups: skipped.join(',') })).toEqual([2, 3]);
  });

  it('has pages', async () => {
    const at = `${paths[route]}?order_by=id&sort=asc&per_page=3&all_available=true`;
    const first = await app().as(viewer).get(at);
    expect(first.body).toHaveLength(3);
    expect(first.headers.get('link')).toMatch(/page=2[^>]*>; rel="next"/);
    const found = (await app().as(viewer).get(`${at}&page=2`)).body.map(({ id }: TestGroup) => id);
    if (route !== '/groups') expect(found).toEqual([groups[3]?.id]);
    for (const { id } of first.body) expect(found).not.toContain(id);
  });

  if (route === '/groups')
    it('continues by keyset in each order', async () => {
      for (const order of ['id', 'name', 'path']) {
        const query = `order_by=${order}&sort=asc&all_available=true`;
        const whole = (await app().as(viewer).get(`/groups?${query}`)).body.map(({ id }: TestGroup) => id);
        const found: number[] = [];
        let next: string | null = `/api/v4/groups?${query}&pagination=keyset&per_page=4`;
        while (next !== null) {
          const answer = await app().as(viewer).get(next);
          found.push(...answer.body.map(({ id }: TestGroup) => id));
          const link = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1];
          next = link === undefined ? null : new URL(link).pathname + new URL(link).search;
        }
        expect([order, found]).toEqual([order, whole]);
      }
    });

  it('searches names and paths, or only short paths below a group', async () => {
    const below = route.endsWith('/subgroups') || route.endsWith('/descendant_groups');
    expect(await indexes(viewer, { search: 'heron' })).toEqual(below ? [0, 2] : [0, 1, 2]);
    expect(await indexes(viewer, { search: 'aviary/bravo' })).toEqual(below ? [] : [3]);
    // A long term must occur as a whole: its two ends alone are not enough.
    expect(await indexes(viewer, { search: 'charlie-heron' })).toEqual([2]);
    expect(await indexes(viewer, { search: 'harlie-her' })).toEqual([2]);
    expect(await indexes(viewer, { search: 'charlie-and-heron' })).toEqual([]);
    expect(await indexes(viewer, { search: 'egret xenon' })).toEqual([1]);
    expect(await indexes(viewer, { search: 'heron xenon' })).toEqual([]);
    expect(await indexes(viewer, { search: 'aviary/charlie-heron' })).toEqual(below ? [] : [2]);
    const similar = { order_by: 'similarity', search: 'heron', sort: 'asc' };
    // The closest first, whatever `sort` says.
    expect(await indexes(viewer, similar)).toEqual(below ? [0, 2] : expect.arrayContaining([0, 1, 2]));
    expect(await indexes(viewer, { order_by: 'similarity', sort: 'desc' })).toEqual([1, 3, 2, 0]);
  });

  it('uses storages, custom attributes and statistics for administrators only', async () => {
    const { root } = app();
    expect(await indexes(root, { repository_storage: 'far' })).toEqual([0]);
    expect(await indexes(viewer, { repository_storage: 'far' })).toEqual(ALL);
    expect(await indexes(root, { 'custom_attributes[team]': 'blue' })).toEqual([3]);
    expect(await indexes(root, { 'custom_attributes[team]': 'red' })).toEqual([]);
    expect(await indexes(viewer, { 'custom_attributes[team]': 'red' })).toEqual(ALL);
    const shown = async (user: TestUser) => (await list(user, { with_custom_attributes: 'true' })).at(-1);
    expect((await shown(root)).custom_attributes).toEqual([{ key: 'team', value: 'blue' }]);
    expect(await shown(viewer)).not.toHaveProperty('custom_attributes');
    if (!declared.has('statistics')) return;
    const counted = async (user: TestUser) => (await list(user, { statistics: 'true' })).at(-1);
    expect((await counted(root)).statistics).toMatchObject({ repository_size: 0 });
    expect(await counted(viewer)).not.toHaveProperty('statistics');
  });

  if (declared.has('all_available'))
    it('lists the groups of the caller unless it shall list all', async () => {
      expect(await indexes(viewer, { all_available: 'false' })).toEqual([1, 2, 3]);
      expect(await indexes(viewer, { all_available: 'true' })).toEqual(ALL);
    });

  if (declared.has('top_level_only'))
    it('lists top-level groups only', async () => {
      const { body } = await app().as(viewer).get(`${paths[route]}?top_level_only=true&all_available=true`);
      expect(body.map((each: { full_path: string }) => each.full_path)).toContain('aviary');
      expect(await indexes(viewer, { top_level_only: 'true' })).toEqual([]);
    });
});

it('lists only top-level namespaces with `top_level_only`', async () => {
  const kinds = async (query: string) =>
    (await app().as(viewer).get(`/namespaces?${query}`)).body.map((each: { full_path: string }) => each.full_path);
  expect(await kinds('')).toContain('aviary/charlie-heron');
  expect(await kinds('top_level_only=true')).toEqual([viewer.username]);
});
