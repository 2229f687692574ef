import { afterEach, describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { openRaw, type RawConnection } from '../support/raw-socket.ts';
import { until } from '../support/until.ts';

const PER_ADDRESS = 30;
const IN_ALL = 50;

const app = useApp({
  env: {
    MILLRACE_REQUEST_GRACE: '1',
    MILLRACE_REQUEST_MINIMUM_RATE: '1000',
    MILLRACE_CONNECTIONS: String(IN_ALL),
    MILLRACE_CONNECTIONS_PER_ADDRESS: String(PER_ADDRESS),
  },
});

const opened: RawConnection[] = [];
afterEach(async () => {
  const all = opened.splice(0);
  for (const { socket } of all) socket.destroy();
  await Promise.all(all.map(({ over }) => over()));
});
const open = async (bytes = '', localAddress = '127.0.0.1'): Promise<RawConnection> => {
  const connection = await openRaw(app().url, bytes, { localAddress });
  opened.push(connection);
  return connection;
};

const post = (path: string, headers: readonly string[], body = ''): string =>
  [`POST ${path} HTTP/1.1`, 'Host: hub', ...headers, '', body].join('\r\n');

describe('a request that arrives too slowly', () => {
  it('is ended on every endpoint, however it is framed', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public' }, owner);
    const token = `PRIVATE-TOKEN: ${await app().tokenOf(owner)}`;
    const git = `/${project.path_with_namespace}.git`;
    const faces: [path: string, headers: string[]][] = [
      ['/api/v4/projects', [token, 'Content-Type: application/json']],
      [`/api/v4/projects/${project.id}/uploads`, [token, 'Content-Type: multipart/form-data; boundary=x']],
      ['/api/graphql', [token, 'Content-Type: application/json']],
      [`${git}/git-upload-pack`, ['Content-Type: application/x-git-upload-pack-request']],
      [`${git}/git-receive-pack`, [token, 'Content-Type: application/x-git-receive-pack-request']],
      ['/users/sign_in', ['Content-Type: application/x-www-form-urlencoded']],
      ['/oauth/token', ['Content-Type: application/x-www-form-urlencoded']],
      ['/elsewhere', ['Content-Type: application/json']],
    ];
    for (const framing of [['Content-Length: 100000'], ['Transfer-Encoding: chunked']]) {
      const connections = await Promise.all(faces.map(([path, headers]) => open(post(path, [...headers, ...framing]))));
      const drip = setInterval(() => {
        for (const { socket } of connections)
          if (socket.writable) socket.write(framing[0]?.startsWith('C') ? '-' : '1\r\n-\r\n');
      }, 100);
      try {
        for (const [index, { over, text }] of connections.entries()) {
          const answer = await over().catch(() => `still open after: ${text()}`);
          expect([faces[index]?.[0], answer]).toEqual([faces[index]?.[0], expect.stringMatching(/^HTTP\/1\.1 \d{3} /)]);
        }
      } finally {
        clearInterval(drip);
      }
      // Endpoints that still wait for the body get an answer.
      const timedOut = faces.filter((_, n) => connections[n]?.text().startsWith('HTTP/1.1 408 Request Timeout'));
      expect(timedOut.map(([path]) => path)).toEqual(expect.arrayContaining(['/api/v4/projects', '/api/graphql']));
    }
  });

  it('is ended if its body is still missing after the answer', async () => {
    const get = 'GET /-/liveness HTTP/1.1\r\nHost: hub\r\nContent-Length: 1000\r\n\r\n';
    const { over } = await open(get);
    expect(await over()).toMatch(/^HTTP\/1\.1 200 /);
  });

  it('gets more time the more of it has arrived', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const head = '--x\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n';
    const tail = '\r\n--x--\r\n';
    const half = 'y'.repeat(100_000);
    const token = `PRIVATE-TOKEN: ${await app().tokenOf(owner)}`;
    const { socket, text } = await open(
      post(`/api/v4/projects/${project.id}/uploads`, [
        token,
        'Content-Type: multipart/form-data; boundary=x',
        `Content-Length: ${head.length + 2 * half.length + tail.length}`,
      ]),
    );
    socket.write(head + half);
    // Each request has one second. The received bytes have earned a hundred more, so a later one that sends nothing ends
    // first.
    const later = await open(
      post('/api/v4/projects', [token, 'Content-Type: application/json', 'Content-Length: 100000']),
    );
    expect(await later.over()).toMatch(/^HTTP\/1\.1 408 /);
    expect(text()).toBe('');
    socket.write(half + tail);
    await until('an answer', () => text().startsWith('HTTP/1.1 201 '));
  });
});

describe('connections', () => {
  const refused = ({ text }: RawConnection, status: number) =>
    until('a refusal', () => text().startsWith(`HTTP/1.1 ${status} `) && text().includes('Retry-After: '));

  it('are limited per address and in total', async () => {
    const mine = await Promise.all(Array.from({ length: PER_ADDRESS + 5 }, () => open()));
    await until('five refusals', () => mine.filter(({ text }) => text().startsWith('HTTP/1.1 429 ')).length >= 5);
    // Other addresses can still connect until the total limit is reached.
    const others = await Promise.all(Array.from({ length: IN_ALL }, (_, n) => open('', `127.0.0.${2 + (n % 5)}`)));
    await until('the refusals', () => others.filter(({ text }) => text().startsWith('HTTP/1.1 503 ')).length >= 25);
    await refused(await open('', '127.0.0.8'), 503);
    for (const { socket } of [...mine, ...others]) socket.destroy();
    await until('room again', async () => {
      const { text, socket } = await open('GET /-/liveness HTTP/1.1\r\nHost: hub\r\n\r\n', '127.0.0.8');
      await until('an answer', () => text() !== '' || socket.closed);
      return text().startsWith('HTTP/1.1 200 ');
    });
  });

  it('are closed to make room for new ones while they are idle', async () => {
    const get = 'GET /-/liveness HTTP/1.1\r\nHost: hub\r\n\r\n';
    const alive = await Promise.all(Array.from({ length: 40 }, (_, n) => open(get, `127.0.1.${1 + (n % 4)}`)));
    for (const { text } of alive) await until('an answer', () => text().startsWith('HTTP/1.1 200 '));
    const busy = await Promise.all(Array.from({ length: 8 }, () => open('GET ', '127.0.1.9')));
    await until('the others to be closed', () => alive.every(({ socket }) => socket.closed));
    expect(busy.every(({ socket }) => !socket.closed)).toBe(true);
  });
});
