import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { routes } from '#app/routes.ts';
import { kindOf } from '#rest/param-kind.ts';
import type { Route } from '#rest/route.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { computedMs } from '../support/computed-ms.ts';
import { PATIENCE_MS } from '../support/until.ts';
import { fillPath, privateWorld, requiredOf, type World } from './world.ts';

// Threats, Requests: sends each parameter of each route as large as a request may be.

const app = useApp({ sweep: true });
let world: World;

beforeAll(async () => {
  world = await privateWorld(app());
});

/** The limits of a query: 16 KiB including its path, and a thousand pairs. */
const IN_QUERY = { characters: 15_000, items: 900 };
/** The limits of a body: a mebibyte and 20,000 values. */
const IN_BODY = { characters: 900_000, items: 19_000 };

const makeTexts = (length: number): readonly string[] => [
  'x'.repeat(length),
  '<'.repeat(length),
  `${'*a_'.repeat(length / 3)}`,
  '[a]('.repeat(length / 4),
  `${' '.repeat(length - 1)}x`,
  // JSON takes two bytes for a newline or a backslash. A larger body would be parsed in a thread of its own.
  '\n> - '.repeat(length / 6),
  '%_\\'.repeat(length / 4),
  'é@x.y '.repeat(length / 7),
];
const textsForQuery = makeTexts(IN_QUERY.characters);
const textsForBody = makeTexts(IN_BODY.characters);

let turn = 0;

const hugeFor = (schema: z.ZodType, { characters, items }: typeof IN_BODY): unknown => {
  const json = kindOf(schema)?.json ?? {};
  const texts = characters === IN_BODY.characters ? textsForBody : textsForQuery;
  const chosenText = texts[turn++ % texts.length];
  if (json.type === 'string' || Array.isArray(json.type)) return chosenText;
  if (json.type === 'object') return Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`k${n}`, `v${n}`]));
  if (json.type !== undefined) return '9'.repeat(Math.min(characters, 10_000));
  return turn % 2 === 0
    ? Array.from({ length: items }, (_, n) => n + 1)
    : Array.from({ length: items }, (_, n) => `x${n}`)
        .join(',')
        .slice(0, characters);
};

const queryOf = (sent: Record<string, unknown>): string => {
  const pairs: string[] = [];
  for (const [key, value] of Object.entries(sent)) {
    if (Array.isArray(value)) for (const each of value) pairs.push(`${key}[]=${encodeURIComponent(String(each))}`);
    else if (typeof value === 'object' && value !== null)
      for (const [name, each] of Object.entries(value))
        pairs.push(`${key}[${name}]=${encodeURIComponent(String(each))}`);
    else pairs.push(`${key}=${encodeURIComponent(String(value))}`);
  }
  return pairs.join('&').slice(0, IN_QUERY.characters);
};

/** Sends with `node:http`, because the links of a list repeat its query, which exceeds the header limit of `fetch`. */
const send = async (
  method: string,
  url: string,
  headers: Record<string, string>,
  body: string | undefined,
): Promise<{ status: number; answer: string }> => {
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  const type = body === undefined ? {} : { 'content-type': 'application/json' };
  const outgoing = request(url, { method, headers: { ...headers, ...type, ...length }, maxHeaderSize: 512 * 1024 });
  outgoing.end(body);
  const [response]: IncomingMessage[] = await once(outgoing, 'response', {
    signal: AbortSignal.timeout(PATIENCE_MS),
  }).catch(() => []);
  if (!response) outgoing.destroy();
  if (!response) return { status: 0, answer: 'none in time' };
  return { status: response.statusCode ?? 0, answer: await text(response) };
};

const hasBody = ({ method }: Route): boolean => method !== 'GET' && method !== 'DELETE';

const MOST_MS = 400;

interface Cost {
  readonly what: string;
  readonly status: number;
  readonly ms: number;
  readonly answer: string;
}

const costsOf = async (client: Client, chosen: readonly Route[]): Promise<Cost[]> => {
  const costs: Cost[] = [];
  for (const route of chosen)
    for (const [name, schema] of Object.entries<z.ZodType>(route.shape)) {
      if (route.files.has(name) || route.pathNames.includes(name)) continue;
      const first = await costOf(client, route, name, schema);
      // Loading a module or a garbage collection may make one request dear, but not both.
      const cost = first.ms > MOST_MS ? await costOf(client, route, name, schema) : first;
      costs.push({ ...cost, ms: Math.min(first.ms, cost.ms) });
    }
  return costs;
};

const costOf = async (client: Client, route: Route, name: string, schema: z.ZodType): Promise<Cost> => {
  const top = /^\/(groups|namespaces)/.test(route.path)
    ? world.group.id
    : /^\/users/.test(route.path)
      ? world.owner.id
      : world.project.id;
  const url = fillPath(route, top, world.ids);
  const sent = { ...requiredOf(route, world.ids), [name]: hugeFor(schema, hasBody(route) ? IN_BODY : IN_QUERY) };
  const body = hasBody(route) ? JSON.stringify(sent) : undefined;
  const path = body === undefined ? `${url}?${queryOf(sent)}` : url;
  const headers = await client.headers();
  const started = computedMs();
  const { status, answer } = await send(route.method, app().url + path, headers, body);
  const ms = computedMs() - started;
  return { what: `${route.method} ${route.path} ${name}`, status, ms, answer: answer.slice(0, 200) };
};

const ENDS = /\/self$|rotate/;
const chosen = routes.filter(({ admin, method, path }) => !admin && method !== 'DELETE' && !ENDS.test(path));

describe('a parameter of the largest size', () => {
  it('causes no error in the hub, and costs little', async () => {
    const costs = await costsOf(app().as(world.owner), chosen);
    expect(costs.filter(({ status }) => status === 0 || status >= 500)).toEqual([]);
    expect(costs.filter(({ ms }) => ms > MOST_MS)).toEqual([]);
    expect(costs.length).toBeGreaterThan(300);
  });
});

describe('a filter by labels', () => {
  it('is a single condition, however many labels it has', async () => {
    const client = app().as(world.owner);
    const issues = `/projects/${world.project.id}/issues`;
    for (const labels of ['a,b,c', 'a,b', 'd', '']) await client.post(issues, { title: `of ${labels}`, labels });
    const found = async (query: string) =>
      (await client.get(`${issues}?${query}&search=of`)).body.map(({ title }: { title: string }) => title).sort();
    expect(await found('labels=a,b,a')).toEqual(['of a,b', 'of a,b,c']);
    expect(await found('labels=c,b,a')).toEqual(['of a,b,c']);
    expect(await found('labels=a,b,c,d')).toEqual([]);
    expect(await found('not[labels]=c,d')).toEqual(['of', 'of a,b']);
    const many = Array.from({ length: 1_200 }, (_, n) => `l${n}`);
    const query = `query($path: ID!, $labelName: [String!]) { project(fullPath: $path) {
      with: issues(labelName: $labelName) { count } without: issues(not: { labelName: $labelName }) { count } } }`;
    const { data } = await client.graphql(query, { path: world.project.path_with_namespace, labelName: many });
    expect(data.project).toEqual({ with: { count: 0 }, without: { count: expect.any(Number) } });
    expect(data.project.without.count).toBeGreaterThanOrEqual(4);
    for (const name of ['labels', 'not[labels]'])
      expect((await client.get(`/projects/${world.project.id}/merge_requests?${name}=${many.join(',')}`)).body).toEqual(
        [],
      );
  });
});
