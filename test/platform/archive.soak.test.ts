import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { gzipSync } from 'node:zlib';
import { type Header, pack } from 'tar-stream';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { ArchiveError } from '#platform/archive/archive-error.ts';
import { type ArchiveEntry, type ReadArchiveOptions, readArchive } from '#platform/archive/read-archive.ts';
import { createArchiveWriter } from '#platform/archive/write-archive.ts';
import { computedMs } from '../support/computed-ms.ts';

const run = promisify(execFile);
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'millrace-archive-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const limits = { maxBytes: 100_000_000, maxEntries: 1_000, timeoutMs: 20_000 };

const read = async (bytes: Buffer | Readable, options: Partial<ReadArchiveOptions> = {}) => {
  const found: { [name: string]: string } = {};
  const source = Buffer.isBuffer(bytes) ? Readable.from([bytes], { objectMode: false }) : bytes;
  const totals = await readArchive(source, {
    ...limits,
    onEntry: async ({ name, stream }) => {
      found[name] = createHash('sha1')
        .update(await buffer(stream))
        .digest('hex');
    },
    ...options,
  });
  return { found, ...totals };
};
const sha1 = (content: string | Buffer) => createHash('sha1').update(content).digest('hex');

type TestEntry = [Partial<Header> & { name: string }, (string | Buffer)?];
const tarOf = async (...entries: TestEntry[]): Promise<Buffer> => {
  const archive = pack();
  for (const [header, content] of entries) {
    if (header.type === undefined) archive.entry(header, content ?? '');
    else archive.entry(header);
  }
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) if (Buffer.isBuffer(chunk)) chunks.push(chunk);
  return Buffer.concat(chunks);
};
const archiveOf = async (...entries: TestEntry[]) => gzipSync(await tarOf(...entries));

const refusal = async (promise: Promise<unknown>): Promise<string> => {
  const error = await promise.then(
    () => new Error('it was not refused'),
    (reason: unknown) => reason,
  );
  if (!(error instanceof ArchiveError)) throw error;
  return error.message;
};

describe('writing', () => {
  test('writes archives that system tar and our own reader can read', async () => {
    const writer = createArchiveWriter({ temporaryDirectory: join(directory, 'spool') });
    const target = join(directory, 'written.tar.gz');
    const output = buffer(writer.output);
    const noise = randomBytes(3_500_000);
    const longName = `uploads/${'a'.repeat(32)}/${'long name é '.repeat(12)}.png`;
    const pieces = function* () {
      for (let at = 0; at < noise.length; at += 70_001) yield noise.subarray(at, at + 70_001);
    };
    expect(await writer.entry('VERSION', '0.2.4\n')).toBe(6);
    expect(await writer.entry('empty.ndjson', '')).toBe(0);
    expect(await writer.entry('unknown-size.bin', Readable.from(pieces()))).toBe(noise.length);
    expect(await writer.entry('known-size.bin', Readable.from(pieces()), { size: noise.length })).toBe(noise.length);
    expect(await writer.entry(longName, Buffer.from('picture'))).toBe(7);
    await writer.finish();
    const bytes = await output;
    await writeFile(target, bytes);

    await run('gzip', ['-t', target]);
    const unpacked = join(directory, 'unpacked');
    await mkdir(unpacked);
    await run('tar', ['xzf', target, '-C', unpacked]);
    expect(await readFile(join(unpacked, 'VERSION'), 'utf8')).toBe('0.2.4\n');
    expect(noise.equals(await readFile(join(unpacked, 'unknown-size.bin')))).toBe(true);
    expect(await readFile(join(unpacked, longName), 'utf8')).toBe('picture');

    const { found } = await read(createReadStream(target));
    expect(found).toEqual({
      VERSION: sha1('0.2.4\n'),
      'empty.ndjson': sha1(''),
      'unknown-size.bin': sha1(noise),
      'known-size.bin': sha1(noise),
      [longName]: sha1('picture'),
    });
    expect(await readdir(join(directory, 'spool'))).toEqual([]);
  });

  test('writes the same bytes for the same content', async () => {
    const make = async () => {
      const writer = createArchiveWriter({ temporaryDirectory: directory });
      const output = buffer(writer.output);
      await writer.entry('a', Buffer.alloc(5_000_000, 'text '));
      await writer.finish();
      return output;
    };
    expect((await make()).equals(await make())).toBe(true);
  });

  test('refuses names that its own reader would refuse', async () => {
    const writer = createArchiveWriter({ temporaryDirectory: directory });
    await expect(writer.entry('../x', 'y')).rejects.toThrow(ArchiveError);
  });

  test('fails if a source fails or gives a wrong size', async () => {
    for (const [source, size] of [
      [Readable.from([Buffer.alloc(10)]), 11],
      [Readable.from([Buffer.alloc(12)]), 11],
      [
        Readable.from(
          (async function* () {
            yield Buffer.alloc(2_000_000);
            throw new Error('the cursor broke');
          })(),
        ),
        undefined,
      ],
    ] as const) {
      const writer = createArchiveWriter({ temporaryDirectory: join(directory, 'spool') });
      const output = buffer(writer.output).catch((error: Error) => error.message);
      const failed = await writer.entry('x', source, size === undefined ? {} : { size }).catch((error: Error) => error);
      expect(failed).toBeInstanceOf(Error);
      expect(await output).toMatch(/announced 11 bytes|the cursor broke/);
      await expect(writer.finish()).rejects.toThrow();
    }
    expect(await readdir(join(directory, 'spool'))).toEqual([]);
  });

  test('stops writing when the reader goes away', async () => {
    const writer = createArchiveWriter({ temporaryDirectory: directory });
    writer.output.once('data', () => writer.output.destroy());
    const endless = Readable.from(
      (function* () {
        for (;;) yield randomBytes(100_000);
      })(),
    );
    await expect(writer.entry('endless', endless, { size: 1e12 })).rejects.toThrow('aborted');
    await expect(writer.finish()).rejects.toThrow('aborted');
  });
});

describe('reading', () => {
  test('accepts `./` names, folders, GNU long names and pax headers', async () => {
    const folder = join(directory, 'honest');
    const long = `tree/project/${'deep-folder/'.repeat(9)}${'n'.repeat(80)}.ndjson`;
    await mkdir(join(folder, long, '..'), { recursive: true });
    await writeFile(join(folder, 'VERSION'), '0.2.4');
    await writeFile(join(folder, long), 'content');
    for (const format of ['gnu', 'pax', 'ustar']) {
      const target = join(directory, `${format}.tar.gz`);
      await run('tar', ['czf', target, `--format=${format}`, '-C', folder, '.']);
      const { found } = await read(createReadStream(target));
      expect(found).toEqual({ VERSION: sha1('0.2.4'), [long]: sha1('content') });
    }
  });

  test('reads concatenated gzip members as one archive', async () => {
    const tar = await tarOf([{ name: 'a' }, 'first'], [{ name: 'b' }, 'second']);
    const { found } = await read(Buffer.concat([gzipSync(tar.subarray(0, 700)), gzipSync(tar.subarray(700))]));
    expect(found).toEqual({ a: sha1('first'), b: sha1('second') });
  });

  test('skips entries that the caller does not read, or reads in part', async () => {
    const big = randomBytes(2_000_000);
    const bytes = await archiveOf([{ name: 'a' }, big], [{ name: 'b' }, big], [{ name: 'c' }, 'end']);
    const seen: string[] = [];
    await read(bytes, {
      onEntry: async ({ name, size, stream }: ArchiveEntry) => {
        seen.push(`${name} ${size}`);
        if (name === 'b') for await (const _ of stream) break;
        if (name === 'c') seen.push((await buffer(stream)).toString());
      },
    });
    expect(seen).toEqual(['a 2000000', 'b 2000000', 'c 3', 'end']);
  });

  test.each<[string, Partial<Header> & { name: string }, RegExp]>([
    ['symbolic link', { name: 'tree', type: 'symlink', linkname: '/etc' }, /symbolic link: "tree"/],
    ['hard link', { name: 'x', type: 'link', linkname: '/etc/passwd' }, /hard link/],
    ['character device', { name: 'x', type: 'character-device' }, /device/],
    ['block device', { name: 'x', type: 'block-device' }, /device/],
    ['named pipe', { name: 'x', type: 'fifo' }, /named pipe/],
    ['absolute path', { name: '/etc/passwd' }, /absolute/],
    ['backslashes', { name: '..\\..\\x' }, /foreign/],
    ['drive letter', { name: 'C:/x' }, /foreign/],
    ['parent path', { name: 'a/../../x' }, /outside/],
    ['parent at the end', { name: './..' }, /outside/],
    ['NUL in a pax name', { name: 'x', pax: { path: 'a\0/../../b' } }, /NUL/],
    ['parent in a pax name', { name: 'x', pax: { path: '../b' } }, /outside/],
    ['absurd size', { name: 'x', pax: { size: '-5' } }, /damaged/],
    ['long name', { name: `x/${'y'.repeat(1_100)}` }, /too long/],
    ['deep folders', { name: `${'d/'.repeat(200)}x` }, /too deeply/],
  ])('refuses a whole archive with a bad entry: %s', async (_what, header, message) => {
    const bytes = await archiveOf([{ name: 'VERSION' }, '0.2.4'], [header], [{ name: 'after' }, 'x']);
    const seen: string[] = [];
    const onEntry = async ({ name }: ArchiveEntry) => void seen.push(name);
    expect(await refusal(read(bytes, { onEntry }))).toMatch(message);
    expect(seen).toEqual(['VERSION']);
  });

  test('refuses a file through a link, duplicates and too many entries', async () => {
    const link: TestEntry = [{ name: 'dir', type: 'symlink', linkname: directory }];
    expect(await refusal(read(await archiveOf(link, [{ name: 'dir/x' }, 'y'])))).toMatch(/symbolic link/);
    expect(await refusal(read(await archiveOf([{ name: 'a' }, '1'], [{ name: './a' }, '2'])))).toMatch(/"a" twice/);
    const many = Array.from({ length: 50 }, (_, index): TestEntry => [{ name: `f${index}` }, '']);
    expect(await refusal(read(await archiveOf(...many), { maxEntries: 49 }))).toMatch(/limit of 49 entries/);
  });

  test('stops a decompression bomb while it unpacks, even across many gzip members', async () => {
    const zeros = gzipSync(Buffer.alloc(50_000_000));
    const bomb = Buffer.concat([gzipSync(bombHeader(4_000_000_000)), ...Array.from({ length: 40 }, () => zeros)]);
    const startedAt = computedMs();
    expect(await refusal(read(bomb, { maxBytes: 20_000_000 }))).toMatch(/limit of 20000000 bytes/);
    expect(computedMs() - startedAt).toBeLessThan(1_000);
  });

  test('stops an archive of endless empty headers', async () => {
    const pax = (await tarOf([{ name: 'x', pax: { comment: 'y'.repeat(300) } }, ''])).subarray(0, 1024);
    const bomb = Readable.from(
      (function* () {
        for (;;) yield gzipSync(Buffer.concat(Array.from({ length: 1_000 }, () => pax)));
      })(),
    );
    expect(await refusal(read(bomb, { maxBytes: 5_000_000 }))).toMatch(/limit of 5000000 bytes/);
    expect(bomb.destroyed).toBe(true);
  });

  test('refuses a pax header that is too large to hold in memory', async () => {
    const header = bombHeader(50_000_000);
    header.write('x', 156);
    expect(await refusal(read(gzipSync(Buffer.concat([fixChecksum(header), Buffer.alloc(50_000_000)]))))).toMatch(
      /damaged|not a tar/,
    );
  });

  test('times out if unpacking takes too long, but not if the caller is slow', async () => {
    const stuck = new Readable({ read: () => undefined });
    expect(await refusal(read(stuck, { timeoutMs: 100 }))).toMatch(/too long to unpack/);
    expect(stuck.destroyed).toBe(true);
    const bytes = await archiveOf([{ name: 'a' }, randomBytes(3_000_000)], [{ name: 'b' }, 'x']);
    const now = performance.now.bind(performance);
    let spentMs = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + spentMs);
    const slow = read(bytes, {
      timeoutMs: 60_000,
      onEntry: async ({ stream }) => {
        spentMs += 600_000;
        // Stay past at least one check, which runs four times a second.
        await new Promise((resolve) => setTimeout(resolve, 300));
        await buffer(stream);
      },
    });
    expect((await slow).entries).toBe(2);
    clock.mockRestore();
  });

  test('reports what is wrong with an incomplete or damaged archive', async () => {
    const whole = await archiveOf([{ name: 'a' }, randomBytes(300_000)], [{ name: 'b' }, 'x']);
    const tar = await tarOf([{ name: 'a' }, randomBytes(300_000)]);
    const broken = Buffer.from(whole);
    broken.fill(0x55, 100_000, 100_400);
    expect(await refusal(read(Buffer.from('just a text file, no archive')))).toBe('The file is not a gzip archive.');
    expect(await refusal(read(Buffer.alloc(0)))).toMatch(/empty|truncated/);
    expect(await refusal(read(gzipSync('short text')))).toBe('The file is not a tar archive.');
    expect(await refusal(read(gzipSync(randomBytes(5_000))))).toBe('The file is not a tar archive.');
    expect(await refusal(read(gzipSync(Buffer.alloc(1_024))))).toBe('The archive is empty.');
    expect(await refusal(read(whole.subarray(0, 200_000)))).toBe('The archive is truncated.');
    expect(await refusal(read(whole.subarray(0, -4)))).toBe('The archive is truncated.');
    expect(await refusal(read(gzipSync(tar.subarray(0, 200_000))))).toBe('The archive is truncated.');
    expect(await refusal(read(broken))).toMatch(/damaged/);
  });

  test('passes on the error of a source that has failed before', async () => {
    const source = new Readable({ read: () => undefined });
    const done = read(source);
    source.destroy(new Error('the disk is gone'));
    await expect(done).rejects.toThrow('the disk is gone');
  });

  test('passes on the errors of the caller and the source unchanged, and stops on the signal', async () => {
    const bytes = await archiveOf([{ name: 'a' }, randomBytes(3_000_000)]);
    const onEntry = async () => {
      throw new Error('no room in the database');
    };
    await expect(read(bytes, { onEntry })).rejects.toThrow('no room in the database');
    const failing = Readable.from(
      (async function* () {
        yield bytes.subarray(0, 1_000_000);
        throw new Error('the storage is gone');
      })(),
    );
    await expect(read(failing)).rejects.toThrow('the storage is gone');
    const stuck = new Readable({ read: () => undefined });
    await expect(read(stuck, { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({ name: 'TimeoutError' });
    const lateReader = async ({ stream }: ArchiveEntry) => {
      await new Promise((resolve) => setTimeout(resolve, 150));
      await buffer(stream);
    };
    const late = read(Readable.from([bytes.subarray(0, 2_000_000)]), {
      signal: AbortSignal.timeout(50),
      onEntry: lateReader,
    });
    await expect(late).rejects.toBeInstanceOf(Error);
    await expect(read(bytes, { signal: AbortSignal.abort() })).rejects.toMatchObject({ name: 'AbortError' });
  });
});

const bombHeader = (size: number): Buffer => {
  const header = Buffer.alloc(512);
  header.write('bomb', 0);
  header.write(size.toString(8).padStart(11, '0'), 124);
  header.write('0', 156);
  header.write('ustar\x0000', 257);
  return fixChecksum(header);
};
const fixChecksum = (header: Buffer): Buffer => {
  header.write('        ', 148);
  let sum = 0;
  for (const byte of header) sum += byte;
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
};
