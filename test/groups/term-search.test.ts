import { beforeAll, expect, it } from 'vitest';
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
