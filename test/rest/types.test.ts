import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { boolean, exclusive, fileUpload, hash, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, route, streamRoute } from '#rest/route.ts';

const Thing = z.object({ id: z.number(), name: z.string() });
const base = { tag: 'Things', summary: 'A thing' };

describe('declaring a route', () => {
  it('gives the handler the types of its parameters', () => {
    const declared = route({
      ...base,
      method: 'PUT',
      path: '/things/:id',
      input: {
        id: idOrPath(),
        name: text().optional(),
        weight: integer().nullish(),
        tags: list(text()).default([]),
        state: oneOf(['a', 'b']),
        nested: hash({ deep: boolean().optional() }).optional(),
      },
      rules: [exclusive('name', 'weight')],
      response: Thing,
      run: async (_ctx, input) => {
        const name: string | undefined = input.name;
        const weight: number | null | undefined = input.weight;
        const tags: string[] = input.tags;
        const state: 'a' | 'b' = input.state;
        const deep: boolean | undefined = input.nested?.deep;
        const id: number | undefined = input.id.id;
        return { id: id ?? 0, name: `${name} ${weight} ${tags.length} ${state} ${deep}` };
      },
    });
    expect(declared).toMatchObject({ url: '/api/v4/things/:id', status: 200, pathNames: ['id'], scopes: ['api'] });
  });

  it('does not compile without a schema for each path parameter', () => {
    route({
      ...base,
      method: 'GET',
      path: '/things/:id/parts/:part_id',
      // @ts-expect-error part_id has no schema
      input: { id: idOrPath() },
      response: null,
      run: async () => {},
    });
    // @ts-expect-error no input at all
    route({ ...base, method: 'GET', path: '/things/:id', response: null, run: async () => {} });
    streamRoute({
      ...base,
      method: 'GET',
      path: '/things/*rest',
      // @ts-expect-error the wildcard has no schema
      input: {},
      run: async () => ({ stream: Readable.from([]), contentType: '' }),
    });
  });

  it('does not compile if the result does not match the record', () => {
    route({
      ...base,
      method: 'GET',
      path: '/things',
      response: Thing,
      // @ts-expect-error name is missing
      run: async () => ({ id: 1 }),
    });
    listRoute({
      ...base,
      path: '/things',
      item: Thing,
      paging: 'offset',
      // @ts-expect-error id is a number
      run: async () => ({ items: [{ id: '1', name: 'x' }] }),
    });
    route({
      ...base,
      method: 'GET',
      path: '/x',
      input: { a: text() },
      // @ts-expect-error a rule names a parameter that is not declared
      rules: [exclusive('a', 'z')],
      response: null,
      run: async () => {},
    });
  });

  it('derives defaults from the method and the response', () => {
    const created = route({
      ...base,
      method: 'POST',
      path: '/things',
      response: Thing,
      run: async () => ({ id: 1, name: 'x' }),
    });
    expect(created).toMatchObject({ status: 201, auth: 'required', admin: false, scopes: ['api'] });
    const removed = route({ ...base, method: 'DELETE', path: '/things', response: null, run: async () => {} });
    expect(removed.status).toBe(204);
    const read = listRoute({
      ...base,
      path: '/things',
      item: Thing,
      paging: 'offset',
      run: async (_ctx, _input, page) => ({ items: [{ id: page.limit, name: 'x' }] }),
    });
    expect(read).toMatchObject({ method: 'GET', status: 200, scopes: ['api', 'read_api'] });
    const root = route({
      ...base,
      method: 'POST',
      path: '/oauth/token',
      root: true,
      input: { file: fileUpload({ maxBytes: 1 }) },
      response: null,
      run: async (_ctx, { file }) => void file.keep(),
    });
    expect(root.url).toBe('/oauth/token');
    expect([...root.files.keys()]).toEqual(['file']);
  });
});
