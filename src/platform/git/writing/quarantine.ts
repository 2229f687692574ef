import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { mapLimit } from '../../concurrency/map-limit.ts';
import { codeOf } from '../../files/error-code.ts';
import type { Runner } from '../process/runner.ts';

/** A folder for new objects that the repository does not contain yet. */
export interface Quarantine {
  /** The environment for git calls that write to the quarantine and also see the repository. */
  readonly env: Readonly<Record<string, string>>;
  /** A folder for temporary files, removed with the quarantine. */
  readonly folder: string;
  /** Removes loose objects that were needed only during the work. */
  forget(oids: readonly string[]): Promise<void>;
  /** Keeps none of the written objects. */
  discard(): void;
}

export interface QuarantineOptions {
  /** Object folders of other repositories that git should also see. */
  readonly alternates?: readonly string[];
}

/**
 * Runs work that writes objects, and moves them into the repository together if it succeeds. If it throws or discards
 * them, or the process dies, only a folder remains that `git prune` knows and removes. No ref moves.
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

/** The index makes a pack visible, so it comes last. */
const PACK_ORDER = ['.keep', '.pack', '.rev', '.idx'];

const FOLDERS_AT_ONCE = 4;

const migrate = async (from: string, to: string): Promise<void> => {
  const move = async (name: string): Promise<void> => {
    const isPacks = name === 'pack';
    if (!isPacks && !/^[0-9a-f]{2}$/.test(name)) return;
    const files = await readdir(join(from, name));
    const kept = isPacks ? packFiles(files) : files.filter((file) => /^[0-9a-f]+$/.test(file));
    for (const file of kept) await moveInto(join(to, name), join(from, name, file));
  };
  await mapLimit(await readdir(from), FOLDERS_AT_ONCE, move);
};

/** A repack removes a folder each time it has emptied it, which is seldom. */
const MAX_ATTEMPTS = 20;

const moveInto = async (folder: string, file: string): Promise<void> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await rename(file, join(folder, basename(file)));
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' || attempt === MAX_ATTEMPTS) throw error;
    }
    // Node reports a folder that is removed meanwhile as missing.
    await mkdir(folder, { recursive: true }).catch((error: unknown) => {
      if (codeOf(error) !== 'ENOENT') throw error;
    });
  }
};

const packFiles = (files: readonly string[]): string[] =>
  PACK_ORDER.flatMap((ending) => files.filter((file) => file.startsWith('pack-') && file.endsWith(ending)));
