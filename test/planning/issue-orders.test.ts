import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { makeScene } from './scene.ts';

// Issues without a value come last in both directions, by their id. Such an order is read as two lists.

const app = useApp();
let scene: Awaited<ReturnType<typeof makeScene>>;

/** The values of the issues in the order of their ids. Two are equal. */
const VALUES = [3, null, 1, null, 2, 1, null] as const;

beforeAll(async () => {
  scene = await makeScene(app());
  const ids: number[] = [];
  for (const [n] of VALUES.entries())
    ids.push((await scene.owner.post(`${scene.path}/issues`, { title: `issue ${n}` })).body.id);
  for (const [n, value] of VALUES.entries())
    await app()
      .hub.services.db.updateTable('issues')
      .set({ weight: value, relative_position: value, due_date: value === null ? null : `2030-01-0${value}` })
      .where('id', '=', ids[n] ?? 0)
      .execute();
});

const ORDERS = {
  asc: [2, 5, 4, 0, 1, 3, 6],
  desc: [0, 4, 5, 2, 6, 3, 1],
} as const;

/** GraphQL has the order by position in one direction. */
const SORTS = [
  ['DUE_DATE_ASC', 'asc'],
  ['DUE_DATE_DESC', 'desc'],
  ['WEIGHT_ASC', 'asc'],
  ['WEIGHT_DESC', 'desc'],
  ['RELATIVE_POSITION_ASC', 'asc'],
] as const;

describe.each(['due_date', 'weight', 'relative_position'])('issues by %s', (order) => {
  it.each(['asc', 'desc'] as const)('come page by page, %s', async (direction) => {
    const expected = ORDERS[direction].map((n) => `issue ${n}`);
    const query = `scope=all&order_by=${order}&sort=${direction}`;
    for (const path of ['/issues', `${scene.path}/issues`]) {
      for (const size of [1, 2, 3, 5, 20]) {
        const seen: string[] = [];
        for (let page = 1; page <= Math.ceil(VALUES.length / size); page++) {
          const { body, headers } = await scene.owner.get(`${path}?${query}&per_page=${size}&page=${page}`);
          expect(headers.get('x-total')).toBe(String(VALUES.length));
          seen.push(...body.map(({ title }: { title: string }) => title));
        }
        expect(seen).toEqual(expected);
      }
      expect((await scene.owner.get(`${path}?${query}&per_page=5&page=9`)).body).toEqual([]);
    }
  });
});

describe('issues over GraphQL', () => {
  it.each(SORTS)('come in the order below their project: %s', async (sort, direction) => {
    const { body: project } = await scene.owner.get(scene.path);
    const { data, errors } = await scene.owner.graphql(
      `query ($path: ID!) { project(fullPath: $path) { issues(sort: ${sort}, first: 6) { nodes { title } } } }`,
      { path: project.path_with_namespace },
    );
    expect(errors).toBeUndefined();
    const titles = data.project.issues.nodes.map(({ title }: { title: string }) => title);
    expect(titles).toEqual(ORDERS[direction].slice(0, 6).map((n) => `issue ${n}`));
  });

  it.each(SORTS)('come by cursors from both ends: %s', async (sort, direction) => {
    const expected = ORDERS[direction].map((n) => `issue ${n}`);
    const page = async (window: string) => {
      const { data, errors } = await scene.owner.graphql(
        `{ issues(sort: ${sort}, ${window}) { nodes { title } pageInfo { startCursor endCursor hasNextPage hasPreviousPage } } }`,
      );
      expect(errors).toBeUndefined();
      const { nodes, pageInfo } = data.issues;
      return { titles: nodes.map(({ title }: { title: string }) => title), ...pageInfo };
    };
    for (const size of [1, 2, 3, 5]) {
      const forwards: string[] = [];
      for (let cursor = '', more = true; more; ) {
        const found = await page(`first: ${size}${cursor}`);
        forwards.push(...found.titles);
        cursor = `, after: "${found.endCursor}"`;
        more = found.hasNextPage;
      }
      expect(forwards).toEqual(expected);
      const backwards: string[] = [];
      for (let cursor = '', more = true; more; ) {
        const found = await page(`last: ${size}${cursor}`);
        backwards.unshift(...found.titles);
        cursor = `, before: "${found.startCursor}"`;
        more = found.hasPreviousPage;
      }
      expect(backwards).toEqual(expected);
    }
  });
});

describe('all issues that a caller can see', () => {
  it.each([
    ['title', 'order by title, id', 'issues_title'],
    ['due date', 'and due_date is not null order by due_date, id', 'issues_due'],
    ['weight', 'and weight is not null order by weight desc, id desc', 'issues_weight'],
    ['position', 'and relative_position is not null order by relative_position, id', 'issues_position'],
  ])('have an index for the order by %s', async (_order, rest, index) => {
    const plan = await app()
      .hub.services.db.transaction()
      .execute(async (db) => {
        // A small table is otherwise read as a whole.
        await sql`set local enable_seqscan = off; set local enable_sort = off; set local enable_bitmapscan = off`.execute(
          db,
        );
        return await sql<{ 'QUERY PLAN': string }>`
          explain select * from issues where state = 'opened' ${sql.raw(rest)} limit 20`.execute(db);
      });
    expect(plan.rows.map((row) => row['QUERY PLAN']).join('\n')).toContain(`using ${index} on issues`);
  });
});
