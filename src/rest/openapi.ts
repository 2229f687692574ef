import { z } from 'zod';
import { keysetShape, nameKeysetShape, type Paging, pageShape } from './paging.ts';
import { kindOf, type Shape } from './params.ts';
import type { Endpoint, Route } from './route.ts';

interface Json {
  [key: string]: unknown;
}

/**
 * Builds the OpenAPI 3.1 document of the routes, and of `endpoints` that are served elsewhere. Records with an id
 * (`.meta({ id: 'Project' })`) become components. The output is deterministic.
 */
export const buildOpenApi = (
  routes: readonly (Route | Endpoint)[],
  { version }: { readonly version: string },
): object => {
  const schemas: Json = {};
  const paths: Record<string, Json> = {};
  const sorted = routes.toSorted((left, right) => compare(left.url, right.url) || compare(left.method, right.method));
  for (const route of sorted) {
    const path = openApiPath(route.url);
    const operations = paths[path] ?? {};
    const method = route.method.toLowerCase();
    if (method in operations) throw new Error(`${route.method} ${route.url} is declared twice`);
    operations[method] = operation(route, schemas);
    paths[path] = operations;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Millrace REST API',
      version,
      description: 'Version 4 of the REST API.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: CREDENTIALS,
    tags: [...new Set(sorted.map(({ tag }) => tag))].sort(compare).map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(
        [...Object.entries({ ...schemas, Error: ERROR_SCHEMA })].sort(([left], [right]) => compare(left, right)),
      ),
      responses: RESPONSES,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
};

const CREDENTIALS = [{ privateToken: [] }, { bearer: [] }, { basic: [] }];

const SECURITY_SCHEMES = {
  privateToken: { type: 'apiKey', in: 'header', name: 'PRIVATE-TOKEN', description: 'A personal access token.' },
  bearer: { type: 'http', scheme: 'bearer', description: 'A personal access token or an OAuth token.' },
  basic: { type: 'http', scheme: 'basic', description: 'A user name with a token as the password.' },
};

const ERROR_SCHEMA = {
  type: 'object',
  description: '`error` for missing or malformed parameters, `message` for everything else.',
  properties: {
    error: { type: 'string' },
    error_description: { type: 'string' },
    scope: { type: 'string' },
    message: {
      anyOf: [
        { type: 'string' },
        { type: 'object', additionalProperties: true, description: 'The problems of each attribute.' },
      ],
    },
  },
};

const RESPONSES = Object.fromEntries(
  Object.entries({
    BadRequest: 'A parameter is missing or malformed, or validation failed.',
    Unauthorized: 'The credential is missing or invalid.',
    Forbidden: 'The user may not do this, or the token lacks the scope.',
    NotFound: 'The resource does not exist, or the caller may not see it.',
    Default: 'Any other error.',
  }).map(([name, description]) => [
    name,
    { description, content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } } },
  ]),
);

const pagingShape = (paging: Paging): Shape => {
  if (paging === 'offset') return pageShape;
  return paging.keyset === 'name' ? nameKeysetShape : keysetShape;
};

const operation = (route: Route | Endpoint, schemas: Json): Json => {
  const shape: Shape = route.paging === null ? route.shape : { ...route.shape, ...pagingShape(route.paging) };
  const inPath = new Set(route.pathNames);
  const others = Object.keys(shape).filter((name) => !inPath.has(name));
  const hasBody = route.method !== 'GET' && route.method !== 'DELETE';
  const parameters = [
    ...route.pathNames.map((name) => ({ name, in: 'path', required: true, schema: inputSchema(shape[name], schemas) })),
    ...(hasBody ? [] : others.map((name) => queryParameter(name, shape[name], schemas))),
  ];
  const body = hasBody && others.length > 0 ? requestBody(route, pick(shape, others), schemas) : null;
  return {
    tags: [route.tag],
    summary: route.summary,
    ...(route.description === null ? {} : { description: route.description }),
    operationId: operationId(route),
    ...(route.auth === 'optional' ? { security: [{}, ...CREDENTIALS] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === null ? {} : { requestBody: body }),
    responses: {
      [String(route.status)]: success(route, schemas),
      ...(Object.keys(shape).length === 0 ? {} : { 400: responseRef('BadRequest') }),
      401: responseRef('Unauthorized'),
      403: responseRef('Forbidden'),
      ...(route.pathNames.length === 0 ? {} : { 404: responseRef('NotFound') }),
      default: responseRef('Default'),
    },
  };
};

const responseRef = (name: string) => ({ $ref: `#/components/responses/${name}` });

const queryParameter = (name: string, schema: z.ZodType | undefined, schemas: Json): Json => {
  const json = inputSchema(schema, schemas);
  const commas = json.type === 'array' && schema !== undefined && kindOf(schema)?.commas === true;
  return {
    // `labels=a,b` for lists that accept commas (`labels[]=a` works too), `ids[]=1` for the others.
    name: json.type === 'array' && !commas ? `${name}[]` : name,
    in: 'query',
    required: isRequired(schema),
    ...(json.type === 'object' ? { style: 'deepObject', explode: true } : {}),
    ...(commas ? { style: 'form', explode: false } : {}),
    schema: json,
  };
};

const requestBody = (route: Route | Endpoint, shape: Shape, schemas: Json): Json => {
  const schema = inputSchema(z.object({ ...shape }), schemas);
  const required = Object.entries(shape)
    .filter(([, each]) => isRequired(each))
    .map(([name]) => name);
  const media = { schema: { ...schema, ...(required.length === 0 ? {} : { required }) } };
  return {
    required: required.length > 0,
    content: Object.fromEntries(bodyTypes(route).map((type) => [type, media])),
  };
};

const COMMA_SEPARATED = { type: 'string' as const, description: 'Separated by commas.' };

const bodyTypes = (route: Route | Endpoint): readonly string[] => {
  if (route.kind === 'elsewhere') return ['application/x-www-form-urlencoded', 'application/json'];
  if (route.files.size > 0) return ['multipart/form-data'];
  return ['application/json', 'application/x-www-form-urlencoded', 'multipart/form-data'];
};

const success = (route: Route | Endpoint, schemas: Json): Json => {
  if (route.kind === 'stream') {
    return {
      description: 'The file.',
      content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
    };
  }
  if (route.kind === 'elsewhere' && route.response === null) {
    return route.status === 302
      ? { description: 'Redirects to `redirect_uri`, or to the page that asks for consent.', headers: LOCATION }
      : { description: 'A page.', content: { 'text/html': { schema: { type: 'string' } } } };
  }
  if (route.response === null) return { description: 'Success, without a body.' };
  const schema = outputSchema(route.response, schemas);
  return route.kind === 'list'
    ? {
        description: 'One page of the list.',
        headers: PAGE_HEADERS,
        content: { 'application/json': { schema: { type: 'array', items: schema } } },
      }
    : { description: 'The record.', content: { 'application/json': { schema } } };
};

const LOCATION = { Location: { schema: { type: 'string', format: 'uri' } } };

const PAGE_HEADERS = Object.fromEntries(
  Object.entries({
    Link: 'URLs of the previous, next, first and last page, if they exist.',
    'X-Page': 'The number of this page.',
    'X-Per-Page': 'The number of items per page.',
    'X-Next-Page': 'The number of the next page, or empty.',
    'X-Prev-Page': 'The number of the previous page, or empty.',
    'X-Total': 'The total number of items. Omitted above 10,000.',
    'X-Total-Pages': 'The total number of pages. Omitted above 10,000 items.',
  }).map(([name, description]) => [name, { description, schema: { type: 'string' } }]),
);

const inputSchema = (schema: z.ZodType | undefined, schemas: Json): Json =>
  schema ? jsonSchema(schema, 'input', schemas) : {};
const outputSchema = (schema: z.ZodType, schemas: Json): Json => jsonSchema(schema, 'output', schemas);

/** Converts a schema to JSON Schema. Adds its components to `schemas` and refers to them. */
const jsonSchema = (schema: z.ZodType, io: 'input' | 'output', schemas: Json): Json => {
  const { $schema, $defs, ...json } = z.toJSONSchema(schema, {
    io,
    target: 'draft-2020-12',
    unrepresentable: 'any',
    override: ({ zodSchema, jsonSchema: target, path }) => {
      // Clients must tolerate fields that a later version adds.
      if (target.type === 'object' && target.additionalProperties === false) delete target.additionalProperties;
      // These bounds are JavaScript's, not ours.
      if (target.minimum === Number.MIN_SAFE_INTEGER) delete target.minimum;
      if (target.maximum === Number.MAX_SAFE_INTEGER) delete target.maximum;
      const { def } = zodSchema._zod;
      const kind = kindOf(zodSchema);
      if (kind && def.type === 'pipe') Object.assign(target, kind.json);
      // Inside a body or a hash, a list that accepts commas may also be a single string. At the top level it is a query
      // parameter.
      if (kind?.commas && def.type === 'pipe' && io === 'input' && path.includes('properties')) {
        const array = { ...target };
        for (const key of Object.keys(target)) Reflect.deleteProperty(target, key);
        target.anyOf = [COMMA_SEPARATED, array];
      }
      // zod emits `number` for all numeric literals and unions, including integers.
      if (target.type === 'number' && Number.isInteger(target.const)) target.type = 'integer';
      // zod omits the default when a transformation follows. Our transformations only change the spelling.
      if (kind && def.type === 'default' && 'defaultValue' in def) target.default = def.defaultValue;
    },
  });
  for (const [name, component] of Object.entries($defs ?? {})) schemas[name] ??= rewriteRefs(component);
  const { id } = schema.meta() ?? {};
  const plain = asObject(rewriteRefs(json));
  // zod does not extract a record that is the whole schema.
  if (typeof id !== 'string' || '$ref' in plain) return plain;
  const { id: _id, ...component } = plain;
  schemas[id] ??= component;
  return { $ref: `#/components/schemas/${id}` };
};

const rewriteRefs = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(rewriteRefs);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [
      key,
      key === '$ref' && typeof each === 'string'
        ? each.replace('#/$defs/', '#/components/schemas/')
        : rewriteRefs(each),
    ]),
  );
};

const asObject = (value: unknown): Json => (typeof value === 'object' && value !== null ? { ...value } : {});

const isRequired = (schema: z.ZodType | undefined): boolean =>
  schema !== undefined && !schema.safeParse(undefined).success;

const pick = (shape: Shape, names: readonly string[]): Shape =>
  Object.fromEntries(Object.entries(shape).filter(([name]) => names.includes(name)));

const openApiPath = (url: string): string => url.replace(/[:*]([A-Za-z_]+)/g, '{$1}');

const operationId = ({ method, url }: Route | Endpoint): string =>
  method.toLowerCase() +
  url
    .replace(/^\/api\/v4/, '')
    .split(/[^A-Za-z]+/)
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('');

/** Compares by code unit, independent of the locale. */
const compare = (left: string, right: string): number => (left < right ? -1 : left > right ? 1 : 0);
