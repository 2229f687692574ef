import { connect } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { conflict } from '#platform/errors.ts';
import { fileUpload, text } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { sweepUploads } from '#rest/upload.ts';
import { createTinyApp, form, json, multipart, type TinyApp } from './harness.ts';

const MAX = 300_000;
const Received = z.object({
  size: z.number(),
  sha256: z.string(),
  filename: z.string(),
  contentType: z.string(),
  path: z.string(),
  text: z.string(),
});

const routes = [
  route({
    tag: 'Import',
    summary: 'Import a file',
    auth: 'optional',
    method: 'POST',
    path: '/import',
    input: {
      file: fileUpload({ maxBytes: async () => MAX }),
      path: text({ max: 10 }),
      keep: text().optional(),
      fail: text().optional(),
    },
    response: Received,
    run: async (_ctx, { file, path, keep, fail }) => {
      if (fail) throw conflict();
      let content = '';
      for await (const chunk of await file.open()) content += String(chunk);
      if (keep) file.keep();
      return {
        size: file.size,
        sha256: file.sha256,
        filename: file.filename,
        contentType: file.contentType,
        path,
        text: content.slice(0, 20),
      };
    },
  }),
  route({
    tag: 'Import',
    summary: 'No file',
    auth: 'optional',
    method: 'POST',
    path: '/plain',
    input: { path: text() },
    response: z.object({ path: z.string() }),
    run: async (_ctx, { path }) => ({ path }),
  }),
  route({
    tag: 'Import',
    summary: 'Members only',
    method: 'POST',
    path: '/members',
    input: { file: fileUpload({ maxBytes: null }) },
    response: null,
    run: async () => {},
  }),
];

let app: TinyApp;
beforeAll(async () => {
  app = await createTinyApp(routes);
});
afterAll(() => app[Symbol.asyncDispose]());
beforeEach(async () => {
  await sweepUploads(app.services.storage, new Date(Date.now() + 60_000), new Set());
});

const stored = async (): Promise<string[]> => {
  const keys: string[] = [];
  for await (const { key } of app.services.storage.list('')) keys.push(key);
  return keys;
};

const IMPORT = '/api/v4/import';
const file = { name: 'file', value: 'hello archive', filename: 'a.tar.gz' };

describe('an uploaded file', () => {
  it.each([
    ['before', [file, { name: 'path', value: 'p' }]],
    ['after', [{ name: 'path', value: 'p' }, file]],
  ])('arrives %s its fields, and is deleted after the request', async (_order, parts) => {
    const answer = await app.ask(IMPORT, multipart(parts));
    expect(answer.status).toBe(201);
    expect(answer.json()).toMatchObject({
      size: 13,
      filename: 'a.tar.gz',
      contentType: 'application/gzip',
      path: 'p',
      text: 'hello archive',
    });
    expect(await stored()).toEqual([]);
  });

  it('stays if the handler keeps it, until it is swept', async () => {
    await app.ask(IMPORT, multipart([file, { name: 'path', value: 'p' }, { name: 'keep', value: '1' }]));
    expect(await stored()).toEqual([expect.stringMatching(/^tmp\/uploads\/[0-9a-f-]{36}$/)]);
    expect(await sweepUploads(app.services.storage, new Date(Date.now() - 60_000), new Set())).toBe(0);
    expect(await sweepUploads(app.services.storage, new Date(Date.now() + 60_000), new Set())).toBe(1);
  });

  it.each([
    ['fields that do not fit', [file, { name: 'path', value: 'much too long' }], 400],
    ['a handler that refuses', [file, { name: 'path', value: 'p' }, { name: 'fail', value: '1' }], 409],
    [
      'too large a file',
      [
        { ...file, value: Buffer.alloc(MAX + 1) },
        { name: 'path', value: 'p' },
      ],
      413,
    ],
    ['two files where one is meant', [file, file, { name: 'path', value: 'p' }], 400],
    ['no file', [{ name: 'path', value: 'p' }], 400],
    [
      'a text in its place',
      [
        { name: 'file', value: 'x' },
        { name: 'path', value: 'p' },
      ],
      400,
    ],
  ])('is not stored after %s', async (_case, parts, status) => {
    const answer = await app.ask(IMPORT, multipart(parts));
    expect(answer.status).toBe(status);
    expect(await stored()).toEqual([]);
  });

  it('cannot be forged by JSON or a form', async () => {
    expect((await app.ask(IMPORT, json({ path: 'p', file: { key: 'exports/1', size: 1 } }))).json()).toEqual({
      error: 'file is invalid',
    });
    expect((await app.ask(IMPORT, form('path=p&file=x'))).json()).toEqual({ error: 'file is invalid' });
  });

  it('is read and dropped if the route does not declare it', async () => {
    const answer = await app.ask('/api/v4/plain', multipart([file, { name: 'path', value: 'p' }]));
    expect(answer.json()).toEqual({ path: 'p' });
    const others = Array.from({ length: 10 }, (_, n) => ({ ...file, name: `other${n}` }));
    const beside = await app.ask(IMPORT, multipart([...others, file, { name: 'path', value: 'p' }]));
    expect(beside.json()).toMatchObject({ path: 'p', text: 'hello archive' });
    const twice = await app.ask(IMPORT, multipart([file, file, { name: 'path', value: 'p' }]));
    expect(twice.json()).toEqual({ error: 'file is invalid (allowed: one file)' });
    const many = multipart([...others, file, { ...file, name: 'one too many' }, { name: 'path', value: 'p' }]);
    expect((await app.ask(IMPORT, many)).status).toBe(400);
    const large = { ...file, value: Buffer.alloc(10 * 1024 * 1024) };
    expect((await app.ask('/api/v4/plain', multipart([large, { name: 'path', value: 'p' }]))).status).toBe(413);
  });

  it('requires a caller, and its name is never used as a path', async () => {
    expect((await app.ask('/api/v4/members', multipart([file]))).status).toBe(401);
    const answer = await app.ask(
      IMPORT,
      multipart([
        { ...file, filename: '../../etc/passwd' },
        { name: 'path', value: 'p' },
      ]),
    );
    expect(answer.json()).toMatchObject({ filename: 'passwd' });
    expect(await stored()).toEqual([]);
  });

  it('is not stored when the client disconnects while sending', async () => {
    const ask = multipart([{ ...file, value: Buffer.alloc(200_000, 'x') }]);
    const body = Buffer.from(ask.body ?? '');
    const socket = connect(app.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `POST ${IMPORT} HTTP/1.1\r\nHost: x\r\nContent-Type: ${ask.headers?.['content-type']}\r\nContent-Length: ${body.length}\r\n\r\n`,
    );
    await new Promise((resolve) => socket.write(body.subarray(0, 150_000), resolve));
    await new Promise((resolve) => setTimeout(resolve, 50));
    socket.destroy();
    await expect.poll(stored).toEqual([]);
    expect((await app.ask(IMPORT, multipart([file, { name: 'path', value: 'p' }]))).status).toBe(201);
  });
});
