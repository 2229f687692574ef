import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { text } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { computedMs } from '../support/computed-ms.ts';
import { until } from '../support/until.ts';
import { createTinyApp, form, json, multipart, type TinyApp } from './harness.ts';

// Threats, Requests: the cost of a body before its sender is authenticated, and its limits afterwards.

const MEBIBYTE = 1024 * 1024;
const base = { method: 'POST', tag: 'Things', summary: 'A thing' } as const;
const answered = z.object({ length: z.number(), user: z.number().nullable() });
const lengthOf = async (ctx: { actor: { userId: number | null } }, input: { text?: string | undefined }) => ({
  length: input.text?.length ?? 0,
  user: ctx.actor.userId,
});
const input = { text: text().optional() };

const routes = [
  route({ ...base, path: '/things', input, response: answered, run: lengthOf }),
  route({ ...base, path: '/admin', admin: true, input, response: answered, run: lengthOf }),
  route({ ...base, path: '/open', auth: 'optional', input, response: answered, run: lengthOf }),
  route({ ...base, path: '/texts', maxBodyBytes: 8 * MEBIBYTE, input, response: answered, run: lengthOf }),
];

let app: TinyApp;
beforeAll(async () => {
  app = await createTinyApp(routes);
});
afterAll(() => app[Symbol.asyncDispose]());

const asUser = { 'private-token': 'user-token' };
const keys = (count: number) => `{${Array.from({ length: count }, (_, n) => `"k${n}":1`).join(',')}}`;
const jsonText = (body: string, headers: Record<string, string> = {}) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json', ...headers },
  body,
});

/** Sends headers that announce more body than follows, and returns the answer that came meanwhile. */
const answerToHead = async (headers: readonly string[], path = '/api/v4/things'): Promise<[string, Socket]> => {
  const socket = connect(app.port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(
    [`POST ${path} HTTP/1.1`, 'Host: hub', 'Content-Type: application/json', ...headers, '', ''].join('\r\n'),
  );
  const [answer]: unknown[] = await once(socket, 'data');
  return [String(answer).split('\r\n', 1)[0] ?? '', socket];
};

describe('bodies that do not end', () => {
  it('take bounded memory of the hub: further ones are refused, and small ones are not', async () => {
    const [size, fitting, more] = [8 * MEBIBYTE, 8, 4];
    const head = ['POST /api/v4/texts HTTP/1.1', 'Host: hub', 'Content-Type: application/json'];
    const sockets: Socket[] = [];
    const answers: string[] = [];
    for (let i = 0; i < fitting + more; i++) {
      const socket = connect(app.port, '127.0.0.1');
      sockets.push(socket);
      socket.on('error', () => undefined).on('data', (data) => answers.push(String(data)));
      socket.write([...head, 'PRIVATE-TOKEN: user-token', `Content-Length: ${size}`, '', ''].join('\r\n'));
      socket.write(Buffer.alloc(size - 1, ' '));
    }
    await until('the refusals', () => answers.length >= more);
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1.1 429 .*\r\nretry-after: \d/is);
    expect((await app.ask('/api/v4/texts', jsonText('{"text":"small"}', asUser))).status).toBe(201);
    for (const socket of sockets) socket.destroy();
    const large = jsonText(`{"text":"${'x'.repeat(size - 20)}"}`, asUser);
    await until('the memory to be free', async () => (await app.ask('/api/v4/texts', large)).status === 201);
  });
});

describe('a refused caller', () => {
  it.each([
    ['nobody, with a large body', ['Content-Length: 7000000'], 401],
    ['nobody, with a body of unknown length', ['Transfer-Encoding: chunked'], 401],
    ['a token that does not count', ['Content-Length: 100', 'PRIVATE-TOKEN: wrong'], 401],
    ['a token without the scope', ['Content-Length: 100', 'PRIVATE-TOKEN: reader-token'], 403],
  ])('gets the answer before the body is read: %s', async (_name, headers, status) => {
    const [line, socket] = await answerToHead(headers);
    expect(line).toContain(`HTTP/1.1 ${status} `);
    socket.destroy();
  });

  it('gets the answer before the body is read if only administrators are allowed', async () => {
    const [line, socket] = await answerToHead(['Content-Length: 100', 'PRIVATE-TOKEN: user-token'], '/api/v4/admin');
    expect(line).toContain('HTTP/1.1 403 ');
    socket.destroy();
  });

  it('can read the answer after sending the whole body, and reuse the connection', async () => {
    const large = jsonText(JSON.stringify({ text: 'x'.repeat(20 * MEBIBYTE) }));
    expect((await app.ask('/api/v4/things', large)).status).toBe(401);
    const response = await fetch(`http://127.0.0.1:${app.port}/api/v4/things`, large);
    expect([response.status, await response.json()]).toEqual([401, { message: '401 Unauthorized' }]);

    const [line, socket] = await answerToHead(['Content-Length: 200000']);
    expect(line).toContain('401');
    socket.write(`${'x'.repeat(200_000)}POST /api/v4/things HTTP/1.1\r\nHost: hub\r\nContent-Length: 0\r\n\r\n`);
    const [next]: unknown[] = await once(socket, 'data');
    expect(String(next)).toContain('HTTP/1.1 401 ');
    socket.destroy();
  });

  it('is disconnected after sending more than any body may have', async () => {
    const [, socket] = await answerToHead(['Content-Length: 100000000000']);
    const closed = new Promise((resolve) => socket.once('close', resolve));
    let sent = 0;
    const send = () => {
      while (!socket.destroyed && sent < 200 * MEBIBYTE && socket.write(Buffer.alloc(MEBIBYTE))) sent += MEBIBYTE;
    };
    socket.on('drain', send);
    send();
    await closed;
    expect(sent).toBeLessThan(200 * MEBIBYTE);
  });
});

describe('a credential in a body', () => {
  it('authenticates if the body is small', async () => {
    for (const sent of [
      form('private_token=user-token&text=abc'),
      json({ private_token: 'user-token', text: 'abc' }),
    ]) {
      expect((await app.ask('/api/v4/things', sent)).json()).toEqual({ length: 3, user: 7 });
    }
    const large = form(`private_token=user-token&text=${'x'.repeat(70_000)}`);
    expect((await app.ask('/api/v4/things', large)).status).toBe(401);
  });

  it('has to match one in the headers, and also authenticates on public routes', async () => {
    const both = { ...form('private_token=reader-token'), headers: { ...form('').headers, ...asUser } };
    expect((await app.ask('/api/v4/things', both)).status).toBe(401);
    expect((await app.ask('/api/v4/open', form('private_token=user-token'))).json()).toMatchObject({ user: 7 });
    expect((await app.ask('/api/v4/open', form('private_token=wrong'))).status).toBe(401);
    expect((await app.ask('/api/v4/open', form('text=a'))).json()).toEqual({ length: 1, user: null });
  });
});

describe('a body', () => {
  it('is limited to a mebibyte, unless its route declares another limit', async () => {
    const large = JSON.stringify({ text: 'é\\"\n'.repeat(MEBIBYTE / 4) });
    for (const headers of [asUser, { ...asUser, connection: 'close' }]) {
      const refused = await app.ask('/api/v4/things', jsonText(large, headers));
      expect([refused.status, refused.json()]).toEqual([413, { message: '413 Request Entity Too Large' }]);
    }
    const fits = await app.ask('/api/v4/texts', jsonText(large, asUser));
    expect([fits.status, fits.json()]).toEqual([201, { length: MEBIBYTE, user: 7 }]);
    const written = form(`text=${'%C3%A9'.repeat(MEBIBYTE / 4)}`);
    const asForm = await app.ask('/api/v4/texts', { ...written, headers: { ...written.headers, ...asUser } });
    expect(asForm.json()).toEqual({ length: MEBIBYTE / 4, user: 7 });
    const parts = [{ name: 'text', value: 'x'.repeat(2 * MEBIBYTE) }];
    expect((await app.ask('/api/v4/things', multipart(parts, asUser))).status).toBe(413);
    expect((await app.ask('/api/v4/texts', multipart(parts, asUser))).json()).toMatchObject({ length: 2 * MEBIBYTE });
  });

  it.each([
    ['600,000 names', keys(600_000), 413],
    ['60,000 names', keys(60_000), 400, 'body holds more than 20000 values'],
    ['1,001 names', keys(1_001), 400, 'too many parameters'],
    ['objects within a list', `{"text":[${'{},'.repeat(30_000)}{}]}`, 400, 'body holds more than 20000 values'],
    ['lists within each other', `{"text":${'['.repeat(400_000)}`, 400, 'body nests more than 32 levels deep'],
  ])('is refused cheaply: %s', async (_name, body, status, error?: string) => {
    const started = computedMs();
    const answer = await app.ask('/api/v4/things', jsonText(body, asUser));
    expect(computedMs() - started).toBeLessThan(400);
    expect(answer.status).toBe(status);
    if (error !== undefined) expect(answer.json()).toEqual({ error });
  });

  it('is parsed in another thread if it has megabytes, one at a time, even if it is malformed', async () => {
    const escapes = `{"text":"${'\\"'.repeat(3.5 * MEBIBYTE)}"}`;
    // The time includes sending, which this thread does too.
    const started = computedMs();
    const answers = await Promise.all(
      [escapes, escapes.slice(0, -2), keys(700_000), escapes].map((body) =>
        app.ask('/api/v4/texts', jsonText(body, asUser)),
      ),
    );
    expect(computedMs() - started).toBeLessThan(1_500);
    expect(answers.map((answer) => [answer.status, answer.json()])).toEqual([
      [201, { length: 3.5 * MEBIBYTE, user: 7 }],
      [400, { error: 'body is not valid JSON' }],
      [400, { error: 'body holds more than 20000 values' }],
      [201, { length: 3.5 * MEBIBYTE, user: 7 }],
    ]);
  });
});
