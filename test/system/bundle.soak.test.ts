import { mkdir, mkdtemp, readdir, readFile, utimes } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, it } from 'vitest';
import { sourceStack } from '#platform/process/source-stack.ts';
import { bundleHub } from '../../src/app/bundle.ts';

const SOURCES = join(import.meta.dirname, '../../src');
/** Where src/main.ts keeps the bundle that it runs. */
const OWN = join(SOURCES, '../node_modules/.cache/millrace');
const folder = () => mkdtemp(join(tmpdir(), 'bundles-'));

describe('the bundle of the hub', () => {
  it('is written once, also if processes start together, and replaces all but two of those before it', async () => {
    const directory = await folder();
    const names = ['bundle-a', 'bundle-b', 'bundle-c', 'bundle-d', 'bundle-a.lost'];
    for (const [age, name] of names.entries()) {
      await mkdir(join(directory, name));
      await utimes(join(directory, name), 0, 1_000_000 - age);
    }
    await mkdir(join(directory, 'bundle-e.draft'));
    const entries = await Promise.all([bundleHub(directory), bundleHub(directory)]);
    expect(new Set(entries).size).toBe(1);
    const current = entries[0].split('/').at(-2);
    expect((await readdir(directory)).toSorted()).toEqual(
      [current, 'bundle-a', 'bundle-b', 'bundle-e.draft'].toSorted(),
    );
    const written = await readFile(entries[0], 'utf8');
    expect(await bundleHub(directory)).toBe(entries[0]);
    expect(await readFile(entries[0], 'utf8')).toBe(written);
  });

  it('cannot be written to a folder that is a file', async () => {
    await expect(bundleHub(join(SOURCES, 'main.ts'))).rejects.toThrow('main.ts');
  });

  it('keeps the positions of the sources for the log', async () => {
    const directory = dirname(await bundleHub(OWN));
    const { path, at } = await find(directory, 'const returnUnusedMemory');
    const stack = `Error: planted\n    at returnUnusedMemory (${pathToFileURL(path)}:${at}:7)\n    at file:///elsewhere.mjs:1:2`;
    const { at: inSource } = await find(join(SOURCES, 'app'), 'const returnUnusedMemory');
    expect(sourceStack(stack)).toMatch(
      new RegExp(
        `^Error: planted\\n    at returnUnusedMemory \\(${join(SOURCES, 'app/memory.ts')}:${inSource}:\\d+\\)\\n    at file:///elsewhere.mjs:1:2$`,
      ),
    );
    const gone = `at x (${pathToFileURL(join(directory, 'gone.mjs'))}:1:2)`;
    expect(sourceStack(gone)).toBe(gone);
  });
});

/** Returns the file below the folder that has the text, and the number of its line. */
const find = async (within: string, text: string): Promise<{ path: string; at: number }> => {
  for (const name of await readdir(within)) {
    if (!/\.(ts|mjs)$/.test(name)) continue;
    const path = join(within, name);
    const at = (await readFile(path, 'utf8')).split('\n').findIndex((line) => line.includes(text)) + 1;
    if (at > 0) return { path, at };
  }
  throw new Error(`no file in ${within} has ${text}`);
};
