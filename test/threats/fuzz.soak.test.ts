import { beforeAll, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import { routes } from '#app/routes.ts';
import type { Shape } from '#rest/input.ts';
import { keysetShape, pageShape } from '#rest/paging.ts';
import { kindOf } from '#rest/param-kind.ts';
import type { Route } from '#rest/route.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { computedMs } from '../support/computed-ms.ts';
import { collectionOf, fillPath, privateWorld, requiredOf, type World } from './world.ts';

// Threats, Requests and Users: sends hostile values to each parameter of each route, chosen by its declaration.

const app = useApp({ sweep: true });
let world: World;
let victim: TestUser;

beforeAll(async () => {
  world = await privateWorld(app());
  victim = await app().make.user();
});

const LONG = 'x'.repeat(20_000);
const TEXTS: readonly unknown[] = [
  '',
  '\0',
  '\ud800',
  '\u202e<script>\r\n',
  LONG,
  "'; DROP TABLE users; --",
  '..',
  '-x',
];
const NUMBERS: readonly unknown[] = [-1, 0, 2 ** 31, 2 ** 63, '18446744073709551616', 1.5, '1e3', 'NaN'];
const SHAPES: readonly unknown[] = [[['a']], { a: { b: 1 } }, [null], ['1', '2']];
const DATES: readonly unknown[] = ['0000-00-00', '9999-12-31', '2024-02-30', '294277-01-01', '-1'];
const LISTS: readonly unknown[] = [
  'x,y',
  [{ a: 1 }],
  [['x']],
  { 0: 'x' },
  Array.from({ length: 1_000 }, (_, i) => i),
  [2 ** 53],
  ['\0'],
];

const hostileFor = (schema: z.ZodType): readonly unknown[] => {
  const json = kindOf(schema)?.json ?? {};
  if (json.type === 'integer') return [...NUMBERS, ...SHAPES.slice(0, 2), ...TEXTS.slice(0, 2)];
  if (json.type === 'boolean') return ['maybe', 2, ...SHAPES.slice(0, 2)];
  if (json.format === 'date' || json.format === 'date-time') return [...DATES, ...SHAPES.slice(0, 2)];
  if (json.enum) return ['nothing of it', '__proto__', ...SHAPES.slice(0, 2)];
  if (json.type === 'string' || Array.isArray(json.type)) return [...TEXTS, ...NUMBERS.slice(2, 5), ...SHAPES];
  return [...LISTS, ...TEXTS.slice(0, 2), ...SHAPES, 1, true];
};

interface Probe {
  readonly method: string;
  readonly url: string;
  readonly body: Record<string, unknown> | undefined;
  readonly what: string;
}

let turn = 0;

/** Yields a request for each parameter with a hostile value, while the other parameters are valid. */
function* probesOf(route: Route): Generator<Probe> {
  const top = { projects: world.project.id, groups: world.group.id, namespaces: world.group.id, users: victim.id }[
    collectionOf(route)
  ];
  const ids = { ...world.ids, user_id: victim.id };
  const required = requiredOf(route, ids);
  const paging: Shape = route.kind === 'list' ? (route.paging === 'offset' ? pageShape : keysetShape) : {};
  const probe = (name: string, value: unknown): Probe => {
    const what = `${route.method} ${route.path} ${name}=${JSON.stringify(value).slice(0, 60)}`;
    if (route.pathNames.includes(name)) {
      const url = fillPath(route, top ?? 1, ids, { [name]: pathText(value) });
      return { method: route.method, url, body: hasBody(route) ? required : undefined, what };
    }
    const url = fillPath(route, top ?? 1, ids);
    const sent = { ...required, [name]: value };
    if (hasBody(route)) return { method: route.method, url, body: sent, what };
    return { method: route.method, url: `${url}?${queryOf(sent)}`, body: undefined, what };
  };
  for (const [name, schema] of Object.entries<z.ZodType>({ ...paging, ...route.shape })) {
    if (route.files.has(name)) continue;
    const values = hostileFor(schema);
    // Each parameter gets one value, in rotation.
    if (ALL) for (const value of values) yield probe(name, value);
    else yield probe(name, values[turn++ % values.length]);
  }
}

const hasBody = ({ method }: Route): boolean => method !== 'GET' && method !== 'DELETE';

/** Returns a text that a client can put into a path. */
const pathText = (value: unknown): string => {
  const text = typeof value === 'string' ? value.toWellFormed().slice(0, 5_000) : JSON.stringify(value);
  return text === '' || text === '..' ? '-' : text.slice(0, 3_000);
};

const queryOf = (sent: Record<string, unknown>): string => {
  const pairs: string[] = [];
  const add = (key: string, value: unknown) => {
    if (Array.isArray(value)) for (const each of value.slice(0, 50)) add(`${key}[]`, each);
    else if (typeof value === 'object' && value !== null)
      for (const [name, each] of Object.entries(value)) add(`${key}[${name}]`, each);
    else pairs.push(`${encodeURIComponent(key)}=${encodeURIComponent(String(value).toWellFormed().slice(0, 4_000))}`);
  };
  for (const [key, value] of Object.entries(sent)) add(key, value);
  return pairs.join('&');
};

const REVEALING = /\bat \S+ \(|node_modules|\/src\/|\.ts:\d|\bselect\b.+\bfrom\b|syntax error|violates|\/tmp\//i;

/** Sends the requests with some concurrency, and returns how many were sent and which answers were wrong. */
const send = async (client: Client, probes: Iterable<Probe>): Promise<{ sent: number; wrong: unknown[] }> => {
  const wrong: unknown[] = [];
  const queue = probes[Symbol.iterator]();
  let sent = 0;
  const worker = async () => {
    for (let next = queue.next(); !next.done; next = queue.next()) {
      const { method, url, body, what } = next.value;
      sent++;
      const { status, body: answer, headers } = await client.request(method, url, body);
      const text = typeof answer === 'string' ? answer : status < 400 ? '' : JSON.stringify(answer);
      const documented = status < 400 || (typeof answer === 'object' && ('error' in answer || 'message' in answer));
      if (status >= 500 || !documented || (status >= 400 && REVEALING.test(text)) || !headers.get('x-request-id')) {
        wrong.push({ what, status, answer: text.slice(0, 300) });
      }
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  return { sent, wrong };
};

/** `FUZZ=all` sends every value to every parameter, which takes some minutes. */
const ALL = process.env.FUZZ === 'all';

/** Yields the probes of the routes, or every nth of them. */
function* probes(chosen: readonly Route[], every = 1): Generator<Probe> {
  let count = 0;
  for (const route of chosen) {
    for (const probe of probesOf(route)) if (ALL || count++ % every === 0) yield probe;
  }
}

/** Requests the liveness probe repeatedly while `work` runs, and returns the most CPU time until an answer. */
const slowestWhile = async (work: Promise<unknown>): Promise<number> => {
  let slowestMs = 0;
  const state = { done: false };
  const end = () => {
    state.done = true;
  };
  work.then(end, end);
  while (!state.done) {
    const startedAt = computedMs();
    expect((await app().anonymous.get('/-/liveness')).status).toBe(200);
    slowestMs = Math.max(slowestMs, computedMs() - startedAt);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return slowestMs;
};

const ENDS_ACCESS = /\/self$/;
const deleting = routes.filter(({ method, path }) => method === 'DELETE' && !ENDS_ACCESS.test(path));
const admin = routes.filter(({ method, admin }) => admin && method !== 'DELETE');
const others = routes.filter(({ method, admin }) => !admin && method !== 'DELETE');

describe('a hostile parameter', ALL ? { timeout: 600_000 } : {}, () => {
  it('is refused by every route in the documented form, while others are served', async () => {
    const work = send(app().as(world.owner), probes(others));
    const slowestMs = await slowestWhile(work);
    const { sent, wrong } = await work;
    expect(wrong).toEqual([]);
    expect(sent).toBeGreaterThan(300);
    expect(slowestMs).toBeLessThan(1_000);
  });

  it('is also refused from anonymous callers, and from an administrator on administrative routes', async () => {
    // The owner has sent a value to each of these parameters before. The caller matters less than the route.
    const open = routes.filter(({ auth }) => auth === 'optional');
    const anonymous = await send(app().anonymous, probes(open, 2));
    expect(anonymous.wrong).toEqual([]);
    const administrator = await send(app().as(app().root), probes(admin));
    expect(administrator.wrong).toEqual([]);
  });

  it('deletes nothing but the named record', async () => {
    const { wrong } = await send(app().as(world.owner), probes(deleting));
    expect(wrong).toEqual([]);
    expect((await app().as(world.owner).get(`/groups/${world.subgroup.id}`)).status).toBe(200);
  });

  it('is refused in a body that is malformed, deeply nested or of the wrong type', async () => {
    const headers = { ...(await app().as(world.owner).headers()), 'content-type': 'application/json' };
    const posts = others.filter((route) => hasBody(route) && route.pathNames.length <= 1);
    const bodies = [
      '{',
      '[1]',
      '"text"',
      '1',
      'null',
      `${'{"a":'.repeat(20_000)}1${'}'.repeat(20_000)}`,
      '{"__proto__":{"admin":true}}',
    ];
    for (const [index, route] of posts.entries()) {
      const body = bodies[index % bodies.length] ?? '';
      const url = app().url + fillPath(route, world.project.id, world.ids, { id: 987_654_321 });
      const response = await fetch(url, { method: route.method, headers, body });
      expect([route.url, body.slice(0, 20), response.status]).toEqual([
        route.url,
        body.slice(0, 20),
        expect.toSatisfy((status: number) => status >= 400 && status < 500),
      ]);
      expect(await response.json()).toSatisfy((answer: object) => 'error' in answer || 'message' in answer);
    }
    for (const type of [
      'text/xml',
      'application/octet-stream',
      'multipart/form-data',
      'application/json; charset=utf-16',
    ]) {
      const response = await fetch(`${app().url}/api/v4/projects`, {
        method: 'POST',
        headers: { ...headers, 'content-type': type },
        body: 'x',
      });
      expect([type, response.status]).toEqual([
        type,
        expect.toSatisfy((status: number) => status >= 400 && status < 500),
      ]);
    }
  });

  it('makes nobody an administrator', async () => {
    const mine = {
      admin: true,
      is_admin: true,
      access_level: 60,
      state: 'active',
      id: 1,
      owner_id: app().root.id,
      creator_id: app().root.id,
    };
    const client = app().as(world.owner);
    const name = 'mass';
    const { body } = await client.post('/projects', { ...mine, name, path: name });
    expect(body).toMatchObject({ creator_id: world.owner.id, owner: { id: world.owner.id } });
    expect((await client.put(`/users/${world.owner.id}`, mine)).status).toBe(403);
    expect((await client.get('/user')).body).not.toHaveProperty('is_admin', true);
    for (const email of [
      ['a@example.com', 'b@example.com'],
      { a: 'a@example.com' },
      'no address',
      'a@example.com\r\nBcc: b@example.com',
    ])
      expect(
        (await app().as(app().root).post('/users', { email, username: 'taken', name: 'x', password: 'correct-horse' }))
          .status,
      ).toBe(400);
    const twice = await app().as(app().root).get('/users?username=a&username=b');
    expect(twice.status).toBe(400);
  });
});
