import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { type Page, type PageRequest, slicePage } from '#platform/paging.ts';
import { idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute } from '#rest/route.ts';
import { createTinyApp, EXTERNAL_URL, type TinyApp } from './harness.ts';

const all = Array.from({ length: 45 }, (_, index) => ({ id: index + 1 }));
const Item = z.object({ id: z.number() });
const base = { tag: 'Items', auth: 'optional', item: Item } as const;
let seen: PageRequest | null = null;

const keysetPage = (page: PageRequest, idAfter = 0): Page<{ id: number }> => {
  seen = page;
  if (page.kind === 'offset') return slicePage(all, page);
  const after = Math.max(idAfter, Number(page.cursor?.id ?? 0));
  const rows = all.filter(({ id }) => id > after).slice(0, page.limit + 1);
  const last = rows.length > page.limit ? rows.at(page.limit - 1) : undefined;
  return { items: rows.slice(0, page.limit), next: last ? { [page.order_by]: last.id, id: last.id } : null };
};

const routes = [
  listRoute({
    ...base,
    path: '/groups/:id/items',
    summary: 'By offset',
    input: { id: idOrPath(), search: text().optional() },
    paging: 'offset',
    run: async (_ctx, _input, page) => slicePage(all, page),
  }),
  listRoute({
    ...base,
    path: '/none',
    summary: 'Empty',
    paging: 'offset',
    run: async (_ctx, _input, page) => slicePage([], page),
  }),
  listRoute({
    ...base,
    path: '/many',
    summary: 'More than are counted',
    paging: 'offset',
    run: async (_ctx, _input, page) => ({ items: all.slice(0, page.limit), total: null, hasNext: true }),
  }),
  listRoute({
    ...base,
    path: '/projects',
    summary: 'Keyset by id',
    input: {
      id_after: integer().optional(),
      id_before: integer().optional(),
      order_by: oneOf(['id', 'name']).default('name'),
      sort: oneOf(['asc', 'desc']).default('asc'),
    },
    paging: { keyset: { id: 'integer' }, continueBy: 'id', shallowOffset: true },
    run: async (_ctx, { id_after }, page) => keysetPage(page, id_after),
  }),
  listRoute({
    ...base,
    path: '/users',
    summary: 'Keyset by cursor',
    input: { order_by: oneOf(['id', 'name', 'created_at']).default('id'), sort: oneOf(['asc', 'desc']).default('asc') },
    paging: { keyset: { id: 'integer', created_at: 'time', name: 'text' }, sorts: ['asc'] },
    run: async (_ctx, _input, page) => keysetPage(page),
  }),
  listRoute({
    ...base,
    path: '/branches',
    summary: 'Keyset by name',
    input: { sort: oneOf(['name_asc', 'updated_asc']).default('name_asc') },
    paging: { keyset: 'name', sort: 'name_asc' },
    run: async (_ctx, _input, page) => {
      seen = page;
      return { items: all.slice(0, page.limit), next: { name: 'a/b & c' } };
    },
  }),
];

let app: TinyApp;
beforeAll(async () => {
  app = await createTinyApp(routes);
});
afterAll(() => app[Symbol.asyncDispose]());

const API = '/api/v4';

describe('offset paging', () => {
  it('answers the first page with all headers', async () => {
    const { status, headers, json } = await app.ask(`${API}/groups/a%2Fb/items?search=a%20b&private_x=1`);
    expect(status).toBe(200);
    expect(json()).toHaveLength(20);
    const url = (page: number) =>
      `<${EXTERNAL_URL}/api/v4/groups/a%2Fb/items?search=a%20b&private_x=1&page=${page}&per_page=20>`;
    expect(headers).toMatchObject({
      'x-page': '1',
      'x-per-page': '20',
      'x-next-page': '2',
      'x-prev-page': '',
      'x-total': '45',
      'x-total-pages': '3',
      link: `${url(2)}; rel="next", ${url(1)}; rel="first", ${url(3)}; rel="last"`,
    });
  });

  it('answers the last page, and one past the end', async () => {
    const last = await app.ask(`${API}/groups/1/items?page=3&per_page=20`);
    expect(last.json()).toHaveLength(5);
    expect(last.headers).toMatchObject({ 'x-next-page': '', 'x-prev-page': '2' });
    expect(last.headers.link).not.toContain('rel="next"');
    expect(last.headers.link).toContain('page=2&per_page=20>; rel="prev"');
    const beyond = await app.ask(`${API}/groups/1/items?page=99`);
    expect(beyond.status).toBe(200);
    expect(beyond.text).toBe('[]');
    expect(beyond.headers['x-next-page']).toBe('');
  });

  it('answers an empty list with one page', async () => {
    const { text, headers } = await app.ask(`${API}/none`);
    expect(text).toBe('[]');
    expect(headers).toMatchObject({ 'x-page': '1', 'x-total': '0', 'x-total-pages': '1', 'x-next-page': '' });
  });

  it('omits the totals beyond the limit', async () => {
    const { headers } = await app.ask(`${API}/many?page=2`);
    expect(headers['x-total']).toBeUndefined();
    expect(headers['x-total-pages']).toBeUndefined();
    expect(headers).toMatchObject({ 'x-next-page': '3', 'x-prev-page': '1' });
    expect(headers.link).toContain('rel="next"');
    expect(headers.link).not.toContain('rel="last"');
  });

  it('clamps a page of more than 100', async () => {
    const { headers } = await app.ask(`${API}/none?per_page=1000000000`);
    expect(headers['x-per-page']).toBe('100');
  });

  it.each([
    'page=0',
    'page=-1',
    'per_page=0',
    'per_page=-5',
    'page=x',
    'page=18446744073709551616',
    'page[]=1',
    'page=1&page=2',
  ])('refuses %s', async (query) => {
    const { status, json } = await app.ask(`${API}/none?${query}`);
    expect(status).toBe(400);
    expect(json()).toHaveProperty('error', expect.stringContaining('page'));
  });

  it('answers HEAD with the same headers and no body', async () => {
    const get = await app.ask(`${API}/groups/1/items`);
    const head = await app.ask(`${API}/groups/1/items`, { method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(head.text).toBe('');
    for (const name of ['x-total', 'link', 'x-next-page', 'content-length', 'content-type', 'etag']) {
      expect(head.headers[name]).toBe(get.headers[name]);
    }
  });

  it('escapes a query that would end the link early', async () => {
    const { headers } = await app.ask(`${API}/none?x=%3E>;%20rel="next"&page=1`);
    expect(headers.link).toBe(
      `<${EXTERNAL_URL}/api/v4/none?x=%3E%3E;%20rel=%22next%22&page=1&per_page=20>; rel="first", <${EXTERNAL_URL}/api/v4/none?x=%3E%3E;%20rel=%22next%22&page=1&per_page=20>; rel="last"`,
    );
  });
});

describe('keyset paging', () => {
  const follow = async (first: string): Promise<number[]> => {
    const ids: number[] = [];
    let path: string | undefined = first;
    for (let pages = 0; path !== undefined && pages < 20; pages++) {
      const answer = await app.ask(path);
      expect(answer.status).toBe(200);
      expect(answer.headers['x-total']).toBeUndefined();
      expect(answer.headers['x-page']).toBeUndefined();
      for (const { id } of Item.array().parse(answer.json())) ids.push(id);
      const link = answer.headers.link;
      path =
        typeof link === 'string' ? /^<https:\/\/hub\.example:8443([^>]+)>; rel="next"$/.exec(link)?.[1] : undefined;
    }
    return ids;
  };

  it('reaches the end by id', async () => {
    const ids = await follow(
      `${API}/projects?pagination=keyset&order_by=id&sort=asc&per_page=10&search=x&id_before=99`,
    );
    expect(ids).toEqual(all.map(({ id }) => id));
    const { headers } = await app.ask(
      `${API}/projects?pagination=keyset&order_by=id&per_page=10&id_after=5&id_before=99`,
    );
    expect(headers.link).toBe(
      `<${EXTERNAL_URL}/api/v4/projects?pagination=keyset&order_by=id&id_before=99&per_page=10&id_after=15>; rel="next"`,
    );
  });

  it('reaches the end by cursor', async () => {
    expect(await follow(`${API}/users?pagination=keyset&per_page=7`)).toEqual(all.map(({ id }) => id));
  });

  it('passes on the sort column and the id', async () => {
    const cursor = (values: object) => Buffer.from(JSON.stringify(values)).toString('base64url');
    const ask = (order: string, values: object) =>
      app.ask(`${API}/users?pagination=keyset&order_by=${order}&cursor=${cursor(values)}`);
    expect((await ask('name', { name: 'ada', id: '4', _kd: 'n' })).status).toBe(200);
    expect(seen).toMatchObject({ kind: 'keyset', order_by: 'name', sort: 'asc', cursor: { name: 'ada', id: 4 } });
    const time = '2026-11-21 01:42:33.123456+00';
    expect((await ask('created_at', { created_at: time, id: 4 })).status).toBe(200);
    expect(seen).toMatchObject({ cursor: { created_at: time, id: 4 } });
    for (const [order, values] of [
      ['id', { id: 'x' }],
      ['id', { id: '18446744073709551616' }],
      ['name', { id: 1 }],
      ['name', { name: 'a\0', id: 1 }],
      ['name', { name: ['a'], id: 1 }],
      ['created_at', { created_at: "now'; drop", id: 1 }],
      ['created_at', { created_at: '2026-02-31', id: 1 }],
    ] as const) {
      const answer = await ask(order, values);
      expect(answer.status).toBe(400);
      expect(answer.json()).toEqual({ error: 'cursor is invalid' });
    }
    expect((await app.ask(`${API}/users?pagination=keyset&cursor=!!!`)).status).toBe(400);
  });

  it.each([
    `${API}/projects?pagination=keyset`,
    `${API}/users?pagination=keyset&sort=desc`,
    `${API}/none?pagination=keyset`,
  ])('is refused where it is not supported: %s', async (path) => {
    const { status, json } = await app.ask(path);
    expect(status).toBe(405);
    expect(json()).toEqual({ error: 'Keyset pagination is not yet available for this type of request' });
  });

  it('is required for deep offsets if the route says so', async () => {
    expect((await app.ask(`${API}/projects?page=500&per_page=100`)).status).toBe(200);
    const deep = await app.ask(`${API}/projects?page=501&per_page=100`);
    expect(deep.status).toBe(405);
    expect(deep.json()).toHaveProperty('error', expect.stringContaining('keyset pagination'));
    expect((await app.ask(`${API}/none?page=502&per_page=100`)).status).toBe(200);
  });
});

describe('keyset paging by name', () => {
  it('continues after the last name seen', async () => {
    const { headers } = await app.ask(`${API}/branches?pagination=keyset&page_token=x&per_page=2`);
    expect(seen).toMatchObject({ kind: 'keyset', limit: 2, cursor: { name: 'x' } });
    expect(headers.link).toBe(
      `<${EXTERNAL_URL}/api/v4/branches?pagination=keyset&per_page=2&page_token=a%2Fb%20%26%20c>; rel="next"`,
    );
    expect(headers['x-total']).toBeUndefined();
    await app.ask(`${API}/branches?page=2`);
    expect(seen).toMatchObject({ kind: 'offset', page: 2 });
  });

  it('is refused for any other order', async () => {
    const { status } = await app.ask(`${API}/branches?pagination=keyset&sort=updated_asc`);
    expect(status).toBe(405);
  });
});
