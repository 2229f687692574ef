import { z } from 'zod';
import { JOB_TOKEN_SCOPE } from '#platform/caller/token-scopes.ts';
import type { Shape } from './input.ts';
import { inputSchema, type Json, outputSchema, type Schemas } from './openapi-schemas.ts';
import { keysetShape, nameKeysetShape, type Paging, pageShape } from './paging.ts';
import { kindOf } from './param-kind.ts';
import type { ApiVersion, Endpoint, Route } from './route.ts';
import { markOf, useOf } from './v5.ts';

/**
 * Builds the OpenAPI 3.1 document of the routes, and of `endpoints` that are served elsewhere. Records with an id
 * (`.meta({ id: 'Project' })`) become components. The output is deterministic.
 */
export const buildOpenApi = (
  routes: readonly (Route | Endpoint)[],
  { version, apiVersion }: { readonly version: string; readonly apiVersion: ApiVersion },
): object => {
  const schemas: Schemas = { apiVersion, components: {} };
  const paths: Record<string, Json> = {};
  const present = apiVersion === 5 ? routes.filter(({ removedInV5 }) => removedInV5 === null) : routes;
  const sorted = present.toSorted((left, right) => compare(left.url, right.url) || compare(left.method, right.method));
  for (const route of sorted) {
    const path = openApiPath(apiVersion === 5 ? route.v5Url : route.url);
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
      description:
        apiVersion === 4
          ? 'Version 4 of the REST API.'
          : 'A preview of version 5 of the REST API: version 4 without everything that is deprecated there.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    security: CREDENTIALS,
    tags: [...new Set(sorted.map(({ tag }) => tag))].sort(compare).map((name) => ({ name })),
    paths,
    components: {
      schemas: Object.fromEntries(
        [...Object.entries({ ...schemas.components, Error: ERROR_SCHEMA })].sort(([left], [right]) =>
          compare(left, right),
        ),
      ),
      responses: RESPONSES,
      securitySchemes: SECURITY_SCHEMES,
    },
  };
};

const CREDENTIALS = [{ privateToken: [] }, { bearer: [] }, { basic: [] }];

const JOB_TOKEN = { jobToken: [] };
const JOB_TOKEN_PARAMETER = {
  name: 'job_token',
  in: 'query',
  required: false,
  schema: { type: 'string' },
  description: 'The token of a running CI job, in place of the header `JOB-TOKEN`.',
};

/** Nothing if the credentials of the whole document apply. */
const securityOf = ({ auth, scopes }: Route | Endpoint): Json => {
  if (auth === 'own') return { security: [] };
  const accepted = scopes.includes(JOB_TOKEN_SCOPE) ? [...CREDENTIALS, JOB_TOKEN] : CREDENTIALS;
  if (auth === 'optional') return { security: [{}, ...accepted] };
  return accepted === CREDENTIALS ? {} : { security: accepted };
};

const SECURITY_SCHEMES = {
  privateToken: { type: 'apiKey', in: 'header', name: 'PRIVATE-TOKEN', description: 'A personal access token.' },
  bearer: { type: 'http', scheme: 'bearer', description: 'A personal access token or an OAuth token.' },
  basic: { type: 'http', scheme: 'basic', description: 'A user name with a token as the password.' },
  jobToken: { type: 'apiKey', in: 'header', name: 'JOB-TOKEN', description: 'The token of a running CI job.' },
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

const ERROR_CONTENT = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };

const RESPONSES = Object.fromEntries(
  Object.entries({
    BadRequest: 'A parameter is missing or malformed, or validation failed.',
    Unauthorized: 'The credential is missing or invalid.',
    Forbidden: 'The user may not do this, or the token lacks the scope.',
    NotFound: 'The resource does not exist, or the caller may not see it.',
    Default: 'Any other error.',
  }).map(([name, description]) => [name, { description, content: ERROR_CONTENT }]),
);

const pagingShape = (paging: Paging): Shape => {
  if (paging === 'offset') return pageShape;
  return paging.keyset === 'name' ? nameKeysetShape : keysetShape;
};

const operation = (route: Route | Endpoint, schemas: Schemas): Json => {
  const own = schemas.apiVersion === 5 ? shapeInV5(route.shape) : route.shape;
  const shape: Shape = route.paging === null ? own : { ...own, ...pagingShape(route.paging) };
  const inPath = new Set(route.pathNames);
  const others = Object.keys(shape).filter((name) => !inPath.has(name));
  const hasBody = route.method !== 'GET' && route.method !== 'DELETE' && !route.rawBody;
  const parameters = [
    ...route.pathNames.map((name) => ({ name, in: 'path', required: true, schema: inputSchema(shape[name], schemas) })),
    ...(hasBody ? [] : others.map((name) => queryParameter(name, shape[name], schemas))),
    ...(route.scopes.includes(JOB_TOKEN_SCOPE) ? [JOB_TOKEN_PARAMETER] : []),
  ];
  const body = route.rawBody
    ? RAW_BODY
    : hasBody && others.length > 0
      ? requestBody(route, pick(shape, others), schemas)
      : null;
  return {
    tags: [route.tag],
    summary: route.summary,
    ...describedBy(route),
    operationId: operationId(route),
    ...(route.deprecated ? { deprecated: true } : {}),
    ...securityOf(route),
    ...(route.kind === 'elsewhere' && route.server !== null ? { servers: [{ url: route.server }] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === null ? {} : { requestBody: body }),
    responses: {
      [String(route.status)]: success(route, schemas),
      ...(Object.keys(shape).length === 0 ? {} : { 400: responseRef('BadRequest') }),
      401: responseRef('Unauthorized'),
      403: responseRef('Forbidden'),
      ...(route.pathNames.length === 0 ? {} : { 404: responseRef('NotFound') }),
      ...Object.fromEntries(
        Object.entries(route.refusals).map(([status, description]) => [
          status,
          { description, content: ERROR_CONTENT },
        ]),
      ),
      default: responseRef('Default'),
    },
  };
};

const describedBy = ({ description, deprecated, removedInV5 }: Route | Endpoint): Json => {
  const more = deprecated && `Deprecated${removedInV5 ? ' and removed in version 5' : ''}: ${useOf(deprecated)}.`;
  const text = [description, more].filter((each) => each !== null).join(' ');
  return text === '' ? {} : { description: text };
};

/** The parameters that version 5 has, with the values that it accepts. */
const shapeInV5 = (shape: Shape): Shape =>
  Object.fromEntries(
    Object.entries(shape).flatMap(([name, schema]) => {
      const mark = markOf(schema);
      if (mark?.kind === 'removed') return [];
      return [[name, mark?.kind === 'changed' ? mark.schema : schema]];
    }),
  );

const responseRef = (name: string) => ({ $ref: `#/components/responses/${name}` });

const queryParameter = (name: string, schema: z.ZodType | undefined, schemas: Schemas): Json => {
  const { deprecated, ...json } = inputSchema(schema, schemas);
  const commas = json.type === 'array' && schema !== undefined && kindOf(schema)?.commas === true;
  return {
    // `labels=a,b` for lists that accept commas (`labels[]=a` works too), `ids[]=1` for the others.
    name: json.type === 'array' && !commas ? `${name}[]` : name,
    in: 'query',
    required: isRequired(schema),
    ...(deprecated === true ? { deprecated } : {}),
    ...(json.type === 'object' ? { style: 'deepObject', explode: true } : {}),
    ...(commas ? { style: 'form', explode: false } : {}),
    schema: json,
  };
};

const requestBody = (route: Route | Endpoint, shape: Shape, schemas: Schemas): Json => {
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

const RAW_BODY: Json = { required: true, content: { 'text/plain': { schema: { type: 'string', format: 'binary' } } } };

const bodyTypes = (route: Route | Endpoint): readonly string[] => {
  if (route.kind === 'elsewhere') return ['application/x-www-form-urlencoded', 'application/json'];
  if (route.files.size > 0) return ['multipart/form-data'];
  return ['application/json', 'application/x-www-form-urlencoded', 'multipart/form-data'];
};

const success = (route: Route | Endpoint, schemas: Schemas): Json => {
  if (route.kind === 'stream') {
    return {
      description: 'The file.',
      content: { [route.contentType ?? 'application/octet-stream']: { schema: { type: 'string', format: 'binary' } } },
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

const isRequired = (schema: z.ZodType | undefined): boolean =>
  schema !== undefined && (kindOf(schema)?.declaredRequired === true || !schema.safeParse(undefined).success);

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
