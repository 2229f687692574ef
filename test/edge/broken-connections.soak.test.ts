import { describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { useApp } from '../support/app.ts';
import { openRaw } from '../support/raw-socket.ts';
import { until } from '../support/until.ts';

// An error outside a request ends the process. Vitest reports it as an unhandled error of this file.

const app = useApp();

const UPGRADE = ['Connection: Upgrade', 'Upgrade: websocket'];
const HANDSHAKE = [
  ...UPGRADE,
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
  'Sec-WebSocket-Protocol: graphql-transport-ws',
];

const request = (line: string, headers: readonly string[] = [], body = ''): string =>
  [line, 'Host: hub', ...headers, '', body].join('\r\n');

const PATHS = [
  '//',
  '///',
  '//[',
  '/\\',
  '*',
  'http://[',
  'http://[::1/api/graphql',
  'http://%/api/graphql',
  '/%',
  '/%ff%fe',
  '/\u00ff',
  '/api/graphql/',
  '/api/graphql?%',
  '/api/v4/%',
  '/-/liveness',
  '/users/sign_in',
  '/group/project.git/info/refs?service=%',
  '//.git/info/refs?service=git-upload-pack',
  `/${'a'.repeat(20_000)}`,
];

const LINES = [
  ...PATHS.flatMap((path) => [`GET ${path} HTTP/1.1`, `POST ${path} HTTP/1.1`]),
  'CONNECT //: HTTP/1.1',
  'OPTIONS * HTTP/1.1',
  'GET / HTTP/9.9',
  'GET',
  'PRI * HTTP/2.0',
  '\0\0\0',
];

const FACES = [
  '/api/v4/projects',
  '/api/graphql',
  '/group/project.git/git-upload-pack',
  '/users/sign_in',
  '/oauth/token',
];

const answersStill = async () => {
  expect((await app().anonymous.get('/version')).status).toBe(401);
  const socket = new WebSocket(`${app().url.replace('http', 'ws')}/api/graphql`, 'graphql-transport-ws');
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  socket.send(JSON.stringify({ type: 'connection_init' }));
  const reply = await new Promise((resolve) => socket.once('message', (data) => resolve(String(data))));
  expect(reply).toBe('{"type":"connection_ack"}');
  socket.terminate();
};

describe('the hub', () => {
  it('survives malformed request lines, paths and upgrades', async () => {
    for (const headers of [[], UPGRADE, HANDSHAKE, ['Connection: Upgrade', 'Upgrade: h2c']]) {
      const connections = await Promise.all(
        LINES.map((line) => openRaw(app().url, request(line, [...headers, 'Content-Length: 0']))),
      );
      for (const { socket } of connections) socket.end();
      for (const { over } of connections) expect(await over()).toMatch(/^(HTTP\/1\.1 [1-5]\d\d |$)/);
    }
    await answersStill();
  });

  it('survives malformed headers and frames on the GraphQL socket', async () => {
    const handshakes = [
      UPGRADE,
      [...UPGRADE, 'Sec-WebSocket-Version: 99', 'Sec-WebSocket-Key: x'],
      [...HANDSHAKE, 'Origin: http://[', 'Cookie: a=b'],
      [...HANDSHAKE, 'Origin: null', 'Cookie: a=b'],
      [...HANDSHAKE.slice(0, -1), 'Sec-WebSocket-Protocol: ,,;'],
    ];
    for (const headers of handshakes) {
      const { over, socket } = await openRaw(app().url, request('GET /api/graphql HTTP/1.1', headers));
      expect(await over()).toMatch(/^HTTP\/1\.1 4\d\d /);
      socket.destroy();
    }
    const frames = [
      Buffer.alloc(64, 0xff),
      Buffer.from([0x81, 0xff, 0x7f, 0, 0, 0, 0, 0, 0, 0]),
      Buffer.from([0x88, 0x81]),
    ];
    for (const frame of frames) {
      const connection = await openRaw(app().url, request('GET /api/graphql HTTP/1.1', HANDSHAKE));
      await until('the handshake', () => connection.text().startsWith('HTTP/1.1 101'));
      connection.socket.write(frame);
      connection.socket.end();
      await connection.over();
    }
    await answersStill();
  });

  it('survives resets at any moment', async () => {
    const starts = [
      request('GET /elsewhere HTTP/1.1', HANDSHAKE),
      request('GET /api/graphql HTTP/1.1', HANDSHAKE),
      request('GET /api/graphql HTTP/1.1', [...HANDSHAKE, 'Origin: http://elsewhere', 'Cookie: a=b']),
      request('GET /api/graphql HTTP/1.1', ['Accept: text/event-stream']),
      ...FACES.map((path) =>
        request(`POST ${path} HTTP/1.1`, ['Content-Length: 100', 'Content-Type: application/json'], '{'),
      ),
      ...FACES.map((path) =>
        request(
          `POST ${path} HTTP/1.1`,
          ['Transfer-Encoding: chunked', 'Content-Type: application/json'],
          '5\r\n{"a":',
        ),
      ),
      'GET /api/v4/projects HTT',
    ];
    for (const start of starts) {
      for (const leave of ['reset', 'end', 'destroy'] as const) {
        const { socket, over } = await openRaw(app().url, start);
        if (leave === 'reset') socket.resetAndDestroy();
        else if (leave === 'destroy') socket.destroy();
        else {
          // The connection is half closed. The server may still answer before it closes its side.
          socket.end();
        }
        await over();
      }
    }
    await answersStill();
  });

  it('survives bodies that do not match their headers or end half-way', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public' }, owner);
    const token = `PRIVATE-TOKEN: ${await app().tokenOf(owner)}`;
    const git = `/${project.path_with_namespace}.git`;
    const form = 'Content-Type: multipart/form-data; boundary=x';
    const part = '--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nsome';
    const posts: [path: string, headers: string[], body: string][] = [
      ...['gzip', 'br'].flatMap((encoding): [string, string[], string][] =>
        ['upload', 'receive'].map((service) => [
          `${git}/git-${service}-pack`,
          [token, `Content-Type: application/x-git-${service}-pack-request`, `Content-Encoding: ${encoding}`],
          'neither of them',
        ]),
      ),
      [`${git}/git-upload-pack`, ['Content-Type: application/x-git-upload-pack-request'], '0011command=ls-re'],
      [`${git}/git-receive-pack`, [token, 'Content-Type: application/x-git-receive-pack-request'], '00'],
      [`/api/v4/projects/${project.id}/uploads`, [token, form], part],
      ['/api/v4/projects/import', [token, form], part],
      ['/users/sign_in', [form], part],
      ['/api/graphql', ['Content-Type: application/json', 'Content-Encoding: gzip'], '{"query"'],
    ];
    for (const [path, headers, body] of posts) {
      for (const length of ['Transfer-Encoding: chunked', 'Content-Length: 1000']) {
        const sent = length.startsWith('T') ? `${body.length.toString(16)}\r\n${body}\r\n` : body;
        const bytes = request(`POST ${path} HTTP/1.1`, [...headers, length], sent);
        const [left, ended, reset] = await Promise.all([1, 2, 3].map(() => openRaw(app().url, bytes)));
        left?.socket.destroy();
        ended?.socket.end();
        // The server has parsed the received part of the body by now.
        await ended?.over();
        reset?.socket.resetAndDestroy();
      }
    }
    await answersStill();
  });

  it('hangs up at once on upgrades to anything but the GraphQL socket', async () => {
    const paths = [
      '/',
      '//',
      '/elsewhere',
      '/api/graphql2',
      '/api/graphql',
      '/api/v4/version',
      '/-/liveness',
      '/users/sign_in',
    ];
    const protocols = ['websocket', 'h2c', 'x'];
    // An upgrade to the GraphQL socket without a handshake is refused too.
    const connections = await Promise.all(
      paths.flatMap((path) =>
        protocols.map((protocol) =>
          openRaw(app().url, request(`GET ${path} HTTP/1.1`, ['Connection: Upgrade', `Upgrade: ${protocol}`])),
        ),
      ),
    );
    // The client closes none of them.
    for (const answer of await Promise.all(connections.map(({ over }) => over()))) {
      expect(answer).toMatch(/^HTTP\/1\.1 [2-4]\d\d /);
      expect(answer.toLowerCase()).toContain('\r\nconnection: close\r\n');
    }
  });
});
