import { watch } from 'node:fs';
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { spool } from '#platform/archive/spool.ts';
import { until } from '../support/until.ts';

const MIB = 1024 * 1024;
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'spool-'));
});
afterAll(() => rm(directory, { recursive: true }));

describe('a spool', () => {
  it.each([1_000, 3 * MIB + 1])('returns the %i bytes that it was given, again and again', async (size) => {
    const bytes = Buffer.alloc(size, 'abc');
    const spooled = await spool(Readable.from([bytes.subarray(0, 500), bytes.subarray(500)]), directory);
    expect(spooled.size).toBe(size);
    for (let i = 0; i < 2; i++) expect((await buffer(Readable.from(spooled.chunks()))).equals(bytes)).toBe(true);
    await spooled.close();
    expect(await readdir(directory)).toEqual([]);
  });

  it.runIf(process.platform === 'linux')('has no name at any moment, so a killed process leaves nothing', async () => {
    const names = new Set<string>();
    const watcher = watch(directory, (_event, name) => {
      // Linux reports a file without a name by the number of its inode.
      if (name !== null && !name.startsWith('#')) names.add(name);
    });
    try {
      await (await spool(Readable.from([Buffer.alloc(2 * MIB)]), directory)).close();
      // Events arrive in order.
      await writeFile(join(directory, 'last'), '');
      await until('the last file was seen', async () => names.has('last'));
      expect([...names]).toEqual(['last']);
    } finally {
      watcher.close();
    }
  });
});
