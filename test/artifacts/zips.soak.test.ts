import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { crc32, deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fromBufferPromise } from 'yauzl';
import { readDirectory } from '#domains/artifacts/zip/directory.ts';
import { comparePaths, problemOf, type ZipEntry, ZipProblem } from '#domains/artifacts/zip/entry.ts';
import { buildIndex, findInBlock, listTree } from '#domains/artifacts/zip/index-file.ts';
import { openFile, unpackSmall } from '#domains/artifacts/zip/read-file.ts';
import { useApp } from '../support/app.ts';
import { makeJobScene, upload, zipOf } from './support.ts';

interface MadeEntry {
  readonly name: string | Buffer;
  readonly content?: Buffer | string;
  /** The wrong values in the directory, if it lies. */
  readonly size?: number;
  readonly crc?: number;
  readonly offset?: number;
  readonly flags?: number;
  readonly method?: number;
  readonly mode?: number;
}

/** Writes a zip as it is told to, however wrong. */
const makeZip = (entries: readonly MadeEntry[]): Buffer => {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let position = 0;
  for (const { name, content = '', method = 8, flags = 0x800, mode = 0o100644, ...lies } of entries) {
    const bytes = Buffer.from(content);
    const data = method === 0 ? bytes : deflateRawSync(bytes);
    const path = Buffer.from(name);
    const local = Buffer.alloc(30);
    local.writeUInt32LE(0x04034b50, 0);
    local.writeUInt16LE(path.length, 26);
    const central = Buffer.alloc(46);
    central.writeUInt32LE(0x02014b50, 0);
    central.writeUInt16LE((3 << 8) | 20, 4);
    central.writeUInt16LE(flags, 8);
    central.writeUInt16LE(method, 10);
    central.writeUInt32LE(lies.crc ?? crc32(bytes), 16);
    central.writeUInt32LE(data.length, 20);
    central.writeUInt32LE(lies.size ?? bytes.length, 24);
    central.writeUInt16LE(path.length, 28);
    central.writeUInt32LE((mode << 16) >>> 0, 38);
    central.writeUInt32LE(lies.offset ?? position, 42);
    parts.push(local, path, data);
    directory.push(central, path);
    position += 30 + path.length + data.length;
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50, 0);
  end.writeUInt16LE(entries.length, 8);
  end.writeUInt16LE(entries.length, 10);
  end.writeUInt32LE(Buffer.concat(directory).length, 12);
  end.writeUInt32LE(position, 16);
  return Buffer.concat([...parts, ...directory, end]);
};

const sourceOf = (zip: Buffer) => ({
  size: zip.length,
  read: async (start: number, length: number) => zip.subarray(start, start + length),
});

const read = (zip: Buffer, limits?: Parameters<typeof readDirectory>[1]) => readDirectory(sourceOf(zip), limits);

const problem = (zip: Buffer, limits?: Parameters<typeof readDirectory>[1]): Promise<string> =>
  read(zip, limits).then(
    () => 'none',
    (error: unknown) => {
      if (!(error instanceof ZipProblem)) throw error;
      return error.message;
    },
  );

/** Reads the content of the first entry, as a stream and at once. Both must agree. */
const contentOf = async (zip: Buffer, part = zip): Promise<string> => {
  const [entry] = await read(zip);
  if (!entry) throw new Error('the zip has no entries');
  const bytes = part.subarray(entry.offset, entry.offset + entry.span);
  const outcome = async (content: () => Promise<Buffer>) => {
    const [result] = await Promise.allSettled([content()]);
    return result?.status === 'fulfilled' ? result.value.toString() : result?.reason;
  };
  const small = await outcome(async () => unpackSmall(entry, bytes));
  const streamed = await outcome(async () => buffer(await openFile(entry, Readable.from([bytes]))));
  expect(streamed).toEqual(small);
  if (typeof small !== 'string') throw small;
  return small;
};

describe('the directory of a zip', () => {
  it('is read for stored, deflated and empty files, with data descriptors', async () => {
    const zip = await zipOf({ 'a/b': 'text'.repeat(100), empty: '' });
    expect(await contentOf(zip)).toBe('text'.repeat(100));
    expect(await contentOf(makeZip([{ name: 'plain', content: 'plain', method: 0 }]))).toBe('plain');
    expect((await read(zip)).map(({ path, size }) => [path, size])).toEqual([
      ['a/b', 400],
      ['empty', 0],
    ]);
    expect(await read(makeZip([]))).toEqual([]);
    const long = await zipOf({ 'a/b': 'text', c: 'c' }, { forceZip64Format: true });
    expect((await read(long)).map(({ path, size, offset }) => [path, size, offset])).toEqual([
      ['a/b', 4, 0],
      ['c', 1, expect.any(Number)],
    ]);
    expect(await contentOf(long)).toBe('text');
  });

  it('is read as another reader reads it', async () => {
    const names = fc.uniqueArray(fc.stringMatching(/^[a-zü🙂ｆ]{1,5}(?:\/[a-z.]{0,3}x){0,2}$/u), { maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(names, fc.boolean(), fc.boolean(), async (paths, compress, forceZip64Format) => {
        const files = Object.fromEntries(paths.map((path) => [path, path.repeat(20)]));
        const zip = await zipOf(files, { compress, forceZip64Format });
        const entries: Partial<ZipEntry>[] = [];
        for await (const entry of (await fromBufferPromise(zip, { lazyEntries: true })).eachEntry()) {
          entries.push({
            path: entry.fileName,
            size: entry.uncompressedSize,
            compressed: entry.compressedSize,
            crc: entry.crc32,
            method: entry.compressionMethod,
            offset: entry.relativeOffsetOfLocalHeader,
            mode: entry.externalFileAttributes >>> 16,
          });
        }
        entries.sort((a, b) => Buffer.compare(Buffer.from(a.path ?? ''), Buffer.from(b.path ?? '')));
        expect(await read(zip)).toEqual(entries.map((entry) => expect.objectContaining(entry)));
      }),
      { numRuns: 50 },
    );
  });

  it('is found before a comment that looks like an end, and beyond a window', async () => {
    const zip = makeZip([{ name: 'a', content: 'a' }]);
    const comment = Buffer.alloc(40, 'PK\x05\x06');
    const commented = Buffer.concat([zip, comment]);
    commented.writeUInt16LE(comment.length, zip.length - 2);
    expect(await contentOf(commented)).toBe('a');
    const many = makeZip(Array.from({ length: 3_000 }, (_, n) => ({ name: `${n}`.padStart(900, 'x') })));
    expect(await read(many)).toHaveLength(3_000);
  });

  it('leaves out paths that nobody may ask for, and keeps odd ones', async () => {
    const odd = ['new\nline', 'ta\tb', '"quoted"', 'ünï', 'back\\slash', 'a b', '...', 'x/..y'];
    const bad = ['../up', '/etc/passwd', 'a/../b', 'a//b', '.', './..', 'nul\0', '', 'C:/../x'];
    const zip = makeZip([...odd, ...bad].map((name) => ({ name })));
    expect((await read(zip)).map(({ path }) => path)).toEqual(odd.sort());
    expect(await read(makeZip([{ name: Buffer.from([0x61, 0xff]) }]))).toEqual([]);
    expect((await read(makeZip([{ name: './a' }]))).map(({ path }) => path)).toEqual(['a']);
  });

  it('has the last of two entries with one name', async () => {
    const zip = makeZip([
      { name: 'a', content: 'first' },
      { name: 'a', content: 'second one' },
    ]);
    expect(await contentOf(zip)).toBe('second one');
  });

  it('is refused if entries overlap or lie outside', async () => {
    const files = { name: 'a', content: 'x'.repeat(5_000), method: 0 };
    expect(await problem(makeZip([files, { ...files, name: 'b', offset: 0 }]))).toBe('its entries overlap');
    expect(await problem(makeZip([{ ...files, offset: 60 }]))).toBe('an entry lies outside of it');
    expect(await problem(makeZip([{ ...files, offset: 0xffffff00 }]))).toBe('an entry lies outside of it');
  });

  it('is refused if it is no zip, is cut off, or is beyond the limits', async () => {
    expect(await problem(Buffer.from('not a zip'))).toBe('the end of its directory was not found');
    expect(await problem(Buffer.alloc(0))).not.toBe('none');
    // Too short for an end, but with its signature.
    const short = Buffer.concat([Buffer.alloc(8), Buffer.from('PK\x05\x06'), Buffer.alloc(5)]);
    expect(await problem(short)).toBe('the end of its directory was not found');
    const zip = makeZip([{ name: 'a' }, { name: 'b' }]);
    expect(await problem(zip.subarray(40))).toBe('it is cut off');
    expect(await problem(zip.subarray(0, -30))).toBe('the end of its directory was not found');
    const broken = (position: number, value: number) => {
      const copy = Buffer.from(zip);
      copy.writeUInt16LE(value, copy.length + position);
      return problem(copy);
    };
    expect(await broken(-22 + 4, 1)).toBe('it is a part of several');
    expect(await broken(-22 + 10, 3)).toBe('its directory is cut off');
    expect(await broken(-22 + 12, 60)).toBe('its directory is cut off');
    expect(await broken(-22 + 16, 30)).toBe('its directory is damaged');
    const long = await zipOf({ a: 'a' }, { forceZip64Format: true });
    const at = long.indexOf('PK\x06\x06');
    const changed = (position: number, value: number) => {
      const copy = Buffer.from(long);
      copy.writeUInt8(value, position);
      return problem(copy);
    };
    expect(await changed(at, 0)).toBe('the end of its directory is damaged');
    expect(await changed(at + 32 + 6, 1)).toContain('entries');
    expect(await changed(at + 56 + 8 + 6, 1)).toBe('it is cut off');
    // The extra field of the entry, with the sizes.
    expect(await changed(long.indexOf(Buffer.from([1, 0, 24, 0])) + 2, 8)).toBe('its directory is damaged');
    const limits = { maxEntries: 1, maxDirectoryBytes: 1_000_000 };
    expect(await problem(zip, limits)).toBe('it has more than 1 entries');
    expect(await problem(zip, { maxEntries: 10, maxDirectoryBytes: 50 })).toBe('its directory is larger than 50 bytes');
  });

  it('passes on errors of the storage', async () => {
    const failing = { size: 100, read: () => Promise.reject(new Error('the storage is away')) };
    await expect(readDirectory(failing)).rejects.toThrow('the storage is away');
  });
});

describe('a file of a zip', () => {
  const entryOf = async (made: Partial<MadeEntry>): Promise<ZipEntry> => {
    const [entry] = await read(makeZip([{ name: 'a', content: 'content', ...made }]));
    if (!entry) throw new Error('the zip has no entries');
    return entry;
  };

  it('is refused if it is a link, a device, encrypted, or packed in an unknown way', async () => {
    expect(problemOf(await entryOf({ mode: 0o120777 }))).toBe('is a symbolic link');
    expect(problemOf(await entryOf({ mode: 0o060644 }))).toBe('is not a regular file');
    expect(problemOf(await entryOf({ flags: 0x801 }))).toBe('is encrypted');
    expect(problemOf({ ...(await entryOf({})), method: 99 })).toBe('is compressed in a way that is not supported');
    expect(problemOf(await entryOf({ method: 0, size: 3 }))).toBe('has two sizes');
    expect(problemOf(await entryOf({ size: 4_000_000 }))).toBe('is larger than its data can be');
    const bomb = { ...(await entryOf({})), size: 300 * 1024 * 1024, compressed: 1024 * 1024 };
    expect(problemOf(bomb)).toBe('is compressed too densely');
    expect(problemOf(await entryOf({ mode: 0 }))).toBeNull();
  });

  it('fails before its last bytes if the directory lies about its size or checksum', async () => {
    const file = { name: 'a', content: 'content' };
    await expect(contentOf(makeZip([{ ...file, size: 3 }]))).rejects.toThrow('is larger than its directory says');
    await expect(contentOf(makeZip([{ ...file, size: 30 }]))).rejects.toThrow('is smaller than its directory says');
    await expect(contentOf(makeZip([{ ...file, crc: 1 }]))).rejects.toThrow('has a wrong checksum');
    const zip = makeZip([file]);
    await expect(contentOf(zip, Buffer.alloc(zip.length))).rejects.toThrow('is not where its directory says');
    const damaged = Buffer.from(zip);
    damaged.fill(0xff, 31, 38);
    await expect(contentOf(zip, damaged)).rejects.toThrow(/is damaged|wrong checksum|its directory says/);
    await expect(contentOf(zip, zip.subarray(0, 33))).rejects.toThrow(ZipProblem);
  });

  it('never yields more than the directory says, however much the data would', async () => {
    const zip = makeZip([{ name: 'a', content: Buffer.alloc(50_000_000), size: 1_000_000 }]);
    const [entry] = await read(zip);
    if (!entry) throw new Error('the zip has no entries');
    let received = 0;
    const drain = async () => {
      for await (const chunk of await openFile(entry, Readable.from([zip]))) received += chunk.length;
    };
    await expect(drain()).rejects.toThrow('is larger than its directory says');
    expect(received).toBeLessThanOrEqual(1_000_000);
  });
});

describe('the index of a zip', () => {
  it('is sorted as Postgres sorts texts by bytes', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (a, b) => {
        expect(Math.sign(comparePaths(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
      }),
    );
  });

  it('finds each of many files with one read, and lists each directory', async () => {
    const files = Array.from({ length: 5_000 }, (_, n) => `dir${n % 7}/sub ${n % 31}/file${n}`);
    const entries = files.map((path, offset) => ({
      ...{ path, offset, size: 1, compressed: 1, crc: 1, method: 8, span: 40, mode: 0, encrypted: false },
    }));
    const { content, blocks } = await buildIndex(entries.sort((a, b) => comparePaths(a.path, b.path)));
    const stored = await buffer(content);
    let reads = 0;
    const part = async (start: number, end: number) => {
      reads += 1;
      expect(end - start).toBeLessThan(20_000);
      return stored.subarray(start, end);
    };
    // As Postgres does it with `width_bucket`.
    const find = async (path: string) => {
      const after = blocks.paths.findIndex((first) => comparePaths(first, path) > 0);
      const number = after < 0 ? blocks.paths.length : after;
      const [start, end] = [blocks.offsets[number - 1], blocks.offsets[number]];
      return start === undefined || end === undefined ? null : findInBlock(await part(start, end), path);
    };
    for (const path of files.filter((_, n) => n % 97 === 0)) expect((await find(path))?.path).toBe(path);
    for (const path of ['', 'a', 'dir3', 'dir3/', 'dir3/sub 3/file', 'zzz']) expect(await find(path)).toBeNull();
    const list = async (directory: string, recursive: boolean) => {
      const paths: string[] = [];
      for await (const { path } of listTree(blocks, part, directory, recursive)) paths.push(path);
      return paths;
    };
    reads = 0;
    expect(await list('', false)).toEqual(Array.from({ length: 7 }, (_, n) => `dir${n}/`));
    expect(reads).toBeLessThanOrEqual(8);
    expect((await list('dir2/', false)).length).toBe(31);
    expect(await list('dir2/sub 5/', false)).toEqual(files.filter((path) => path.startsWith('dir2/sub 5/')).sort());
    expect((await list('', true)).filter((path) => !path.endsWith('/'))).toEqual([...files].sort());
    expect((await list('', true)).filter((path) => path.endsWith('/')).length).toBe(7 + 7 * 31);
  });
});

describe('a hostile archive', () => {
  const app = useApp();

  const refusal = async (zip: Buffer, path: string) => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    expect((await upload(app(), job, zip)).status).toBe(201);
    const { status, body } = await reporter.get(`${jobPath}/artifacts/${path}`);
    const whole = await reporter.fetch('GET', `${jobPath}/artifacts`);
    expect(Buffer.from(await whole.arrayBuffer()).equals(zip)).toBe(true);
    return [status, body.message ?? body];
  };

  it('is kept, and the reading of its files refused by name', async () => {
    expect(await refusal(Buffer.from('no zip'), 'a')).toEqual([
      400,
      '400 Bad request - the archive cannot be read: the end of its directory was not found',
    ]);
    expect(await refusal(makeZip([{ name: 'link', content: '/etc/passwd', mode: 0o120777 }]), 'link')).toEqual([
      400,
      '400 Bad request - link is a symbolic link',
    ]);
    expect(await refusal(makeZip([{ name: 'a', content: 'abc', crc: 7 }]), 'a')).toEqual([
      400,
      '400 Bad request - a has a wrong checksum',
    ]);
    expect(await refusal(makeZip([{ name: '../../etc/passwd', content: 'x' }]), 'etc/passwd')).toEqual([
      404,
      '404 Not found',
    ]);
  });

  it('with a line break in a name is served with an encoded header', async () => {
    const { job, reporter, jobPath } = await makeJobScene(app());
    await upload(app(), job, makeZip([{ name: 'new\nline"', content: 'x' }]), { filename: 'a"\r\nb.zip' });
    const file = await reporter.fetch('GET', `${jobPath}/artifacts/new%0Aline%22`);
    expect([file.status, await file.text()]).toEqual([200, 'x']);
    expect(file.headers.get('content-disposition')).toBe(
      `attachment; filename="new_line_"; filename*=UTF-8''new_line%22`,
    );
    const tree = await reporter.get(`${jobPath}/artifacts/tree`);
    expect(tree.body[0].name).toBe('new\nline"');
    expect((await reporter.head(`${jobPath}/artifacts`)).headers.get('content-disposition')).not.toContain('\n');
  });
});
