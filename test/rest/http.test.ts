import { randomBytes, randomUUID } from 'node:crypto';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import pino from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { closeHttp, createHttp } from '#app/http.ts';
import { createContextFactory } from '#platform/create-context.ts';
import {
  badParameters,
  badRequest,
  conflict,
  DomainError,
  forbidden,
  insufficientScope,
  invalid,
  invalidToken,
  notFound,
  unauthenticated,
  unprocessable,
} from '#platform/errors.ts';
import { newChainId } from '#platform/event-log/event-chain.ts';
import { GitError } from '#platform/git/git-error.ts';
import { boolean, hash, idOrPath, integer, list, text } from '#rest/params.ts';
import { listRoute, route, streamRoute } from '#rest/route.ts';
import { createTinyApp, form, json, multipart, type TinyApp } from './harness.ts';

const base = { tag: 'Things', summary: 'A thing' };
const open = { ...base, auth: 'optional' } as const;
const Any = z.record(z.string(), z.unknown());
const databaseError = (code: string, message = 'x') => Object.assign(new Error(message), { code });

const failures: Readonly<Record<string, Error>> = {
  not_found: notFound('Project'),
  forbidden: forbidden('no'),
  unauthenticated: unauthenticated(),
  invalid_token: invalidToken('Token was revoked.'),
  scope: insufficientScope(['api', 'read_api']),
  parameters: badParameters('title is missing'),
  bad_request: badRequest('why not'),
  invalid: invalid({ path: ['has already been taken'] }),
  conflict: conflict('409 Conflict'),
  unprocessable: unprocessable('422 Unprocessable Entity'),
  not_allowed: new DomainError('not_allowed', '405 Method Not Allowed'),
  too_large: new DomainError('too_large', '413 Request Entity Too Large'),
  too_many: new DomainError('too_many_requests', 'This endpoint has been requested too many times. Try again later.', {
    retryAfterSeconds: 30,
  }),
  unavailable: new DomainError('unavailable', '503 Service Unavailable', { retryAfterSeconds: 9 }),
  no_space: new DomainError('no_space', '507 Insufficient Storage'),
  bug: new TypeError('secret /srv/path in a stack'),
  database_gone: databaseError('57P01', 'terminating connection due to administrator command'),
  database_lost: new Error('Connection terminated unexpectedly'),
  database_slow: databaseError('57014', 'canceling statement due to statement timeout'),
  database_busy: databaseError('55P03', 'canceling statement due to lock timeout'),
  database_conflict: databaseError('40P01', 'deadlock detected'),
  files: databaseError('EMFILE', 'EMFILE: too many open files'),
  git_files: new GitError('failed', 'git could not be started', { cause: databaseError('EMFILE') }),
  range: databaseError('22003', 'value out of range'),
  disk: databaseError('53100', 'No space left on device'),
  file_disk: databaseError('ENOSPC', 'ENOSPC: no space left on device, write'),
  git_disk: new GitError('no_space', 'There is no space left for the repository'),
  git_start: new GitError('failed', 'git could not be started', { cause: databaseError('ENOSPC') }),
};

const state = { aborted: 0, started: 0 };
const slow = { started: Promise.withResolvers<void>(), go: Promise.withResolvers<void>() };

const echo = (method: 'POST' | 'PUT' | 'DELETE' | 'GET', path: '/echo/:id' | '/echo') =>
  route({
    ...open,
    method,
    path,
    status: 200,
    scopes: ['api', 'read_api'],
    input: {
      id: idOrPath().optional(),
      title: text().optional(),
      overwrite: boolean().optional(),
      override_params: hash({ visibility: text().optional() }).optional(),
      tags: list(text()).optional(),
      weight: integer().nullish(),
    },
    response: Any,
    run: async (_ctx, input) => ({ ...input }),
  });

const routes = [
  echo('GET', '/echo/:id'),
  echo('GET', '/echo'),
  echo('POST', '/echo/:id'),
  echo('POST', '/echo'),
  echo('DELETE', '/echo/:id'),
  route({
    ...open,
    method: 'GET',
    path: '/echo/static',
    response: z.literal('static'),
    run: async () => 'static' as const,
  }),
  streamRoute({
    ...open,
    method: 'GET',
    path: '/files/:id/raw/*file_path',
    input: { id: idOrPath(), file_path: text() },
    run: async (_ctx, { file_path }) => ({
      stream: () => Readable.from([Buffer.from(file_path)]),
      size: Buffer.byteLength(file_path),
      contentType: 'text/plain',
      filename: `a"b\r\nü/${file_path.length}.txt`,
      headers: { 'X-Gitlab-File-Path': 'x' },
    }),
  }),
  streamRoute({
    ...open,
    method: 'GET',
    path: '/broken',
    run: async () => ({
      contentType: 'text/plain',
      stream: Readable.from(
        (async function* () {
          yield Buffer.alloc(100_000, 'a');
          throw new Error('the disk is gone');
        })(),
      ),
    }),
  }),
  route({
    ...open,
    method: 'GET',
    path: '/fail/:how',
    input: { how: text() },
    response: null,
    run: async (_ctx, { how }, http) => {
      http.setHeader('X-Total', '1');
      throw failures[how] ?? new Error(how);
    },
  }),
  route({ ...base, method: 'GET', path: '/mine', response: Any, run: async (ctx) => ({ id: ctx.actor.userId }) }),
  route({ ...base, method: 'PUT', path: '/mine', response: null, run: async () => {} }),
  route({ ...base, method: 'GET', path: '/admin', admin: true, response: Any, run: async () => ({}) }),
  route({ ...base, method: 'GET', path: '/any-token', scopes: [], response: Any, run: async () => ({}) }),
  route({ ...base, method: 'POST', path: '/root', root: true, response: Any, run: async () => ({ ok: true }) }),
  route({
    ...open,
    method: 'GET',
    path: '/context',
    response: Any,
    run: async (ctx) => ({ request: ctx.requestId, chain: ctx.chainId }),
  }),
  route({
    ...open,
    method: 'GET',
    path: '/slow',
    response: Any,
    run: async (ctx) => {
      state.started++;
      slow.started.resolve();
      ctx.signal.addEventListener('abort', () => state.aborted++);
      await slow.go.promise;
      return { done: true };
    },
  }),
  route({
    ...open,
    method: 'GET',
    path: '/lie',
    response: z.object({ id: z.number() }),
    run: async () => JSON.parse('{"id":"x"}'),
  }),
  listRoute({
    ...open,
    path: '/list',
    item: z.number(),
    paging: 'offset',
    run: async () => ({ items: [1, 2], total: 2 }),
  }),
];

const lines: string[] = [];
let app: TinyApp;
let key: Buffer;
let failing = false;
beforeAll(async () => {
  const log = pino({ level: 'debug', base: null }, { write: (line: string) => void lines.push(line) });
  const made = await createTinyApp(routes);
  const services = { ...made.services, log };
  key = services.secretKey;
  await made[Symbol.asyncDispose]();
  app = await createTinyApp(routes, {
    services,
    createContext: createContextFactory(services),
    readiness: {
      database: async () => {
        if (failing) throw new Error('away');
      },
    },
    mounts: [
      (fastify, { contextOf }) => {
        fastify.get('/mounted', async (request) => ({ user: (await contextOf(request)).actor.userId }));
        fastify.post('/mounted', async (request) => request.body);
      },
    ],
  });
});
afterAll(() => app[Symbol.asyncDispose]());

const API = '/api/v4';

describe('a parameter', () => {
  it('is read from the query, a form, JSON or multipart', async () => {
    const expected = {
      id: { path: 'a/b' },
      title: 'x',
      overwrite: true,
      override_params: { visibility: 'private' },
      tags: ['p', 'q'],
      weight: null,
    };
    const text = 'title=x&overwrite=True&override_params[visibility]=private&tags[]=p&tags[]=q&weight=';
    const path = `${API}/echo/a%2Fb`;
    const parts = text.split('&').map((pair) => ({ name: pair.split('=')[0] ?? '', value: pair.split('=')[1] ?? '' }));
    const body = {
      title: 'x',
      overwrite: 'True',
      'override_params[visibility]': 'private',
      tags: ['p', 'q'],
      weight: null,
    };
    for (const answer of [
      await app.ask(`${path}?${text}`),
      await app.ask(path, form(text)),
      await app.ask(path, form(text, 'DELETE')),
      await app.ask(path, json(body)),
      await app.ask(path, multipart(parts)),
    ]) {
      expect(answer.json()).toEqual(expected);
      expect(answer.status).toBe(200);
    }
  });

  it('takes precedence in the path over the body, and in the body over the query', async () => {
    const answer = await app.ask(`${API}/echo/7?title=query&id=8&weight=1`, json({ title: 'body', id: 9 }));
    expect(answer.json()).toEqual({ id: { id: 7 }, title: 'body', weight: 1 });
  });

  it('keeps an encoded slash in its segment, even beside static routes and with trailing slashes', async () => {
    expect((await app.ask(`${API}/echo/a%2Fb%2ec/`)).json()).toEqual({ id: { path: 'a/b.c' } });
    expect((await app.ask(`${API}/echo/static`)).json()).toBe('static');
    expect((await app.ask(`${API}/echo/${'a'.repeat(2_000)}`)).status).toBe(400);
    expect((await app.ask(`${API}/echo/18446744073709551616`)).json()).toEqual({
      id: { path: '18446744073709551616' },
    });
  });

  it('is never cut off by a client that resolves dots in the path of a change', async () => {
    const deleted = (path: string) => app.ask(path, form('title=x', 'DELETE'));
    expect((await deleted(`${API}/echo/7`)).status).toBe(200);
    for (const path of [`${API}/echo/7/`, `${API}/echo/7/?title=x`, new URL(`http://hub${API}/echo/7/x/..`).pathname]) {
      const answer = await deleted(path);
      expect([path, answer.status, answer.json()]).toEqual([path, 404, { error: '404 Not Found' }]);
    }
    expect((await app.ask(`${API}/mine/`, { method: 'PUT' })).status).toBe(404);
  });

  it('takes the rest of the path if the route declares it', async () => {
    expect((await app.ask(`${API}/files/1/raw/a/b%2Fc.txt`)).text).toBe('a/b/c.txt');
  });

  it('may be absent, without any body', async () => {
    const kinds: Record<string, string>[] = [
      {},
      { 'content-type': 'application/json' },
      { 'content-type': 'text/weird', 'content-length': '0' },
    ];
    for (const headers of kinds) {
      expect((await app.ask(`${API}/echo`, { method: 'POST', headers })).json()).toEqual({});
    }
  });
});

describe('a hostile request', () => {
  it.each([
    ['malformed JSON', json(undefined), { body: '{"a":' }, 400],
    ['a JSON array', json([1]), {}, 400],
    ['deep JSON', json(undefined), { body: `{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}` }, 400],
    ['a repeated scalar', form('title=a&title=b'), {}, 400],
    ['a scalar as an array', form('title[]=a'), {}, 400],
    ['a scalar as a hash', json({ title: { a: 1 } }), {}, 400],
    ['NUL', json({ title: 'a\0' }), {}, 400],
    ['a lone surrogate', json(undefined), { body: '{"title":"\\ud800"}' }, 400],
    ['a broken escape', form('title=%zz'), {}, 400],
    ['an unknown type', { method: 'POST', headers: { 'content-type': 'text/xml' }, body: '<a/>' }, {}, 415],
    ['a large body', json({ title: 'a'.repeat(9 * 1024 * 1024) }), {}, 413],
    [
      'multipart without boundary',
      { method: 'POST', headers: { 'content-type': 'multipart/form-data' }, body: 'x' },
      {},
      400,
    ],
    ['multipart cut off', multipart([{ name: 'title', value: 'x' }]), { body: '--x-boundary-x\r\nContent-Disp' }, 400],
  ])('%s is refused', async (_name, ask, more, status) => {
    const answer = await app.ask(`${API}/echo`, { ...ask, ...more });
    expect(answer.status).toBe(status);
    expect(answer.headers['content-type']).toContain('application/json');
    expect(Object.keys(z.record(z.string(), z.string()).parse(answer.json()))).toHaveLength(1);
    expect((await app.ask(`${API}/echo`)).status).toBe(200);
  });

  it.each([
    ['/../x', 400],
    [`${API}/echo/..`, 400],
    [`${API}/echo/%2e%2E/x`, 400],
    [`${API}/echo/./x`, 400],
    [`${API}/echo/%zz`, 400],
    [`${API}/echo/%00`, 400],
    [`${API}/echo?${'a'.repeat(20_000)}`, 414],
    [`${API}/echo/.hidden`, 200],
    [`${API}/echo?title=/../x`, 200],
    [`${API}/nowhere`, 404],
    ['/', 404],
  ])('%s', async (path, status) => {
    const answer = await app.ask(path);
    expect(answer.status).toBe(status);
    expect(answer.headers['x-request-id']).toBeTruthy();
    if (status === 404) expect(answer.json()).toEqual({ error: '404 Not Found' });
  });

  it.each([
    ['PUT', '/echo/1', 'DELETE, GET, HEAD, POST'],
    ['PATCH', '/echo/group%2Fproject?title=x', 'DELETE, GET, HEAD, POST'],
    ['DELETE', '/echo/', 'GET, HEAD, POST'],
    ['OPTIONS', '/echo', 'GET, HEAD, POST'],
    ['POST', '/files/1/raw/a/b/c.txt', 'GET, HEAD'],
    ['POST', '/mine', 'GET, HEAD, PUT'],
  ] as const)('%s %s is refused with 405 and the allowed methods', async (method, path, allow) => {
    // The refusal does not depend on the caller or the body, which is not read.
    for (const type of ['application/json', 'application/x-www-form-urlencoded', 'image/png']) {
      const headers = { 'content-type': type };
      const answer = await app.ask(API + path, { method, headers, ...(method === 'OPTIONS' ? {} : { body: '{' }) });
      expect([answer.status, answer.json(), answer.headers.allow]).toEqual([405, { error: '405 Not Allowed' }, allow]);
    }
  });

  it('is a 404 for an unknown path, even if no route has its method', async () => {
    for (const [method, path] of [
      ['PUT', '/nowhere'],
      ['PUT', '/echo/1/2'],
      ['POST', '/files/1/raw'],
      ['DELETE', '/echoes'],
    ] as const) {
      const answer = await app.ask(API + path, { method });
      expect([path, answer.status, answer.json()]).toEqual([path, 404, { error: '404 Not Found' }]);
    }
  });

  it.each(['', '{'])('is a 404 for an unknown path whatever its body: %j', async (body) => {
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const answer = await app.ask(`${API}/nowhere`, { method, headers: { 'content-type': 'application/json' }, body });
      expect([method, answer.status, answer.json()]).toEqual([method, 404, { error: '404 Not Found' }]);
    }
  });

  it('is refused at the connection for a megabyte of query or conflicting framing', async () => {
    const raw = (text: string) =>
      new Promise<string>((resolve, reject) => {
        const socket = connect(app.port, '127.0.0.1', () => socket.write(text));
        let received = '';
        socket.on('data', (chunk) => {
          received += chunk.toString();
        });
        socket.on('close', () => resolve(received));
        socket.on('error', (error) => (received === '' ? reject(error) : resolve(received)));
      });
    expect(await raw(`GET /api/v4/echo?${'a'.repeat(100_000)} HTTP/1.1\r\nHost: x\r\n\r\n`)).toMatch(
      /^HTTP\/1.1 (414|431) /,
    );
    const both =
      'POST /api/v4/echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
    expect(await raw(both)).toMatch(/^HTTP\/1.1 400 /);
  });
});

describe('an error', () => {
  it.each([
    ['not_found', 404, { message: '404 Project Not Found' }],
    ['forbidden', 403, { message: '403 Forbidden - no' }],
    ['unauthenticated', 401, { message: '401 Unauthorized' }],
    ['invalid_token', 401, { error: 'invalid_token', error_description: 'Token was revoked.' }],
    [
      'scope',
      403,
      {
        error: 'insufficient_scope',
        error_description: 'The request requires higher privileges than provided by the access token.',
        scope: 'api read_api',
      },
    ],
    ['parameters', 400, { error: 'title is missing' }],
    ['bad_request', 400, { message: '400 Bad request - why not' }],
    ['invalid', 400, { message: { path: ['has already been taken'] } }],
    ['conflict', 409, { message: '409 Conflict' }],
    ['unprocessable', 422, { message: '422 Unprocessable Entity' }],
    ['not_allowed', 405, { message: '405 Method Not Allowed' }],
    ['too_large', 413, { message: '413 Request Entity Too Large' }],
    ['too_many', 429, { message: { error: 'This endpoint has been requested too many times. Try again later.' } }],
    ['unavailable', 503, { message: '503 Service Unavailable' }],
    ['no_space', 507, { message: '507 Insufficient Storage' }],
    ['bug', 500, { message: '500 Internal Server Error' }],
    ['database_gone', 503, { message: '503 Service Unavailable' }],
    ['database_lost', 503, { message: '503 Service Unavailable' }],
    ['database_slow', 503, { message: '503 Service Unavailable' }],
    ['database_busy', 503, { message: '503 Service Unavailable' }],
    ['database_conflict', 503, { message: '503 Service Unavailable' }],
    ['files', 503, { message: '503 Service Unavailable' }],
    ['git_files', 503, { message: '503 Service Unavailable' }],
    ['range', 400, { message: '400 Bad request - a number is out of range' }],
    ['disk', 507, { message: '507 Insufficient Storage' }],
    ['file_disk', 507, { message: '507 Insufficient Storage' }],
    ['git_disk', 507, { message: '507 Insufficient Storage' }],
    ['git_start', 507, { message: '507 Insufficient Storage' }],
  ])('%s answers %i', async (how, status, body) => {
    const answer = await app.ask(`${API}/fail/${how}`);
    expect(answer.status).toBe(status);
    expect(answer.json()).toEqual(body);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(answer.headers['x-total']).toBeUndefined();
    if (status === 503 || status === 429) expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
    if (how === 'invalid_token') expect(answer.headers['www-authenticate']).toBe('Bearer');
  });

  it('is logged once with the request id if it comes from a bug', async () => {
    lines.length = 0;
    await app.ask(`${API}/fail/bug`, { headers: { 'x-request-id': 'my-bug' } });
    const logged = lines.filter((line) => line.includes('request failed'));
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain('"request_id":"my-bug"');
    lines.length = 0;
    await app.ask(`${API}/fail/not_found`);
    expect(lines.filter((line) => line.includes('request failed'))).toEqual([]);
  });

  it('aborts the stream if it happens during one', async () => {
    await expect(app.ask(`${API}/broken`)).rejects.toThrow();
  });

  it('reveals in tests an answer that does not match its schema', async () => {
    expect((await app.ask(`${API}/lie`)).status).toBe(500);
  });
});

describe('a credential', () => {
  const mine = (headers: Record<string, string>, query = '') => app.ask(`${API}/mine${query}`, { headers });
  const basic = (user: string, password: string) => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;

  it('is accepted in each of its places', async () => {
    for (const answer of [
      await mine({ 'private-token': 'user-token' }),
      await mine({ authorization: 'Bearer user-token' }),
      await mine({ authorization: basic('ada', 'user-token') }),
      await mine({}, '?private_token=user-token'),
      await mine({}, '?access_token=user-token'),
      await mine({ 'private-token': 'user-token', authorization: 'bearer user-token' }, '?private_token=user-token'),
    ]) {
      expect(answer.json()).toEqual({ id: 7 });
    }
  });

  it('is refused when absent, unknown, malformed or contradictory', async () => {
    expect((await mine({})).json()).toEqual({ message: '401 Unauthorized' });
    expect((await mine({ 'private-token': 'nonsense' })).json()).toMatchObject({ error: 'invalid_token' });
    expect((await app.ask(`${API}/echo`, { headers: { 'private-token': 'nonsense' } })).status).toBe(401);
    for (const answer of [
      await mine({ 'private-token': 'user-token', authorization: 'Bearer admin-token' }),
      await mine({ 'private-token': 'user-token' }, '?access_token=admin-token'),
      await mine({ authorization: 'Digest x' }),
      await mine({ authorization: 'Bearer' }),
      await mine({ authorization: `Basic ${Buffer.from('no colon').toString('base64')}` }),
      await mine({}, '?private_token[]=user-token'),
    ]) {
      expect(answer.status).toBe(401);
    }
  });

  it('needs a scope, and for some routes an administrator', async () => {
    expect((await mine({ 'private-token': 'reader-token' })).status).toBe(200);
    const refused = await app.ask(`${API}/mine`, { method: 'PUT', headers: { 'private-token': 'reader-token' } });
    expect(refused.status).toBe(403);
    expect(refused.json()).toMatchObject({ error: 'insufficient_scope', scope: 'api' });
    expect((await app.ask(`${API}/any-token`, { headers: { 'private-token': 'reader-token' } })).status).toBe(200);
    expect((await app.ask(`${API}/admin`, { headers: { 'private-token': 'user-token' } })).json()).toEqual({
      message: '403 Forbidden',
    });
    expect((await app.ask(`${API}/admin`)).status).toBe(401);
    expect((await app.ask(`${API}/admin`, { headers: { 'private-token': 'admin-token' } })).status).toBe(200);
  });

  it('never appears in the log, nor does any query', async () => {
    lines.length = 0;
    await mine({ 'private-token': 'user-token' }, '?private_token=user-token&x=confidential');
    await expect.poll(() => lines.length).toBeGreaterThan(0);
    expect(lines.join('')).not.toMatch(/user-token|confidential/);
    const line: unknown = JSON.parse(lines.find((each) => each.includes('"msg":"request"')) ?? '{}');
    expect(line).toMatchObject({ method: 'GET', route: '/api/v4/mine', status: 200, user_id: 7 });
  });
});

describe('a response', () => {
  it('has the headers of v4', async () => {
    const { headers } = await app.ask(`${API}/echo`);
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'cache-control': 'max-age=0, private, must-revalidate',
      vary: 'Origin',
      'x-runtime': expect.stringMatching(/^\d\.\d{6}$/),
      'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/),
      etag: expect.stringMatching(/^W\/"[\w-]+"$/),
    });
  });

  it('returns a safe request id, and continues a chain that this hub started', async () => {
    const ask = (id: string, chain: string) =>
      app.ask(`${API}/context`, { headers: { 'x-request-id': id, 'x-gitlab-event-uuid': chain } });
    const ours = newChainId(key);
    const good = await ask('run-1:2', ours);
    expect(good.headers['x-request-id']).toBe('run-1:2');
    expect(good.json()).toEqual({ request: 'run-1:2', chain: ours });
    const altered = `${ours.slice(0, -1)}${ours.endsWith('0') ? '1' : '0'}`;
    for (const theirs of ['!', 'c-1', randomUUID(), newChainId(randomBytes(32)), altered, ours.toUpperCase()]) {
      const bad = await ask('a b"<', theirs);
      expect(bad.headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
      expect([theirs, bad.json()]).toEqual([theirs, expect.objectContaining({ chain: null })]);
    }
  });

  it('is a 304 for a conditional GET', async () => {
    const { etag } = (await app.ask(`${API}/list`)).headers;
    const conditional = (tag: unknown) => app.ask(`${API}/list`, { headers: { 'if-none-match': String(tag) } });
    const same = await conditional(etag);
    expect(same.status).toBe(304);
    expect(same.text).toBe('');
    expect(same.headers['x-total']).toBe('2');
    expect(same.headers['content-type']).toBeUndefined();
    expect((await conditional(`"other", ${etag}`)).status).toBe(304);
    expect((await conditional('*')).status).toBe(304);
    expect((await conditional('W/"other"')).status).toBe(200);
    const posted = await app.ask(`${API}/echo`, json({}));
    expect(posted.headers.etag).toBeUndefined();
  });

  it('has no content type if it is empty', async () => {
    const answer = await app.ask(`${API}/mine`, { method: 'PUT', headers: { 'private-token': 'admin-token' } });
    expect(answer.status).toBe(204);
    expect(answer.headers['content-type']).toBeUndefined();
    expect(answer.headers['content-length']).toBeUndefined();
  });

  it('gives a download a safe file name, and HEAD its size', async () => {
    const path = `${API}/files/1/raw/abc`;
    for (const answer of [await app.ask(path), await app.ask(path, { method: 'HEAD' })]) {
      expect(answer.status).toBe(200);
      expect(answer.headers).toMatchObject({
        'content-type': 'text/plain',
        'content-length': '3',
        'x-content-type-options': 'nosniff',
        'x-gitlab-file-path': 'x',
        'content-disposition': `attachment; filename="a_b____3.txt"; filename*=UTF-8''a%22b__%C3%BC_3.txt`,
      });
    }
  });
});

describe('the server', () => {
  it('answers liveness and readiness probes', async () => {
    expect((await app.ask('/-/liveness')).json()).toEqual({ status: 'ok' });
    expect((await app.ask('/-/readiness')).json()).toEqual({ status: 'ok', database: { status: 'ok' } });
    failing = true;
    const failed = await app.ask('/-/readiness');
    failing = false;
    expect(failed.status).toBe(503);
    expect(failed.json()).toEqual({ status: 'failed', database: { status: 'failed' } });
    expect(await app.metrics.metrics()).toContain(
      'millrace_http_request_duration_seconds_count{method="GET",route="/-/liveness",status="200"} 1',
    );
  });

  it('serves other mounts with their own parsers and the same authentication', async () => {
    expect((await app.ask('/mounted', { headers: { 'private-token': 'user-token' } })).json()).toEqual({ user: 7 });
    expect((await app.ask('/mounted', { headers: { 'private-token': 'x' } })).status).toBe(401);
    expect((await app.ask('/mounted', json([1]))).json()).toEqual([1]);
    expect((await app.ask('/root', { method: 'POST', headers: { 'private-token': 'user-token' } })).json()).toEqual({
      ok: true,
    });
  });

  it('serves the API reference from local files', async () => {
    const page = await app.ask('/-/api-docs');
    expect(page.headers['content-security-policy']).toContain("default-src 'none'");
    const assets = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map((match) => match[1] ?? '');
    expect(assets).toHaveLength(4);
    for (const asset of assets) expect((await app.ask(asset)).status).toBe(200);
    expect((await app.ask('/-/api-docs/assets/package.json')).status).toBe(404);
    expect((await app.ask('/api/v4/openapi.json')).json()).toHaveProperty('openapi', '3.1.0');
  });

  it('aborts the work for a disconnected client, and finishes running requests when it closes', async () => {
    const registry = new Registry();
    const services = app.services;
    const fastify = await createHttp({
      services,
      routes,
      authenticate: async () => ({
        userId: null,
        username: null,
        isAdmin: false,
        isExternal: false,
        isSystem: false,
        scopes: null,
        credential: null,
      }),
      createContext: createContextFactory(services),
      metrics: registry,
      readiness: {},
      versions: () => Promise.resolve({ isV5Enabled: true, sunset: null }),
      countDeprecated: () => {},
      openApi: () => ({}),
    });
    const base = await fastify.listen({ host: '127.0.0.1', port: 0 });
    const controller = new AbortController();
    const given = fetch(`${base}/api/v4/slow`, { signal: controller.signal });
    await slow.started.promise;
    controller.abort();
    await expect(given).rejects.toThrow();
    await expect.poll(() => state.aborted).toBe(1);

    const running = fetch(`${base}/api/v4/slow`);
    await expect.poll(() => state.started).toBe(2);
    const closed = closeHttp(fastify, 60_000);
    await expect
      .poll(() =>
        fetch(`${base}/-/liveness`).then(
          () => 'open',
          () => 'closed',
        ),
      )
      .toBe('closed');
    slow.go.resolve();
    expect(await (await running).json()).toEqual({ done: true });
    await closed;
    expect(state.aborted).toBe(1);
  });
});
