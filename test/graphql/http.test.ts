import { once } from 'node:events';
import { getIntrospectionQuery } from 'graphql';
import { serverAudits } from 'graphql-http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { mutationField } from '#graphql/mutation.ts';
import { computedMs } from '../support/computed-ms.ts';
import { startServer } from './server.ts';

interface Thing {
  readonly id: number;
}
const things: Thing[] = Array.from({ length: 3 }, (_, i) => ({ id: i + 1 }));
const ThingRef = builder.objectRef<Thing>('Thing').implement({ fields: (t) => ({ id: t.exposeID('id') }) });
const ThingConnection = builder.connectionObject({ type: ThingRef, name: 'ThingConnection' }, { name: 'ThingEdge' });
let resolved = 0;
builder.queryField('things', (t) =>
  t.connection(
    {
      type: ThingRef,
      resolve: (_root, args, _ctx, info) => {
        resolved++;
        return connection(args, info, (page) => pageOfAll(page, things, (row) => [row.id]));
      },
    },
    ThingConnection,
  ),
);
builder.objectField(ThingRef, 'things', (t) =>
  t.connection(
    {
      type: ThingRef,
      resolve: (_thing, args, _ctx, info) =>
        connection(args, info, (page) => pageOfAll(page, things, (row) => [row.id])),
    },
    ThingConnection,
  ),
);
builder.queryField('echo', (t) =>
  t.string({ args: { text: t.arg.string({ required: true }) }, resolve: (_root, { text }) => text }),
);
builder.queryField('currentUserId', (t) => t.int({ resolve: (_root, _args, ctx) => ctx.actor.userId }));
let touched = 0;
mutationField('thingTouch', {
  input: () => ({}),
  payload: { thing: ThingRef },
  run: async () => ({ thing: { id: ++touched } }),
});

let server: Awaited<ReturnType<typeof startServer>>;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.app.close());

const TOUCH = 'mutation { thingTouch(input: {}) { thing { id } errors } }';

const post = async (body: unknown, headers: Record<string, string> = {}) => {
  const response = await fetch(server.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, json: text === '' ? null : JSON.parse(text) };
};
const refusal = async (query: string, variables: Record<string, unknown> = {}) => {
  const started = computedMs();
  const { json } = await post({ query, variables });
  // The refusal comes before any work that grows faster than the query itself.
  expect(computedMs() - started).toBeLessThan(1_500);
  expect(json.data, JSON.stringify(json).slice(0, 200)).toBeUndefined();
  return json.errors[0].message;
};

describe('GraphQL over HTTP', () => {
  for (const audit of serverAudits({ url: () => server.url })) {
    it(`audit ${audit.id}: ${audit.name}`, async () => {
      const result = await audit.fn();
      if (result.status !== 'ok' && !audit.name.startsWith('MAY'))
        throw new Error(`${result.reason} (${result.status})`);
      expect(['ok', 'notice']).toContain(result.status);
    });
  }

  it('runs a batch of at most ten requests in order', async () => {
    const before = touched;
    const { status, json } = await post([
      { query: TOUCH },
      { query: '{ echo(text: "b") }' },
      { nothing: true },
      { query: TOUCH },
    ]);
    expect(status).toBe(200);
    expect(json).toMatchObject([
      { data: { thingTouch: { thing: { id: String(before + 1) } } } },
      { data: { echo: 'b' } },
      { errors: [{ message: 'Must provide query string.' }] },
      { data: { thingTouch: { thing: { id: String(before + 2) } } } },
    ]);
    expect((await post([])).status).toBe(400);
    const many = await post(Array.from({ length: 11 }, () => ({ query: TOUCH })));
    expect(many.status).toBe(400);
    expect(touched).toBe(before + 2);
  });

  it('asks clients that send only the hash of a query to send the query', async () => {
    const extensions = { persistedQuery: { version: 1, sha256Hash: 'ab'.repeat(32) } };
    const search = new URLSearchParams({ extensions: JSON.stringify(extensions) });
    const get = await fetch(`${server.url}?${search}`);
    const answers = [{ status: get.status, json: await get.json() }, await post({ extensions })];
    for (const answer of answers)
      expect(answer).toMatchObject({ status: 200, json: { errors: [{ message: 'PersistedQueryNotSupported' }] } });
    const whole = await post({ query: '{ echo(text: "a") }', extensions });
    expect(whole.json).toEqual({ data: { echo: 'a' } });
  });

  it('serves GET, urlencoded and application/graphql through the same engine', async () => {
    const get = await fetch(`${server.url}?query=${encodeURIComponent('{ echo(text: "a b") }')}`);
    expect(await get.json()).toEqual({ data: { echo: 'a b' } });
    const named = { query: 'query Q($t: String!) { echo(text: $t) } query R { echo(text: "r") }', operationName: 'Q' };
    const search = new URLSearchParams({ ...named, variables: '{"t":"v"}' });
    const spec = await fetch(`${server.url}?${search}`, { headers: { accept: 'application/graphql-response+json' } });
    expect(spec.headers.get('content-type')).toContain('application/graphql-response+json');
    expect(await spec.json()).toEqual({ data: { echo: 'v' } });
    const statusOf = async (query: string, headers: Record<string, string> = {}) =>
      (await fetch(`${server.url}${query}`, { headers })).status;
    expect(await statusOf('?query=%7B')).toBe(200);
    expect(await statusOf('?query=%7B', { accept: 'application/graphql-response+json' })).toBe(400);
    expect(await statusOf('?query=%7Becho%7D&variables=%7B')).toBe(400);
    expect(await statusOf('')).toBe(400);
    expect(await statusOf('?query=%7Becho%7D', { accept: 'image/png' })).toBe(406);
    const form = await fetch(server.url, {
      method: 'POST',
      body: new URLSearchParams({ query: '{ echo(text: "x") }' }),
    });
    expect(await form.json()).toEqual({ data: { echo: 'x' } });
    const text = await fetch(server.url, {
      method: 'POST',
      headers: { 'content-type': 'application/graphql' },
      body: '{ echo(text: "y") }',
    });
    expect(await text.json()).toEqual({ data: { echo: 'y' } });
  });

  describe('for clients that accept event streams too', () => {
    // urql sends this header with all operations.
    const accept =
      'application/graphql-response+json, application/graphql+json, application/json, text/event-stream, multipart/mixed';

    it('answers queries and mutations with JSON', async () => {
      const query = await post({ query: '{ echo(text: "a") }' }, { accept });
      expect(query.headers.get('content-type')).toContain('application/graphql-response+json');
      expect(query.json).toEqual({ data: { echo: 'a' } });
      expect((await post({ query: TOUCH }, { accept })).json.data.thingTouch.errors).toEqual([]);
      expect((await post([{ query: '{ echo(text: "a") }' }], { accept })).json).toEqual([{ data: { echo: 'a' } }]);
      expect((await post({ query: '{ nothing }' }, { accept })).status).toBe(400);
      const get = await fetch(`${server.url}?query=${encodeURIComponent('{ echo(text: "b") }')}`, {
        headers: { accept },
      });
      expect(get.headers.get('content-type')).toContain('json');
      expect(await get.json()).toEqual({ data: { echo: 'b' } });
    });

    it('answers with events if the client names them first', async () => {
      const response = await fetch(server.url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'text/event-stream, application/json' },
        body: JSON.stringify({ query: '{ echo(text: "a") }' }),
      });
      expect(await response.text()).toContain('event: complete');
    });
  });

  it('refuses mutations by GET, other methods and other bodies, changing nothing', async () => {
    const before = touched;
    const get = await fetch(`${server.url}?query=${encodeURIComponent(TOUCH)}`);
    expect(get.status).toBe(405);
    const byStream = await fetch(`${server.url}?query=${encodeURIComponent(TOUCH)}`, {
      headers: { accept: 'text/event-stream' },
    });
    expect(byStream.status).toBe(405);
    expect((await fetch(server.url, { method: 'DELETE' })).status).toBe(405);
    const multipart = new FormData();
    multipart.set('operations', JSON.stringify({ query: TOUCH }));
    expect((await fetch(server.url, { method: 'POST', body: multipart })).status).toBe(415);
    expect(
      (
        await fetch(server.url, {
          method: 'POST',
          headers: { 'content-type': 'text/plain' },
          body: JSON.stringify({ query: TOUCH }),
        })
      ).status,
    ).toBe(415);
    expect((await post({ query: TOUCH }, { accept: 'image/png' })).status).toBe(406);
    expect(touched).toBe(before);
  });

  it('refuses a body over 1 MB with or without a declared length', async () => {
    const big = JSON.stringify({ query: '{ echo(text: "a") }', variables: { x: 'x'.repeat(1_000_000) } });
    expect((await post(big)).status).toBe(413);
    const stream = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode(big));
        controller.close();
      },
    });
    const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: stream, duplex: 'half' };
    expect((await fetch(server.url, init)).status).toBe(413);
  });
});

describe('credentials', () => {
  it('give 401 in the documented form if they are wrong', async () => {
    const { status, json } = await post({ query: '{ echo(text: "a") }' }, { 'private-token': 'nonsense' });
    expect(status).toBe(401);
    expect(json).toEqual({ errors: [{ message: 'Invalid token' }] });
  });

  it('allow only what their scopes permit', async () => {
    const me = { query: '{ currentUserId }' };
    expect((await post(me)).json.data.currentUserId).toBeNull();
    expect((await post(me, { authorization: 'Bearer user-7' })).json.data.currentUserId).toBe(7);
    expect((await post(me, { 'private-token': 'reader-7' })).json.data.currentUserId).toBe(7);
    const before = touched;
    const write = await post({ query: TOUCH }, { 'private-token': 'reader-7' });
    expect([write.status, write.json.errors[0].extensions.code]).toEqual([403, 'INSUFFICIENT_SCOPE']);
    expect((await post(me, { 'private-token': 'git-7' })).status).toBe(403);
    expect(touched).toBe(before);
    expect((await post({ query: TOUCH }, { 'private-token': 'user-7' })).status).toBe(200);
  });
});

describe('bodies with too many values or levels', () => {
  const query = '{ __typename }';
  const many = JSON.stringify({
    query,
    variables: Object.fromEntries(Array.from({ length: 21_000 }, (_, n) => [n, 1])),
  });
  const deep = `{"query":"${query}","variables":{"a":${'['.repeat(300_000)}${']'.repeat(300_000)}}}`;

  it('are refused before they are parsed', async () => {
    expect((await post(many)).json.errors).toEqual([
      expect.objectContaining({ message: 'The body holds more than 20000 values' }),
    ]);
    expect((await post(deep)).json.errors).toEqual([
      expect.objectContaining({ message: 'The body nests more than 64 levels deep' }),
    ]);
    const variables = encodeURIComponent('['.repeat(100) + ']'.repeat(100));
    const get = await fetch(`${server.url}?query=${encodeURIComponent(query)}&variables=${variables}`, {
      headers: { accept: 'text/event-stream' },
    });
    expect(await get.json()).toEqual({ errors: [{ message: '`variables` nests more than 64 levels deep' }] });
    const form = await fetch(server.url, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      body: `query=${encodeURIComponent(query)}${'&a=1'.repeat(60_000)}`,
    });
    expect(form.status).toBe(413);
  });

  it('close the WebSocket that they arrive on', async () => {
    for (const payload of [many, deep]) {
      const socket = new WebSocket(server.url.replace('http', 'ws'), 'graphql-transport-ws');
      await once(socket, 'open');
      socket.send(JSON.stringify({ type: 'connection_init' }));
      await once(socket, 'message');
      socket.send(`{"id":"1","type":"subscribe","payload":${payload}}`);
      const [code] = await once(socket, 'close');
      expect(code).toBe(4400);
    }
  });
});

describe('limits', () => {
  it('let introspection pass', async () => {
    const query = getIntrospectionQuery({
      descriptions: true,
      inputValueDeprecation: true,
      specifiedByUrl: true,
      oneOf: true,
    });
    expect((await post({ query })).json.errors).toBeUndefined();
  });

  it('stop excessive queries before execution', async () => {
    const before = resolved;
    const nest = (depth: number): string => (depth === 0 ? 'id' : `things(first: 1) { nodes { ${nest(depth - 1)} } }`);
    expect(await refusal(`{ ${nest(13)} }`)).toMatch(/25 levels of depth/);
    expect(await refusal(`{ ${Array.from({ length: 61 }, (_, i) => `a${i}: echo(text: "a")`).join(' ')} }`)).toMatch(
      /60 aliases/,
    );
    expect(await refusal(`{ echo(text: "a") ${'@skip(if: false) '.repeat(51)} }`)).toMatch(/50 directives/);
    expect(await refusal(`{ ${'__typename '.repeat(4_000)} }`)).toMatch(/more than 4000 tokens/);
    expect(await refusal(`{ ${'__typename '.repeat(200)} }`)).toMatch(/repeats the same fields/);
    expect(await refusal(`{ echo(text: "${'x'.repeat(100_000)}") }`)).toMatch(/100000 characters/);
    expect(await refusal('{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }')).toMatch(
      /within itself/,
    );
    expect(await refusal(`{ ${'{'.repeat(3_000)}`)).toMatch(/Syntax|deep/);
    expect(await refusal(`{ echo(text: ${'['.repeat(3_500)}) }`)).toMatch(/Syntax|deep/);
    const doubling = Array.from(
      { length: 20 },
      (_, i) => `fragment F${i} on Thing { things { nodes { ...F${i + 1} ...F${i + 1} } } }`,
    ).join(' ');
    expect(await refusal(`{ things { nodes { ...F0 } } } ${doubling} fragment F20 on Thing { id }`)).toMatch(
      /limit of/,
    );
    const wide = Array.from({ length: 31 }, (_, i) => `a${i}: echo(text: "a")`).join(' ');
    expect(await refusal(`{ ${wide} }`)).toMatch(/30 fields at the top/);
    const overlap = `{ ${'things { nodes { id } } '.repeat(150)} }`;
    expect(await refusal(overlap)).toMatch(/repeats the same fields/);
    expect(resolved).toBe(before);
  });

  it('multiply page sizes through nested connections', async () => {
    const nested =
      'query($n: Int) { things(first: 100) { nodes { things(first: $n) { nodes { id } } } } queryComplexity { score limit } }';
    expect((await post({ query: nested, variables: { n: 99 } })).json.data.queryComplexity).toEqual({
      score: 10_000,
      limit: 10_000,
    });
    expect(await refusal(nested, { n: 100 })).toMatch(/10100 nodes/);
    // A page without a size counts as a full page. A larger size is cut to a full page.
    expect(await refusal('{ things { nodes { things { nodes { id } } } } }')).toMatch(/10100 nodes/);
    expect(
      await refusal(
        '{ things(first: 1000000000) { edges { node { things(last: 1000000000) { edges { cursor } } } } } }',
      ),
    ).toMatch(/10100 nodes/);
    expect(
      (await post({ query: '{ things { count } queryComplexity { score } }' })).json.data.queryComplexity.score,
    ).toBe(1);
  });
});

describe('GraphiQL', () => {
  it('is served from local assets, compressed, and can be turned off', async () => {
    const explorer = server.url.replace('/api/graphql', '/-/graphql-explorer');
    const page = await fetch(explorer, { headers: { 'accept-encoding': 'br' } });
    const html = await page.text();
    expect(page.headers.get('content-encoding')).toBe('br');
    expect(html).toContain('YogaGraphiQL');
    expect(html).not.toMatch(/<(script|link)[^>]+(src|href)="https?:/);
    const again = await fetch(server.url, {
      headers: { accept: 'text/html', 'if-none-match': page.headers.get('etag') ?? '' },
    });
    expect(again.status).toBe(304);
    server.settings.graphiql = false;
    expect((await fetch(explorer)).status).toBe(404);
    server.settings.graphiql = true;
  });
});
