import { beforeAll, expect, it } from 'vitest';
import { only } from '#platform/values/only.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

// More than the 2,000 rows that are searched in the order of the list: "oak" is common, "yew" comes after them only.
const GROUPS = 2_400;
let paths: readonly string[] = [];
const containing = (term: string) => paths.filter((path) => path.includes(term));

beforeAll(async () => {
  const { rows } = await app().hub.services.pool.query<{ full_path: string }>(
    `insert into namespaces (id, kind, traversal_ids, name, path, full_path, full_name, visibility_level)
       select 1000000 + n, 'group', array[1000000 + n], tree, tree, tree, tree, 20
       from generate_series(1, $1::int) n cross join lateral (
         select 'wood-' || lpad(n::text, 5, '0') || case when n > $1 - 7 then '-yew' when n % 2 = 0 then '-oak' else '-elm' end as tree)
       order by n returning full_path`,
    [GROUPS],
  );
  paths = rows.map(({ full_path }) => full_path);
});

const found = async (path: string): Promise<readonly string[]> => {
  const { status, body } = await app().as(app().root).get(path);
  expect(status).toBe(200);
  return body.map((each: { full_path: string }) => each.full_path);
};

it('finds a common term among the first rows, and pages after them by an index', async () => {
  const oaks = containing('oak');
  expect(await found('/namespaces?search=-oak&per_page=5')).toEqual(oaks.slice(0, 5));
  expect(await found('/namespaces?search=-oak&per_page=100&page=10')).toEqual(oaks.slice(900, 1_000));
  expect(await found('/namespaces?search=-oak&per_page=100&page=11')).toEqual(oaks.slice(1_000, 1_100));
  expect(await found('/namespaces?search=-oak&per_page=100&page=12')).toEqual(oaks.slice(1_100));
  expect((await app().as(app().root).get('/namespaces?search=-oak')).headers.get('x-total')).toBe(String(oaks.length));
});

it('finds a term that only later rows contain, and none', async () => {
  expect(await found('/namespaces?search=YEW')).toEqual(containing('yew'));
  expect(await found('/namespaces?search=YEW&per_page=3&page=2')).toEqual(containing('yew').slice(3, 6));
  expect(await found('/namespaces?search=-ash')).toEqual([]);
});

it('finds them from both ends over GraphQL', async () => {
  const read = async (page: string) => {
    const { data } = await app()
      .as(app().root)
      .graphql(`{ namespaces(${page}) { nodes { fullPath } pageInfo { startCursor endCursor } } }`);
    const list = data?.namespaces;
    return { paths: list.nodes.map(({ fullPath }: { fullPath: string }) => fullPath), ...list.pageInfo };
  };
  const [elms, yews] = [containing('elm'), containing('yew')];
  const last = await read('search: "-elm", last: 4');
  expect(last.paths).toEqual(elms.slice(-4));
  expect((await read(`search: "-elm", last: 4, before: "${last.startCursor}"`)).paths).toEqual(elms.slice(-8, -4));
  const first = await read('search: "-yew", first: 3');
  expect(first.paths).toEqual(yews.slice(0, 3));
  expect((await read(`search: "-yew", first: 3, after: "${first.endCursor}"`)).paths).toEqual(yews.slice(3, 6));
});

it('finds the groups that a project may move into by name', async () => {
  const project = await app().make.project();
  const locations = `/projects/${project.id}/transfer_locations`;
  expect(await found(`${locations}?search=-oak&per_page=3&page=2`)).toEqual(containing('oak').slice(3, 6));
  expect(await found(`${locations}?search=-yew&per_page=3&page=2`)).toEqual(containing('yew').slice(3, 6));
});

it('finds groups in each order, as far as the caller sees them', async () => {
  const [oaks, yews] = [containing('oak'), containing('yew')];
  const member = await app().make.user();
  const own = await app().make.group({ name: 'own', path: 'zz-own-yew', visibility: 'private' }, member);
  const as = { anonymous: app().anonymous, member: app().as(member), administrator: app().as(app().root) };
  for (const [caller, client] of Object.entries(as)) {
    const read = async (query: string) => {
      const { status, body, headers } = await client.get(`/groups?all_available=true&${query}`);
      expect(status).toBe(200);
      return { total: headers.get('x-total'), paths: body.map((each: { full_path: string }) => each.full_path) };
    };
    const known = caller === 'anonymous' ? yews : [...yews, own.full_path];
    expect(await read('search=-oak&per_page=3')).toEqual({ total: String(oaks.length), paths: oaks.slice(0, 3) });
    expect((await read('search=-oak&per_page=100&page=11')).paths).toEqual(oaks.slice(1_000, 1_100));
    expect((await read('search=-oak&per_page=2&sort=desc')).paths).toEqual(oaks.toReversed().slice(0, 2));
    expect((await read('search=-oak&per_page=2&order_by=id')).paths).toEqual(oaks.slice(0, 2));
    expect((await read('search=-yew&order_by=path')).paths.toSorted()).toEqual(known.toSorted());
    expect((await read('search=-elm-none')).paths).toEqual([]);
    const first = await client.graphql(
      '{ groups(allAvailable: true, search: "-yew", last: 2) { nodes { fullPath } pageInfo { startCursor } } }',
    );
    const { nodes, pageInfo } = only([first.data?.groups]);
    const before = await client.graphql(
      `{ groups(allAvailable: true, search: "-yew", last: 9, before: "${pageInfo.startCursor}") { nodes { fullPath } } }`,
    );
    const both = [...only([before.data?.groups]).nodes, ...nodes];
    expect(both.map(({ fullPath }: { fullPath: string }) => fullPath).toSorted()).toEqual(known.toSorted());
  }
});
