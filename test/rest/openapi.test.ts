import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { buildOpenApi } from '#rest/openapi.ts';
import { boolean, commaList, fileUpload, hash, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, route, streamRoute } from '#rest/route.ts';

const Owner = z.object({ id: z.number() }).meta({ id: 'Owner' });
const Project = z
  .object({ id: z.number(), name: z.string().nullable(), owner: Owner.nullable() })
  .meta({ id: 'Project' });
const base = { tag: 'Projects', summary: 'A route' };

const routes = [
  route({
    ...base,
    method: 'PUT',
    path: '/projects/:id',
    input: {
      id: idOrPath(),
      name: text({ max: 255 }),
      level: integer({ min: 0 }).nullish(),
      on: boolean().default(false),
      tags: list(text()).optional(),
      labels: commaList(text()).optional(),
      set: hash({ url: text() }).optional(),
    },
    response: Project,
    run: async () => ({ id: 1, name: null, owner: null }),
  }),
  listRoute({
    ...base,
    auth: 'optional',
    path: '/projects',
    input: {
      state: oneOf(['open', 'closed']).optional(),
      ids: commaList(integer()).optional(),
      not: hash({ labels: commaList(text()).optional() }).optional(),
      iids: list(integer()).optional(),
    },
    item: Project,
    paging: { keyset: { id: 'integer' } },
    run: async () => ({ items: [] }),
  }),
  route({
    ...base,
    method: 'POST',
    path: '/projects/import',
    input: { file: fileUpload({ maxBytes: 1 }), path: text() },
    response: null,
    run: async () => {},
  }),
  streamRoute({
    ...base,
    method: 'GET',
    path: '/jobs/:id/artifacts/*artifact_path',
    input: { id: integer(), artifact_path: text() },
    run: async () => ({
      stream: () => {
        throw new Error();
      },
      contentType: '',
    }),
  }),
  route({ ...base, method: 'DELETE', path: '/oauth/x', root: true, response: null, run: async () => {} }),
];

const document = () =>
  z
    .looseObject({
      paths: z.record(z.string(), z.record(z.string(), z.looseObject({}))),
      components: z.looseObject({ schemas: z.record(z.string(), z.looseObject({})) }),
    })
    .parse(JSON.parse(JSON.stringify(buildOpenApi(routes, { version: '17.0.0', apiVersion: 4 }))));

describe('the OpenAPI document', () => {
  it('lists each route at its path', () => {
    expect(
      Object.entries(document().paths).flatMap(([path, each]) =>
        Object.keys(each).map((method) => `${method} ${path}`),
      ),
    ).toEqual([
      'get /api/v4/jobs/{id}/artifacts/{artifact_path}',
      'get /api/v4/projects',
      'put /api/v4/projects/{id}',
      'post /api/v4/projects/import',
      'delete /oauth/x',
    ]);
  });

  it('describes parameters and bodies as declared', () => {
    const { paths } = document();
    expect(paths['/api/v4/projects/{id}']?.put).toMatchObject({
      operationId: 'putProjectsId',
      parameters: [{ name: 'id', in: 'path', required: true, schema: { type: ['integer', 'string'] } }],
      requestBody: {
        required: true,
        content: {
          'application/json': {
            schema: {
              type: 'object',
              required: ['name'],
              properties: {
                name: { type: 'string', maxLength: 255 },
                on: { type: 'boolean', default: false },
                tags: { type: 'array', items: { type: 'string' } },
                labels: { anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] },
                set: { type: 'object', properties: { url: { type: 'string' } } },
              },
            },
          },
        },
      },
      responses: {
        200: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Project' } } } },
        404: {},
      },
    });
    const listed = paths['/api/v4/projects']?.get;
    expect(listed).toMatchObject({ security: [{}, { privateToken: [] }, {}, {}] });
    const names = z
      .array(z.looseObject({ name: z.string() }))
      .parse(listed?.parameters)
      .map(({ name }) => name);
    expect(names).toEqual(['state', 'ids', 'not', 'iids[]', 'page', 'per_page', 'pagination', 'cursor']);
    expect(listed?.parameters).toMatchObject([
      {},
      { style: 'form', explode: false, schema: { type: 'array', items: { type: 'integer' } } },
      { style: 'deepObject', schema: { properties: { labels: { anyOf: [{ type: 'string' }, { type: 'array' }] } } } },
      { schema: { type: 'array' } },
      {},
      {},
      {},
      {},
    ]);
    expect(paths['/api/v4/projects/import']?.post).toMatchObject({
      requestBody: {
        content: {
          'multipart/form-data': {
            schema: { required: ['file', 'path'], properties: { file: { type: 'string', format: 'binary' } } },
          },
        },
      },
      responses: { 204: {} },
    });
  });

  it('defines each record once, and refers to it', () => {
    const { schemas } = document().components;
    expect(Object.keys(schemas)).toEqual(['Error', 'Owner', 'Project']);
    expect(schemas.Project).toMatchObject({
      type: 'object',
      properties: { owner: { anyOf: [{ $ref: '#/components/schemas/Owner' }, { type: 'null' }] } },
    });
    const refs = [...JSON.stringify(document()).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1] ?? '');
    expect(refs.every((ref) => /^#\/components\/(schemas\/(Error|Owner|Project)|responses\/\w+)$/.test(ref))).toBe(
      true,
    );
  });

  it('does not depend on the order of the routes, and refuses duplicates', () => {
    expect(JSON.stringify(buildOpenApi(routes.toReversed(), { version: '17.0.0', apiVersion: 4 }))).toBe(
      JSON.stringify(buildOpenApi(routes, { version: '17.0.0', apiVersion: 4 })),
    );
    expect(() => buildOpenApi([...routes, ...routes], { version: '1', apiVersion: 4 })).toThrow('declared twice');
  });
});
