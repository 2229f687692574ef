import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { buildConnector } from 'undici';
import { afterEach, describe, expect, test } from 'vitest';
import type { Connect } from '#platform/http-client/agents.ts';
import {
  type AddressPolicy,
  createHttpClient,
  type HttpClient,
  type HttpClientOptions,
  OutboundError,
} from '#platform/http-client/http-client.ts';
import { localhostCertificate, localhostKey } from './localhost-certificate.ts';

const open: AddressPolicy = { allowLocal: true, allowlist: [] };
const closed: AddressPolicy = { allowLocal: false, allowlist: [] };

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const listen = async (server: Pick<Server, 'listen' | 'address' | 'close' | 'closeAllConnections' | 'once'>) => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  cleanups.push(() => {
    const end = new Promise((resolve) => server.close(resolve));
    server.closeAllConnections();
    return end;
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
};
const serve = (handler: RequestListener) => listen(createServer(handler));

/** Connects only to loopback, whatever the guard decided. */
const loopbackOnly: Connect = (options, callback) => {
  const [first] = options.addresses;
  if (first?.address !== '127.0.0.1') return callback(new Error('test: only loopback is ever connected to'), null);
  buildConnector({ allowH2: false })({ ...options, hostname: '127.0.0.1' }, callback);
};

const client = (options: HttpClientOptions = {}): HttpClient => {
  const http = createHttpClient({ connect: loopbackOnly, ...options });
  cleanups.push(() => http.close());
  return http;
};

const limits = { timeoutMs: 5_000, maxResponseBytes: 8_192 };
const at = (port: number, path = '') => `http://127.0.0.1:${port}/${path}`;

const failure = async (promise: Promise<unknown>): Promise<OutboundError> => {
  const error = await promise.then(
    () => new Error('it did not fail'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof OutboundError)) throw error;
  return error;
};

describe('request', () => {
  test('sends method, headers, credentials and body, and returns any status', async () => {
    const port = await serve(async (request, response) => {
      const body = await buffer(request);
      response.writeHead(418, { 'x-seen': `${request.method} ${request.url} ${request.headers['x-a']}` });
      response.end(`${request.headers.authorization} ${request.headers['content-length']} ${body}`);
    });
    const answer = await client().request({
      url: `http://me:pw@127.0.0.1:${port}/p?q=1`,
      method: 'POST',
      // The credentials of the URL replace it.
      headers: { 'x-a': 'b', Authorization: 'Bearer mine' },
      body: 'hello',
      policy: open,
      ...limits,
    });
    expect(answer.status).toBe(418);
    expect(answer.headers['x-seen']).toBe('POST /p?q=1 b');
    expect(answer.body.toString()).toBe(`Basic ${Buffer.from('me:pw').toString('base64')} 5 hello`);
    expect(answer.truncated).toBe(false);
    expect(answer.remoteAddress).toBe('127.0.0.1');
    expect(answer.durationMs).toBeGreaterThan(0);
  });

  test('streams a body, with its length if that is known', async () => {
    const port = await serve(async (request, response) => {
      const body = await buffer(request);
      response.end(`${request.headers['content-length']} ${request.headers['transfer-encoding']} ${body.length}`);
    });
    const parts = () => Readable.from([Buffer.alloc(70_000), Buffer.alloc(30_000)]);
    const base = { url: at(port), method: 'PUT', policy: open, ...limits } as const;
    const http = client();
    const sized = await http.request({ ...base, body: parts(), contentLength: 100_000 });
    expect(`${sized.body}`).toBe('100000 undefined 100000');
    const chunked = await http.request({ ...base, body: parts() });
    expect(`${chunked.body}`).toBe('undefined chunked 100000');
  });

  test('fails if the body fails while it is sent', async () => {
    const port = await serve(async (request) => void (await buffer(request).catch(() => undefined)));
    const body = Readable.from(
      (async function* () {
        yield Buffer.alloc(1000);
        throw new Error('the disk is gone');
      })(),
    );
    const error = await failure(client().request({ url: at(port), method: 'PUT', body, policy: open, ...limits }));
    expect(error.cause).toMatchObject({ message: 'the disk is gone' });
  });

  test('keeps connections alive and shares them', async () => {
    const seen = new Set<unknown>();
    const port = await serve((request, response) => {
      seen.add(request.socket);
      response.end('ok');
    });
    const http = client();
    for (let round = 0; round < 20; round++) {
      await http.request({ url: at(port), method: 'GET', policy: { ...open }, ...limits });
    }
    // undici frees a connection just after the answer, so two connections may alternate.
    expect(seen.size).toBeLessThanOrEqual(2);
  });

  test('truncates long answers, and stops endless ones', async () => {
    const port = await serve((request, response) => {
      if (request.url === '/long') return response.end('x'.repeat(10_000));
      const timer = setInterval(() => response.write('y'.repeat(60_000)), 1);
      return response.on('close', () => clearInterval(timer));
    });
    const http = client();
    for (const path of ['long', 'endless']) {
      const answer = await http.request({ url: at(port, path), method: 'GET', policy: open, ...limits });
      expect(answer.body.length).toBe(8_192);
      expect(answer.truncated).toBe(true);
    }
  });

  test('applies the time limit to silence, a dripping body and waiting for a connection', async () => {
    const port = await serve((request, response) => {
      if (request.url === '/silent') return;
      response.writeHead(200);
      const timer = setInterval(() => response.write('.'), 20);
      response.on('close', () => clearInterval(timer));
    });
    const http = client({ connectionsPerOrigin: 1 });
    const attempts = ['silent', 'drip', 'waiting'].map((path) =>
      failure(http.request({ url: at(port, path), method: 'POST', policy: open, ...limits, timeoutMs: 150 })),
    );
    for (const error of await Promise.all(attempts)) {
      expect(error.kind).toBe('timeout');
      expect(error.message).toBe('The server did not answer in time');
    }
    const good = await serve((_, response) => response.end('ok'));
    expect((await http.request({ url: at(good), method: 'GET', policy: open, ...limits })).status).toBe(200);
  });

  test('stops on the signal', async () => {
    const port = await serve(() => undefined);
    const http = client();
    const base = { url: at(port), method: 'GET', policy: open, ...limits } as const;
    expect((await failure(http.request({ ...base, signal: AbortSignal.abort() }))).kind).toBe('aborted');
    expect((await failure(http.request({ ...base, signal: AbortSignal.timeout(50) }))).kind).toBe('aborted');
  });

  test('reports the failure', async () => {
    const http = client({
      lookup: async (host) => {
        if (host === 'empty.example') return [];
        throw Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' });
      },
    });
    const send = (url: string, headers = {}) =>
      failure(http.request({ url, method: 'GET', headers, policy: open, ...limits }));
    expect(await send('http://missing.example/')).toMatchObject({
      kind: 'dns',
      message: 'The host name could not be resolved (ENOTFOUND)',
    });
    expect((await send('http://empty.example/')).kind).toBe('dns');

    const unused = createServer();
    unused.listen(0, '127.0.0.1');
    await once(unused, 'listening');
    const address = unused.address();
    const refused = typeof address === 'object' && address ? address.port : 0;
    unused.close();
    await once(unused, 'close');
    expect(await send(at(refused))).toMatchObject({
      kind: 'connect',
      message: 'The connection failed (ECONNREFUSED)',
    });

    const reset = await serve((request) => request.socket.destroy());
    expect((await send(at(reset))).kind).toBe('connect');
    const garbage = await serve((request) => request.socket.end('no http at all\r\n\r\n'));
    expect((await send(at(garbage))).kind).toBe('protocol');
    expect((await send(at(garbage), { 'x-bad': 'a\r\nb: c' })).kind).toBe('protocol');
  });

  test('verifies certificates unless told not to', async () => {
    const port = await listen(
      createTlsServer({ key: localhostKey, cert: localhostCertificate }, (_, response) => response.end('secure')),
    );
    const http = createHttpClient();
    cleanups.push(() => http.close());
    const base = { url: `https://127.0.0.1:${port}/`, method: 'GET', policy: open, ...limits } as const;
    expect((await failure(http.request(base))).kind).toBe('tls');
    expect(`${(await http.request({ ...base, tls: { verify: false } })).body}`).toBe('secure');
    expect((await failure(http.request(base))).kind).toBe('tls');
  });
});

describe('address guard', () => {
  test.each(['127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '2130706433', 'localhost', '10.0.0.1', '169.254.169.254'])(
    'never connects to %s when local requests are off',
    async (host) => {
      let connected = 0;
      const http = client({ connect: (_options, callback) => callback(new Error(`connect ${++connected}`), null) });
      const url = `http://${host}:8080/`;
      const error = await failure(http.request({ url, method: 'GET', policy: closed, ...limits }));
      expect(error.kind).toBe('blocked');
      expect(connected).toBe(0);
    },
  );

  test('refuses a name if any of its addresses is refused, when sending and when saving', async () => {
    const http = client({
      lookup: async () => [
        { address: '93.184.216.34', family: 4 },
        { address: '10.0.0.8', family: 4 },
      ],
    });
    const url = 'http://mixed.example/';
    expect((await failure(http.request({ url, method: 'GET', policy: closed, ...limits }))).kind).toBe('blocked');
    const error = await failure(http.check(url, closed));
    expect(error.kind).toBe('blocked');
    expect(error.message).not.toContain('10.0.0.8');
    expect((await http.check(url, { allowLocal: false, allowlist: ['mixed.example'] })).url.href).toBe(url);
  });

  test('blocks metadata services even when local requests are on', async () => {
    const http = client({ lookup: async () => [{ address: '169.254.169.254', family: 4 }] });
    const url = 'http://sneaky.example/';
    expect((await failure(http.request({ url, method: 'GET', policy: open, ...limits }))).kind).toBe('blocked');
  });

  test('resolves once per connection and connects to the checked address (DNS rebinding)', async () => {
    const port = await serve((_, response) => response.writeHead(200, { connection: 'close' }).end('ok'));
    const policy: AddressPolicy = { allowLocal: false, allowlist: ['127.0.0.1'] };
    let lookups = 0;
    const seen: string[] = [];
    const http = client({
      lookup: async () => [{ address: ++lookups === 1 ? '127.0.0.1' : '10.0.0.1', family: 4 }],
      connect: (options, callback) => {
        seen.push(options.addresses.map(({ address }) => address).join());
        loopbackOnly(options, callback);
      },
    });
    const base = { url: `http://rebind.example:${port}/`, method: 'GET', policy, ...limits } as const;
    expect((await http.request(base)).status).toBe(200);
    expect(lookups).toBe(1);
    expect((await failure(http.request(base))).kind).toBe('blocked');
    expect(seen).toEqual(['127.0.0.1']);
  });

  test('connects the socket itself to the checked address, without a second lookup', async () => {
    const port = await serve((request, response) => response.end(request.headers.host));
    const http = createHttpClient({ lookup: async () => [{ address: '127.0.0.1', family: 4 }] });
    cleanups.push(() => http.close());
    const url = `http://nowhere.invalid:${port}/`;
    const answer = await http.request({ url, method: 'GET', policy: open, ...limits });
    expect(`${answer.body}`).toBe(`nowhere.invalid:${port}`);
    expect(answer.remoteAddress).toBe('127.0.0.1');
  });

  test('does not reuse a kept-alive connection under a stricter policy', async () => {
    const port = await serve((_, response) => response.end('ok'));
    const http = client();
    const base = { url: at(port), method: 'GET', ...limits } as const;
    expect((await http.request({ ...base, policy: open })).status).toBe(200);
    expect((await failure(http.request({ ...base, policy: closed }))).kind).toBe('blocked');
  });
});

describe('a redirect', () => {
  test('is returned as an answer unless it is to be followed', async () => {
    const port = await serve((_, response) => response.writeHead(302, { location: 'http://10.0.0.1/' }).end());
    expect((await client().request({ url: at(port), method: 'POST', policy: open, ...limits })).status).toBe(302);
  });

  test('is checked at each hop, and limited in number', async () => {
    const policy: AddressPolicy = { allowLocal: false, allowlist: ['127.0.0.1'] };
    const targets: { [path: string]: string } = { '/inner': 'http://10.0.0.1/', '/file': 'file:///etc/passwd' };
    const port = await serve((request, response) => {
      response.writeHead(302, { location: targets[request.url ?? ''] ?? '/loop' }).end();
    });
    const http = client();
    const followRedirects = { max: 3 };
    const get = (path: string) =>
      failure(http.request({ url: at(port, path), method: 'GET', policy, ...limits, followRedirects }));
    expect((await get('inner')).kind).toBe('blocked');
    expect((await get('file')).kind).toBe('blocked');
    expect((await get('loop')).message).toBe('There are too many redirects');
  });

  test('drops credentials and custom headers at another origin, and turns a POST into a GET', async () => {
    const echo: RequestListener = (request, response) => {
      response.end(JSON.stringify({ method: request.method, ...request.headers }));
    };
    const other = await serve(echo);
    const port = await serve((request, response) => {
      if (request.url === '/away') response.writeHead(302, { location: `http://u:p@127.0.0.1:${other}/` }).end();
      else if (request.url === '/here') response.writeHead(307, { location: '/stay' }).end();
      else echo(request, response);
    });
    const http = client();
    const post = async (path: string): Promise<unknown> => {
      const { body } = await http.request({
        url: `http://me:pw@127.0.0.1:${port}/${path}`,
        method: 'POST',
        headers: { 'private-token': 'secret', accept: 'text/x' },
        body: 'data',
        policy: open,
        ...limits,
        followRedirects: { max: 3 },
      });
      return JSON.parse(`${body}`);
    };
    const away = await post('away');
    expect(away).toMatchObject({ method: 'GET', accept: 'text/x' });
    expect(away).not.toHaveProperty('authorization');
    expect(away).not.toHaveProperty('private-token');
    expect(await post('here')).toMatchObject({ method: 'POST', 'private-token': 'secret', 'content-length': '4' });
  });
});

describe('download', () => {
  test('streams a file', async () => {
    const size = 30_000_000;
    const port = await serve((_, response) => {
      response.writeHead(200, { 'content-length': size });
      Readable.from(
        (function* () {
          for (let sent = 0; sent < size; sent += 100_000) yield Buffer.alloc(100_000, 1);
        })(),
      ).pipe(response);
    });
    const { status, headers, stream } = await client().download({
      url: at(port),
      policy: open,
      timeoutMs: 20_000,
      maxResponseBytes: size,
    });
    expect(status).toBe(200);
    expect(headers['content-length']).toBe(String(size));
    let received = 0;
    for await (const chunk of stream) received += chunk.length;
    expect(received).toBe(size);
  });

  test('stops at its limits', async () => {
    const port = await serve((_, response) => {
      const timer = setInterval(() => response.write('z'.repeat(1_000)), 5);
      response.on('close', () => clearInterval(timer));
    });
    const http = client();
    const get = async (timeoutMs: number, maxResponseBytes: number) => {
      const { stream } = await http.download({ url: at(port), policy: open, timeoutMs, maxResponseBytes });
      return failure(buffer(stream));
    };
    expect((await get(5_000, 20_000)).kind).toBe('too_large');
    expect((await get(200, 1e9)).kind).toBe('timeout');
  });

  test('aborts the request when its stream is destroyed', async () => {
    let closedAnswers = 0;
    const port = await serve((_, response) => {
      response.write('start');
      response.on('close', () => closedAnswers++);
    });
    const { stream } = await client().download({ url: at(port), policy: open, ...limits });
    stream.destroy();
    await expect.poll(() => closedAnswers).toBe(1);
  });

  test('fails if the connection breaks off', async () => {
    const port = await serve((_, response) => {
      response.writeHead(200, { 'content-length': 1000 });
      response.write('half');
      setTimeout(() => response.destroy(), 20);
    });
    const { stream } = await client().download({ url: at(port), policy: open, ...limits });
    expect((await failure(buffer(stream))).kind).toBe('connect');
  });
});
