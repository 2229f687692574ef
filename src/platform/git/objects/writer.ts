import { createHash } from 'node:crypto';
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { deflate, deflateSync } from 'node:zlib';
import { mapLimit } from '../../concurrency/map-limit.ts';
import { GitError } from '../git-error.ts';
import { STRICT } from '../http/smart-http.ts';
import type { Runner } from '../process/runner.ts';

export interface NewObject {
  readonly type: 'commit' | 'tree' | 'blob' | 'tag';
  readonly content: Buffer;
}

export interface IdentifiedObject extends NewObject {
  readonly oid: string;
}

/** Below this size, compressing takes less time than handing the work to another thread. */
const MIN_ASYNC_BYTES = 64 * 1024;
const FASTEST = { level: 1 };
const deflateAside = promisify(deflate);

export const oidOf = ({ type, content }: NewObject): string =>
  createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex');

/** Up to this number of blobs, waiting for the disk once for each costs less than the folder in which git collects them. */
const FEW_BLOBS = 2;

/**
 * Writes objects together: one git process receives them as a pack. git computes the ids itself, detects SHA-1
 * collisions, and applies the same checks as to a push.
 *
 * @throws GitError `failed` if git would refuse the objects in a push
 */
export const writeObjects = async (
  runner: Runner,
  path: string,
  objects: readonly IdentifiedObject[],
  env: Readonly<Record<string, string>> = {},
): Promise<void> => {
  const unpack = async (some: readonly NewObject[], config: readonly string[], attempt = 1): Promise<void> => {
    try {
      await runner.run(path, ['unpack-objects', '-q', STRICT], { env, config, input: packOf(some) });
    } catch (error) {
      if (attempt === ATTEMPTS || !(error instanceof GitError) || !FOLDER_IS_GONE.test(error.stderr)) throw error;
      await unpack(some, config, attempt + 1);
    }
  };
  const isBatch = objects.filter(({ type }) => type === 'blob').length > FEW_BLOBS;
  await unpack(objects, isBatch ? [] : ONE_BY_ONE);
  if (!isBatch || env.GIT_OBJECT_DIRECTORY !== undefined) return;
  // git moves a batch into its folders, and ignores the failure if a repack removes one of them at that moment. Objects
  // that a pack has are absent too, and git skips them.
  const directory = join(runner.directory(path), 'objects');
  const absent = await mapLimit(objects, FILES_AT_ONCE, async (object) =>
    access(join(directory, object.oid.slice(0, 2), object.oid.slice(2))).then(
      () => [],
      () => [object],
    ),
  );
  if (absent.flat().length > 0) await unpack(absent.flat(), ONE_BY_ONE);
};

/** A repack removed a folder in the moment between its creation and its first file. */
const FOLDER_IS_GONE = /unable to create temporary file: No such file or directory/;
const ATTEMPTS = 3;
const ONE_BY_ONE = ['core.fsyncMethod=fsync'];
const FILES_AT_ONCE = 4;

const TYPES = { commit: 1, tree: 2, blob: 3, tag: 4 } as const;

/** Yields a pack of whole objects (gitformat-pack), part by part. */
async function* packOf(objects: readonly NewObject[]): AsyncGenerator<Buffer> {
  const hash = createHash('sha1');
  const head = Buffer.alloc(12);
  head.write('PACK');
  head.writeUInt32BE(2, 4);
  head.writeUInt32BE(objects.length, 8);
  hash.update(head);
  yield head;
  for (const { type, content } of objects) {
    const compressed =
      content.length < MIN_ASYNC_BYTES ? deflateSync(content, FASTEST) : await deflateAside(content, FASTEST);
    const part = Buffer.concat([entryHead(TYPES[type], content.length), compressed]);
    hash.update(part);
    yield part;
  }
  yield hash.digest();
}

/** Encodes type and size: the first byte holds four bits of the size, each following byte seven, lowest bits first. */
const entryHead = (type: number, size: number): Buffer => {
  const bytes: number[] = [];
  let byte = (type << 4) | (size & 0x0f);
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.push(byte | 0x80);
    byte = rest & 0x7f;
  }
  return Buffer.from([...bytes, byte]);
};
