import { createHash, randomUUID } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plugin } from 'rolldown';
import { syncPath } from '../platform/files/durable.ts';
import { exists } from '../platform/files/exists.ts';

const ROOT = join(import.meta.dirname, '../..');
const SOURCES = join(ROOT, 'src');
const ENTRY = join(SOURCES, 'app/serve.ts');
/** Packages of many small files that no other package imports. All others stay outside, so that each is loaded once. */
const PACKAGES = /^(kysely|zod|@pothos)(\/|$)/;
/** Older bundles that are kept, because a running hub may still load parts of them. */
const KEPT = 3;
/** Drafts that are older were left behind by processes that died. */
const DRAFT_MS = 3_600_000;

/**
 * Bundles the hub into a few files below `directory`, which start in half the time of 1,700 modules (decision 64).
 * Does nothing if they are newer than the sources. Processes may call it at once.
 *
 * @returns the file to import instead of src/app/serve.ts
 * @throws Error if the bundle cannot be written, for example because the folder is read-only
 */
export const bundleHub = async (directory: string): Promise<string> => {
  const folder = join(directory, `bundle-${fingerprint()}`);
  const entry = join(folder, 'serve.mjs');
  if (await exists(entry)) return entry;
  await mkdir(directory, { recursive: true });
  const draft = `${folder}.${randomUUID()}`;
  try {
    await write(draft);
    // After a power failure, a bundle of empty files would make all later starts fail.
    for (const name of await readdir(draft)) await syncPath(join(draft, name));
    // Fails if another process was faster. Its bundle is the same.
    await rename(draft, folder).catch(async (error: unknown) => {
      if (!(await exists(entry))) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  await removeOld(directory);
  return entry;
};

/** Identifies the state of the sources by their names, sizes and times: reading them would take longer. */
const fingerprint = (): string => {
  const hash = createHash('sha256').update(process.version);
  const add = (path: string): void => {
    const { size, mtimeMs } = statSync(path);
    hash.update(`${relative(ROOT, path)} ${size} ${mtimeMs}\n`);
  };
  const walk = (folder: string): void => {
    for (const found of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, found.name);
      if (found.isDirectory()) walk(path);
      else add(path);
    }
  };
  walk(SOURCES);
  // The packages in the bundle.
  add(join(ROOT, 'package-lock.json'));
  return hash.digest('hex').slice(0, 16);
};

const write = async (dir: string): Promise<void> => {
  const { rolldown } = await import('rolldown');
  await using build = await rolldown({
    input: { serve: ENTRY },
    cwd: ROOT,
    platform: 'node',
    external: (id) => /^[^.#/]/.test(id) && !PACKAGES.test(id),
    resolve: { conditionNames: ['node', 'import', 'default'] },
    plugins: [placesOfSources],
    logLevel: 'silent',
  });
  await build.write({
    dir,
    entryFileNames: '[name].mjs',
    chunkFileNames: '[name]-[hash].mjs',
    sourcemap: true,
    sourcemapExcludeSources: true,
  });
};

/** Lets modules find files beside them (workers, pages, migrations) from inside the bundle. */
const placesOfSources: Plugin = {
  name: 'places of sources',
  transform: (code, id) =>
    code.includes('import.meta.')
      ? {
          code: code
            .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href))
            .replaceAll('import.meta.dirname', JSON.stringify(dirname(id))),
          map: null,
        }
      : null,
};

const removeOld = async (directory: string): Promise<void> => {
  const names = (await readdir(directory)).filter((name) => name.startsWith('bundle-'));
  const found = await Promise.all(
    names.map(async (name) => {
      const path = join(directory, name);
      // Another process may have removed it.
      const writtenAt = await stat(path).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0,
      );
      return { path, writtenAt, isDraft: name.includes('.') };
    }),
  );
  const [drafts, bundles] = [found.filter(({ isDraft }) => isDraft), found.filter(({ isDraft }) => !isDraft)];
  const old = bundles.toSorted((a, b) => b.writtenAt - a.writtenAt).slice(KEPT);
  // Other processes may be writing the newer ones.
  const lost = drafts.filter(({ writtenAt }) => writtenAt < Date.now() - DRAFT_MS);
  await Promise.all([...old, ...lost].map(({ path }) => rm(path, { recursive: true, force: true })));
};
