import { randomUUID } from 'node:crypto';
import { constants, createWriteStream } from 'node:fs';
import { access, type FileHandle, mkdir, open, opendir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { badRequest, notFound } from '#platform/errors.ts';
import { syncPath } from '#platform/files/durable.ts';
import { codeOf } from '#platform/files/error-code.ts';
import { createMeter, toStorageError } from './meter.ts';
import { assertKey, assertRange, type ListedFile, outside, resolveRange, type Storage } from './storage.ts';

export interface LocalStorageOptions {
  readonly directory: string;
  /** The id of the writing process. It identifies the drafts of a dead process. */
  readonly writer?: string;
  /** False does not wait for the disk. For tests. */
  readonly durable?: boolean;
}

/**
 * Stores files in a directory. Writes go to `tmp/`, are synced, and are then renamed into `files/`. A crash leaves
 * either the old file or the new one, and a temporary file that other processes remove when they find the process dead.
 */
export const createLocalStorage = ({ durable = true, ...options }: LocalStorageOptions): Storage => {
  const files = join(options.directory, 'files');
  const temporary = join(options.directory, 'tmp');
  const draftPrefix = (writer: string) => `${writer}.`;
  const pathOf = (key: string) => {
    assertKey(key);
    return join(files, key);
  };

  return {
    async write(key, source, { maxBytes, signal } = {}) {
      const draft = join(temporary, draftPrefix(options.writer ?? 'unknown') + randomUUID());
      try {
        const path = pathOf(key);
        await mkdir(temporary, { recursive: true });
        const meter = createMeter(maxBytes);
        const target = createWriteStream(draft, { flags: 'wx', flush: durable, highWaterMark: 1024 * 1024 });
        await pipeline(source, meter.stream, target, { signal });
        await moveIntoPlace(draft, path);
        // The rename itself must survive a power failure too.
        if (durable) await syncPath(dirname(path));
        return meter.result();
      } catch (error) {
        // Also destroy a source that was never connected to the pipeline.
        source.destroy();
        await rm(draft, { force: true });
        throw explain(error);
      }
    },

    async read(key, range) {
      const handle = await openToRead(pathOf(key));
      try {
        const status = await handle.stat();
        if (!status.isFile()) throw notFound('File');
        const { start, size } = resolveRange(status.size, range);
        const stream = handle.createReadStream({
          start,
          end: Math.max(start, start + size - 1),
          highWaterMark: 256 * 1024,
        });
        return { stream, size, totalSize: status.size };
      } catch (error) {
        await handle.close();
        throw error;
      }
    },

    async readPart(key, range) {
      assertRange(range);
      const { start, end } = range;
      const handle = await openToRead(pathOf(key));
      try {
        const bytes = Buffer.allocUnsafe(end - start + 1);
        let filled = 0;
        while (filled < bytes.length) {
          const { bytesRead } = await handle.read(bytes, filled, bytes.length - filled, start + filled);
          if (bytesRead === 0) break;
          filled += bytesRead;
        }
        if (filled === 0) throw outside();
        return bytes.subarray(0, filled);
      } finally {
        await handle.close();
      }
    },

    async stat(key) {
      const status = await statOrNull(pathOf(key));
      return status?.isFile() ? { size: status.size } : null;
    },

    async remove(key) {
      const path = pathOf(key);
      await rm(path, { force: true }).catch((error: unknown) => {
        if (!isAbsence(error)) throw explain(error);
      });
      await pruneEmpty(dirname(path), files);
    },

    list: (prefix) => {
      if (prefix !== '') assertKey(prefix.replace(/\/$/, ''));
      return walk(files, prefix.includes('/') ? dirname(`${prefix}x`) : '', prefix);
    },

    signedUrl: async () => null,

    async ready() {
      await mkdir(files, { recursive: true });
      await mkdir(temporary, { recursive: true });
      await access(files, constants.R_OK | constants.W_OK);
      await access(temporary, constants.R_OK | constants.W_OK);
    },

    async sweepTemporary(olderThanMs) {
      const limit = Date.now() - olderThanMs;
      let removed = 0;
      for await (const name of namesIn(temporary)) {
        const path = join(temporary, name);
        const status = await statOrNull(path);
        if (!status || status.mtimeMs > limit) continue;
        await rm(path, { force: true });
        removed++;
      }
      return removed;
    },

    async removeDraftsOf(writer) {
      for await (const name of namesIn(temporary)) {
        if (name.startsWith(draftPrefix(writer))) await rm(join(temporary, name), { force: true });
      }
    },

    close: async () => undefined,
  };
};

const openToRead = (path: string): Promise<FileHandle> =>
  open(path, 'r').catch((error: unknown) => {
    throw isAbsence(error) ? notFound('File') : explain(error);
  });

/**
 * Retries, because a removal may prune an empty folder at any moment: between two levels that `mkdir` creates, and
 * between the two steps.
 */
const moveIntoPlace = async (draft: string, path: string): Promise<void> => {
  for (let attempt = 1; ; attempt++) {
    try {
      await mkdir(dirname(path), { recursive: true });
      await rename(draft, path);
      break;
    } catch (error) {
      if (attempt >= MAX_MOVES || codeOf(error) !== 'ENOENT') throw error;
    }
  }
};

const MAX_MOVES = 20;

const pruneEmpty = async (from: string, root: string): Promise<void> => {
  for (let folder = from; folder.length > root.length; folder = dirname(folder)) {
    try {
      await rmdir(folder);
    } catch {
      // The folder is not empty, or is already gone. Either way there is nothing to prune above it.
      return;
    }
  }
};

async function* walk(root: string, folder: string, prefix: string): AsyncGenerator<ListedFile> {
  for await (const name of namesIn(join(root, folder))) {
    const key = folder === '' || folder === '.' ? name : `${folder}/${name}`;
    const status = await statOrNull(join(root, key));
    if (status?.isDirectory() && (key.startsWith(prefix) || prefix.startsWith(`${key}/`))) {
      yield* walk(root, key, prefix);
    } else if (status?.isFile() && key.startsWith(prefix)) {
      yield { key, size: status.size, modifiedAt: status.mtime };
    }
  }
}

async function* namesIn(folder: string): AsyncGenerator<string> {
  try {
    for await (const { name } of await opendir(folder)) yield name;
  } catch (error) {
    if (!isAbsence(error)) throw error;
  }
}

const statOrNull = (path: string) =>
  stat(path).catch((error: unknown) => {
    if (isAbsence(error)) return null;
    throw error;
  });

const isAbsence = (error: unknown) => codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR';

const explain = (error: unknown): unknown => {
  const code = codeOf(error);
  if (code === 'EISDIR' || code === 'ENOTDIR' || code === 'ENOTEMPTY' || code === 'EEXIST') {
    return badRequest('another stored file conflicts with this key');
  }
  return toStorageError(error);
};
