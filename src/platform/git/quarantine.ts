import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Runner } from './process.ts';

/** A place for new objects that the repository does not hold yet. */
export interface Quarantine {
  /** For git calls that write to it and see the repository behind it. */
  readonly env: Readonly<Record<string, string>>;
  /** A folder for files of the work at hand, gone with the quarantine. */
  readonly folder: string;
  /** Takes loose objects out that served the work alone. */
  forget(oids: readonly string[]): Promise<void>;
  /** Nothing of what was written is kept. */
  discard(): void;
}

export interface QuarantineOptions {
  /** Object folders of other repositories to be seen as well. */
  readonly alternates?: readonly string[];
}

/**
 * Does work that writes objects, which come into the repository as a whole when it succeeds; when it throws, discards
 * them, or the process dies, nothing is left but a folder that `git prune` knows and removes. No ref is moved.
 */
export const inQuarantine = async <T>(
  runner: Runner,
  path: string,
  work: (quarantine: Quarantine) => Promise<T>,
  { alternates = [] }: QuarantineOptions = {},
): Promise<T> => {
  const objects = join(runner.directory(path), 'objects');
  const root = join(objects, `tmp_objdir-incoming-${randomUUID()}`);
  const folder = join(root, 'work');
  await mkdir(folder, { recursive: true });
  let isKept = true;
  try {
    const result = await work({
      env: {
        GIT_OBJECT_DIRECTORY: root,
        GIT_ALTERNATE_OBJECT_DIRECTORIES: [objects, ...alternates].join(':'),
      },
      folder,
      forget: async (oids) => {
        for (const oid of oids) await rm(join(root, oid.slice(0, 2), oid.slice(2)), { force: true });
      },
      discard: () => {
        isKept = false;
      },
    });
    if (isKept) await migrate(root, objects);
    return result;
  } finally {
    await rm(root, { recursive: true, force: true });
  }
};

/** An index makes its pack known, so it comes last. */
const PACK_ORDER = ['.keep', '.pack', '.rev', '.idx'];

const migrate = async (from: string, to: string): Promise<void> => {
  for (const { name } of await readdir(from, { withFileTypes: true })) {
    const isPacks = name === 'pack';
    if (!isPacks && !/^[0-9a-f]{2}$/.test(name)) continue;
    await mkdir(join(to, name), { recursive: true });
    const files = await readdir(join(from, name));
    const kept = isPacks ? packFiles(files) : files.filter((file) => /^[0-9a-f]+$/.test(file));
    for (const file of kept) await rename(join(from, name, file), join(to, name, file));
  }
};

const packFiles = (files: readonly string[]): string[] =>
  PACK_ORDER.flatMap((ending) => files.filter((file) => file.startsWith('pack-') && file.endsWith(ending)));
