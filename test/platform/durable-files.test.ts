import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { writeOnce } from '#platform/files/durable.ts';
import { loadInstanceKey } from '#platform/process/instance-key.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'write-once-'));
});
afterAll(() => rm(directory, { recursive: true }));

it('returns what the first of many callers wrote, and leaves only that file', async () => {
  const path = join(directory, 'many');
  const values = await Promise.all(Array.from({ length: 10 }, (_, index) => writeOnce(path, Buffer.from(`${index}`))));
  const written = readFileSync(path);
  for (const value of values) expect(value).toEqual(written);
  expect(await readdir(directory)).toEqual(['many']);
});

it('removes what processes that were killed left beside it, and nothing else', async () => {
  const folder = join(directory, 'killed');
  await mkdir(folder);
  const path = join(folder, 'key');
  for (const name of [`key.${randomUUID()}`, 'key.backup', `other.${randomUUID()}`])
    await writeFile(join(folder, name), 'left');
  expect((await writeOnce(path, Buffer.from('value'))).toString()).toBe('value');
  await writeFile(`${path}.${randomUUID()}`, 'left by another one');
  expect((await writeOnce(path, Buffer.from('other'))).toString()).toBe('value');
  expect((await readdir(folder)).sort()).toEqual(['key', 'key.backup', expect.stringMatching(/^other\./)]);
});

it('fails if the folder is missing', async () => {
  await expect(writeOnce(join(directory, 'missing/file'), Buffer.from('x'))).rejects.toThrow('ENOENT');
});

it('shows the key of an instance only when it is complete, as hubs may start together', async () => {
  for (let round = 0; round < 20; round++) {
    const dataDir = join(directory, `hub-${round}`);
    await mkdir(dataDir);
    let loaded: Buffer | undefined;
    const loading = loadInstanceKey(dataDir, null).then((key) => (loaded = key));
    const lengths = new Set<number>();
    while (!loaded) {
      await turn();
      try {
        lengths.add(readFileSync(join(dataDir, 'instance-key')).length);
      } catch {
        // It does not exist yet.
      }
    }
    expect(lengths).toEqual(new Set([32]));
    expect(await loadInstanceKey(dataDir, null)).toEqual(await loading);
  }
});

it('refuses a key of the wrong length', async () => {
  await writeFile(join(directory, 'instance-key'), 'short');
  await expect(loadInstanceKey(directory, null)).rejects.toThrow('is not an instance key: 32 bytes were expected');
});
