import { once } from 'node:events';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';
import { openRaw } from '../support/raw-socket.ts';
import { until } from '../support/until.ts';

const app = useApp({
  env: {
    MILLRACE_STREAMS_PER_USER: '4',
    MILLRACE_STREAMS_PER_ADDRESS: '6',
    MILLRACE_SUBSCRIPTIONS_PER_USER: '5',
    MILLRACE_SUBSCRIPTIONS_PER_ADDRESS: '7',
    MILLRACE_STREAM_MEMORY_PER_USER: '1',
    MILLRACE_STREAM_MEMORY_PER_ADDRESS: '2',
    MILLRACE_STREAM_MEMORY: '3',
  },
});

let owner: TestUser;
let project: TestProject;
beforeAll(async () => {
  owner = await app().make.user();
  project = await app().make.project({ visibility: 'public' }, owner);
});

const open: WebSocket[] = [];
const aborts: AbortController[] = [];
afterEach(async () => {
  for (const abort of aborts.splice(0)) abort.abort();
  const closed = open.splice(0).filter((socket) => socket.readyState !== WebSocket.CLOSED);
  for (const socket of closed) socket.terminate();
  // The hub notices the closed connections a moment later.
  await until('all streams to be gone', async () => {
    const abort = new AbortController();
    const answers = await Promise.all(Array.from({ length: 6 }, () => stream(null, { abort })));
    abort.abort();
    return answers.every(({ status }) => status === 200);
  });
});

interface Connected {
  readonly socket: WebSocket;
  /** Messages from the hub. */
  readonly messages: { readonly type: string; readonly id?: string; readonly payload?: unknown }[];
  closed: string | null;
}

const connect = async (user: TestUser | null, localAddress = '127.0.0.1'): Promise<Connected> => {
  const url = `${app().url.replace('http', 'ws')}/api/graphql`;
  const socket = new WebSocket(url, 'graphql-transport-ws', { localAddress });
  open.push(socket);
  const connected: Connected = { socket, messages: [], closed: null };
  socket.on('message', (data) => connected.messages.push(JSON.parse(String(data))));
  socket.on('close', (code, reason) => {
    connected.closed = `${code} ${reason}`;
  });
  socket.on('error', () => undefined);
  await once(socket, 'open');
  const payload = user && { Authorization: `Bearer ${await app().tokenOf(user)}` };
  socket.send(JSON.stringify({ type: 'connection_init', ...(payload ? { payload } : {}) }));
  await until('an answer', () => connected.messages.length > 0 || connected.closed !== null);
  return connected;
};

const QUERY = 'subscription { events(scope: {}) { cursor } }';

/** Subscribes. Returns null once an event arrives, or the payload of the refusal. */
const subscribe = async ({ socket, messages }: Connected, id: string, query = QUERY): Promise<unknown> => {
  socket.send(JSON.stringify({ type: 'subscribe', id, payload: { query } }));
  const answer = await until('an event or a refusal', async () => {
    await app().as(owner).post(`/projects/${project.id}/labels`, { name: crypto.randomUUID(), color: '#ff0000' });
    return messages.find((message) => message.id === id);
  });
  return answer.type === 'error' || JSON.stringify(answer.payload).includes('errors') ? answer.payload : null;
};

const stream = async (
  user: TestUser | null,
  { query = QUERY, abort = new AbortController() }: { query?: string; abort?: AbortController } = {},
): Promise<{ status: number; retryAfter: string | null; first: string }> => {
  aborts.push(abort);
  const response = await fetch(`${app().url}/api/graphql`, {
    method: 'POST',
    headers: {
      Accept: 'text/event-stream',
      'Content-Type': 'application/json',
      ...(user ? { Authorization: `Bearer ${await app().tokenOf(user)}` } : {}),
    },
    body: JSON.stringify({ query }),
    signal: abort.signal,
  });
  const retryAfter = response.headers.get('retry-after');
  if (response.status !== 200) return { status: response.status, retryAfter, first: await response.text() };
  const chunk = await response.body?.getReader().read();
  return { status: 200, retryAfter, first: Buffer.from(chunk?.value ?? []).toString() };
};

describe('streams', () => {
  it('are limited per user across WebSockets and event streams', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    const [first] = await Promise.all([connect(user), connect(user)]);
    expect([(await stream(user)).status, (await stream(user)).status]).toEqual([200, 200]);
    const refusal = 'Too many streams are open from your user: the limit is 4';
    expect((await connect(user)).closed).toBe(`4429 ${refusal}`);
    expect(await stream(user)).toEqual({
      status: 429,
      retryAfter: '30',
      first: JSON.stringify({ errors: [{ message: refusal }] }),
    });
    expect((await connect(other)).messages).toEqual([{ type: 'connection_ack' }]);
    first?.socket.close();
    await until('room for one', async () => (await connect(user)).closed === null);
  });

  it('are limited per address across users', async () => {
    await Promise.all(Array.from({ length: 6 }, () => connect(null)));
    const refusal = 'Too many streams are open from your address: the limit is 6';
    expect((await connect(null)).closed).toBe(`4429 ${refusal}`);
    expect(await stream(await app().make.user())).toMatchObject({ status: 429 });
    expect((await connect(null, '127.0.0.2')).closed).toBeNull();
  });
});

describe('subscriptions', () => {
  const refused = (whose: string, limit: number) => ({
    errors: [
      {
        message: `Too many subscriptions are open from ${whose}: the limit is ${limit}`,
        extensions: { code: 'QUERY_LIMIT_EXCEEDED' },
      },
    ],
  });

  it('are limited per user and per address', async () => {
    const [user, other] = [await app().make.user(), await app().make.user()];
    const [first, second, third] = [await connect(user), await connect(user), await connect(other)];
    for (const id of ['1', '2', '3']) expect(await subscribe(first, id)).toBeNull();
    for (const id of ['1', '2']) expect(await subscribe(second, id)).toBeNull();
    expect(await subscribe(second, '3')).toEqual(refused('your user', 5));
    expect((await stream(user)).first).toContain('Too many subscriptions are open from your user');
    for (const id of ['1', '2']) expect(await subscribe(third, id)).toBeNull();
    expect(await subscribe(third, '3')).toEqual(refused('your address', 7));
    // An ended subscription makes room.
    first.socket.send(JSON.stringify({ type: 'complete', id: '1' }));
    expect(await subscribe(second, '4')).toBeNull();
    second.socket.terminate();
    await until('room', async () => (await subscribe(third, crypto.randomUUID())) === null);
  });

  it('are limited by the memory of their documents, with each document counted once', async () => {
    const user = await app().make.user();
    const socket = await connect(user);
    const large = (n: number) => `${QUERY} # ${String(n).repeat(90_000)}`;
    expect(await subscribe(socket, '1', large(1))).toBeNull();
    expect(JSON.stringify(await subscribe(socket, '2', large(2)))).toContain(
      'The streams of your user hold too much: the limit is 1 MiB',
    );
    // The document is already held. Only the text of the message is kept again.
    expect(await subscribe(socket, '3', large(1))).toBeNull();
  });
});

describe('buffered data', () => {
  it('is limited if the client reads nothing', async () => {
    const connected = await connect(null);
    connected.socket.pause();
    const ping = JSON.stringify({ type: 'ping', payload: { text: 'x'.repeat(60_000) } });
    // Data in the kernel's buffers does not count for the hub.
    for (let sent = 0; sent < 1_000 && connected.socket.readyState === WebSocket.OPEN; sent++)
      connected.socket.send(ping);
    const { socket } = connected;
    await until('all to be sent, or lost', () => socket.bufferedAmount === 0 || socket.readyState !== WebSocket.OPEN);
    socket.resume();
    await until('the hub to cut the socket', () => connected.closed !== null);
  });

  it('is limited if messages do not end', async () => {
    const handshake = [
      'GET /api/graphql HTTP/1.1',
      'Host: hub',
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Protocol: graphql-transport-ws',
      '',
      '',
    ].join('\r\n');
    // The frame declares its length and never ends.
    const header = Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0x0f, 0, 0, 0, 0, 0, 0]);
    const most = Buffer.alloc(900_000, 0x20);
    const post = (length: number) =>
      `POST /api/graphql HTTP/1.1\r\nHost: hub\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
    const sockets = await Promise.all([1, 2, 3, 4, 5].map(() => openRaw(app().url, handshake)));
    for (const { text } of sockets) await until('the handshake', () => text().startsWith('HTTP/1.1 101'));
    const requests = await Promise.all([1, 2, 3, 4, 5].map(() => openRaw(app().url, post(950_000))));
    const connections = [...sockets, ...requests];
    for (const { socket } of sockets) socket.write(Buffer.concat([header, most]));
    for (const { socket } of requests) socket.write(most);
    // The ten together exceed the 8 MiB per address.
    await until('one to be refused', () =>
      connections.some(({ socket, text }) => socket.closed || text().startsWith('HTTP/1.1 429 ')),
    );
    // Small requests are still answered, and so are large ones from another address.
    const body = JSON.stringify({ query: '{ __typename }' });
    const small = await openRaw(app().url, post(body.length) + body);
    const padded = body + ' '.repeat(500_000);
    const large = await openRaw(app().url, post(padded.length) + padded, { localAddress: '127.0.0.2' });
    for (const { text } of [small, large]) await until('an answer', () => text().startsWith('HTTP/1.1 200 '));
    connections.push(small, large);
    for (const { socket } of connections) socket.destroy();
  });

  it('excludes large connection parameters', async () => {
    const { socket } = await connect(null, '127.0.0.3');
    socket.terminate();
    const raw = new WebSocket(`${app().url.replace('http', 'ws')}/api/graphql`, 'graphql-transport-ws');
    open.push(raw);
    await once(raw, 'open');
    raw.send(JSON.stringify({ type: 'connection_init', payload: { text: 'x'.repeat(20_000) } }));
    const [code, reason] = await once(raw, 'close');
    expect([code, String(reason)]).toEqual([4400, 'The payload exceeds 16384 characters']);
  });
});
