import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createStorage } from '#platform/storage/create-storage.ts';
import { toStorageError } from '#platform/storage/meter.ts';
import type { Storage } from '#platform/storage/storage.ts';
import { until } from '../support/until.ts';

let directory: string;
let closeS3: (() => Promise<unknown>) | undefined;
const stores: { local?: Storage; s3?: Storage } = {};

const AWS = {
  AWS_ACCESS_KEY_ID: 'S3RVER',
  AWS_SECRET_ACCESS_KEY: 'S3RVER',
  AWS_REGION: 'us-east-1',
};

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'millrace-storage-'));
  stores.local = createStorage({ kind: 'local', directory: join(directory, 'local') });

  const { default: S3rver }: { default: S3rverClass } = await import(createRequire(import.meta.url).resolve('s3rver'));
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory: join(directory, 's3'),
    configureBuckets: [{ name: 'hub' }],
  });
  const { port } = await server.run();
  closeS3 = () => server.close();
  Object.assign(process.env, AWS, { AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}` });
  stores.s3 = createStorage({ kind: 's3', bucket: 'hub', prefix: 'millrace/' });
});

afterAll(async () => {
  await stores.s3?.close();
  await closeS3?.();
  for (const name of [...Object.keys(AWS), 'AWS_ENDPOINT_URL_S3', 'AWS_MAX_ATTEMPTS']) delete process.env[name];
  await rm(directory, { recursive: true, force: true });
});

interface S3rverClass {
  new (options: object): { run(): Promise<{ port: number }>; close(): Promise<unknown> };
}

const collect = async <T>(items: AsyncIterable<T>) => {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
};

/** 20 MB, which S3 receives in several parts. */
const large = () =>
  Readable.from(
    (function* () {
      for (let part = 0; part < 200; part++) yield Buffer.alloc(100_000, part);
    })(),
  );

describe.each(['local', 's3'] as const)('%s storage', (kind) => {
  const storage = () => {
    const store = stores[kind];
    if (!store) throw new Error('not started');
    return store;
  };

  test('is ready', async () => {
    await storage().ready();
  });

  test('writes, reads, replaces, lists and removes', async () => {
    const store = storage();
    const key = 'exports/12/a_export.tar.gz';
    expect(await store.stat(key)).toBeNull();
    await expect(store.read(key)).rejects.toMatchObject({ code: 'not_found' });
    expect(await store.write(key, Readable.from(['hello ', 'world']), { contentType: 'application/gzip' })).toEqual({
      size: 11,
      sha256: 'b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9',
    });
    expect(await store.stat(key)).toEqual({ size: 11 });
    const whole = await store.read(key);
    expect(await text(whole.stream)).toBe('hello world');
    expect([whole.size, whole.totalSize]).toEqual([11, 11]);

    await store.write(key, Readable.from(['second']));
    expect(await text((await store.read(key)).stream)).toBe('second');

    await store.write('exports/120/b', Readable.from(['x']));
    await store.write('uploads/c', Readable.from(['y']));
    const keys = async (prefix: string) => (await collect(store.list(prefix))).map((file) => file.key).sort();
    expect(await keys('exports/12/')).toEqual([key]);
    expect(await keys('exports/12')).toEqual([key, 'exports/120/b']);
    expect(await keys('')).toEqual([key, 'exports/120/b', 'uploads/c']);
    const [listed] = await collect(store.list('uploads/'));
    expect(listed?.size).toBe(1);
    expect(listed?.modifiedAt.getTime()).toBeGreaterThan(Date.now() - 60_000);

    await store.remove(key);
    await store.remove(key);
    expect(await store.stat(key)).toBeNull();
    expect(await keys('exports/')).toEqual(['exports/120/b']);
  });

  test('reads ranges', async () => {
    const store = storage();
    await store.write('range', Readable.from(['0123456789']));
    const read = async (start: number, end?: number) => {
      const { stream, size, totalSize } = await store.read('range', end === undefined ? { start } : { start, end });
      return [await text(stream), size, totalSize];
    };
    expect(await read(2, 4)).toEqual(['234', 3, 10]);
    expect(await read(7)).toEqual(['789', 3, 10]);
    expect(await read(8, 500)).toEqual(['89', 2, 10]);
    await expect(store.read('range', { start: 10 })).rejects.toMatchObject({ code: 'bad_request' });
    await expect(store.read('range', { start: 5, end: 4 })).rejects.toMatchObject({ code: 'bad_request' });
    const part = async (start: number, end: number) => (await store.readPart('range', { start, end })).toString();
    expect(await part(2, 4)).toBe('234');
    expect(await part(8, 500)).toBe('89');
    await expect(part(10, 11)).rejects.toMatchObject({ code: 'bad_request' });
    await expect(part(5, 4)).rejects.toMatchObject({ code: 'bad_request' });
    await expect(store.readPart('none', { start: 0, end: 1 })).rejects.toMatchObject({ code: 'not_found' });
  });

  test('keeps empty files and large ones', async () => {
    const store = storage();
    expect((await store.write('empty', Readable.from([]))).size).toBe(0);
    const empty = await store.read('empty');
    expect([empty.size, (await buffer(empty.stream)).length]).toEqual([0, 0]);
    expect((await store.write('large', large())).size).toBe(20_000_000);
    const { stream } = await store.read('large');
    const bytes = await buffer(stream);
    expect(bytes.length).toBe(20_000_000);
    expect(bytes[19_999_999]).toBe(199);
  });

  test('keeps no part of a file that is too large, and keeps the old file', async () => {
    const store = storage();
    await store.write('limited', Readable.from(['old']));
    const error = await store.write('limited', large(), { maxBytes: 15_000_000 }).catch((reason) => reason);
    expect(error).toMatchObject({ code: 'too_large' });
    expect(await text((await store.read('limited')).stream)).toBe('old');
    expect(await store.sweepTemporary(0)).toBe(0);
  });

  test('keeps no part of a file whose source fails, and throws its error', async () => {
    const store = storage();
    const failing = Readable.from(
      (async function* () {
        yield Buffer.alloc(1000);
        throw new Error('the sender is gone');
      })(),
    );
    await expect(store.write('broken', failing)).rejects.toThrow('the sender is gone');
    expect(await store.stat('broken')).toBeNull();
    expect(await store.sweepTemporary(0)).toBe(0);
  });

  test('stops on the signal', async () => {
    const source = new Readable({ read: () => undefined });
    source.push(Buffer.alloc(1000));
    const write = storage().write('aborted', source, { signal: AbortSignal.timeout(50) });
    await expect(write).rejects.toMatchObject({ name: expect.stringMatching(/AbortError|TimeoutError/) });
    expect(await storage().stat('aborted')).toBeNull();
    expect(source.destroyed).toBe(true);
  });

  test.each([
    '../x',
    '/x',
    'a//b',
    'a/../b',
    'a/./b',
    './a',
    'a/',
    '',
    '-rf',
    'a\0b',
    'a\\b',
    'ä',
    'a b',
    'long'.repeat(129),
  ])('refuses the key %j', async (key) => {
    const source = Readable.from(['x']);
    await expect(storage().write(key, source)).rejects.toMatchObject({ code: 'bad_request' });
    await expect(storage().read(key)).rejects.toMatchObject({ code: 'bad_request' });
    expect(source.destroyed).toBe(true);
  });

  // S3 itself guarantees this, but the stand-in does not: it writes into the file in place.
  test.runIf(kind === 'local')('does not mix concurrent writers of one key', async () => {
    const store = storage();
    const bodies = Array.from({ length: 8 }, (_, index) => `${index}`.repeat(200_000));
    await Promise.all(bodies.map((body) => store.write('race/key', Readable.from([body]))));
    expect(bodies).toContain(await text((await store.read('race/key')).stream));
  });
});

describe('local storage', () => {
  test('deletes temporary files of a killed process, but none that is being written', async () => {
    const store = createStorage({ kind: 'local', directory: join(directory, 'sweep') });
    await store.ready();
    const temporary = join(directory, 'sweep', 'tmp');
    await writeFile(join(temporary, 'old'), 'x');
    await writeFile(join(temporary, 'new'), 'x');
    const hourAgo = new Date(Date.now() - 3_600_000);
    await utimes(join(temporary, 'old'), hourAgo, hourAgo);
    expect(await store.sweepTemporary(60_000)).toBe(1);
    expect(await readdir(temporary)).toEqual(['new']);
  });

  test('deletes only the temporary files of the dead process', async () => {
    const at = join(directory, 'drafts');
    const stores = ['one', 'two'].map((writer) => createStorage({ kind: 'local', directory: at, writer }));
    const sources = stores.map(() => new PassThrough());
    const [first, second] = stores.map((store, n) => store.write(`key${n}`, sources[n] ?? new PassThrough()));
    const names = async () => (await readdir(join(at, 'tmp')).catch(() => [])).map((name) => name.split('.')[0]).sort();
    for (const source of sources) source.write('x');
    await until('both are written to', async () => (await names()).length === 2);
    await stores[1]?.removeDraftsOf('one');
    expect(await names()).toEqual(['two']);
    for (const source of sources) source.end('y');
    await expect(first).rejects.toThrow();
    await second;
    expect(await text((await stores[0]?.read('key1'))?.stream ?? Readable.from([]))).toBe('xy');
  });

  test('leaves no empty folders', async () => {
    const store = createStorage({ kind: 'local', directory: join(directory, 'prune') });
    await store.write('a/b/c', Readable.from(['x']));
    await store.write('a/d', Readable.from(['x']));
    await store.remove('a/b/c');
    expect(await readdir(join(directory, 'prune', 'files', 'a'))).toEqual(['d']);
    await store.remove('a/d');
    expect(await readdir(join(directory, 'prune', 'files'))).toEqual([]);
  });

  test('writes into folders that removals prune at the same time', async () => {
    const store = createStorage({ kind: 'local', directory: join(directory, 'prune-race'), durable: false });
    const rounds = Array.from({ length: 8 }, async (_, n) => {
      for (let round = 0; round < 200; round++) {
        await store.write(`deep/er/key${n}`, Readable.from(['x']));
        await store.remove(`deep/er/key${n}`);
      }
    });
    await Promise.all(rounds);
    expect(await readdir(join(directory, 'prune-race', 'files'))).toEqual([]);
  });

  test('reports a full disk as no_space', () => {
    const full = Object.assign(new Error('write ENOSPC'), { code: 'ENOSPC' });
    expect(toStorageError(full)).toMatchObject({ code: 'no_space', cause: full });
  });
});

describe('s3 storage', () => {
  test('reports an unreachable store as unavailable', async () => {
    const endpoint = process.env.AWS_ENDPOINT_URL_S3;
    Object.assign(process.env, { AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1', AWS_MAX_ATTEMPTS: '1' });
    const store = createStorage({ kind: 's3', bucket: 'hub' });
    try {
      await expect(store.ready()).rejects.toMatchObject({ code: 'unavailable' });
    } finally {
      Object.assign(process.env, { AWS_ENDPOINT_URL_S3: endpoint });
      await store.close();
    }
  });

  test('reports a missing bucket as unavailable', async () => {
    const store = createStorage({ kind: 's3', bucket: 'nowhere' });
    await expect(store.ready()).rejects.toMatchObject({ code: 'unavailable' });
    await store.close();
  });
});
