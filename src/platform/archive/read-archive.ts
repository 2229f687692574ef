import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Extract } from 'tar-stream';
import { notePassed } from '#platform/process/collect.ts';
import { ArchiveError, ArchiveLimitError } from './archive-error.ts';
import { show, toEntryName } from './entry-name.ts';

export interface ArchiveEntry {
  /** Relative, without `./`. */
  readonly name: string;
  readonly size: number;
  /** Unread content is skipped. */
  readonly stream: Readable;
}

export interface ReadArchiveOptions {
  /** The limit for the unpacked archive, including all gzip members and tar headers. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** The limit for the time spent on unpacking. Time in which `onEntry` holds back the stream does not count. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  /** Called for each file, one after the other. Its errors end the reading and are rethrown. */
  onEntry(entry: ArchiveEntry): Promise<void>;
}

/**
 * Reads an untrusted gzip-compressed tar as a stream, without touching the disk. Errors of the source pass unchanged.
 *
 * @throws ArchiveError for anything that a legitimate export does not contain: links, devices, names that lead outside,
 * duplicates, content beyond the limits, damage
 */
export const readArchive = async (
  source: Readable,
  options: ReadArchiveOptions,
): Promise<{ readonly entries: number; readonly bytes: number }> => {
  const gunzip = createGunzip({ chunkSize: 128 * 1024 });
  // The source may fail while the library is loaded. The pipeline then passes its error on.
  source.on('error', () => undefined);
  const { extract } = await import('tar-stream');
  const tar = extract();
  const names = new Set<string>();
  let failure: { readonly error: unknown } | undefined;
  let bytes = 0;
  let entries = 0;
  let unpackingMs = 0;
  let waitingSince: number | undefined;

  const fail = (error: unknown) => {
    if (failure) return;
    failure = { error };
    const reason = error instanceof Error ? error : new Error(String(error));
    gunzip.destroy(reason);
    tar.destroy(reason);
  };

  /** Feeds the tar reader and counts bytes, so that a decompression bomb is stopped early. */
  const pump = async () => {
    waitingSince = performance.now();
    for await (const chunk of gunzip) {
      bytes += chunk.length;
      if (bytes > options.maxBytes) {
        throw new ArchiveLimitError(
          'bytes',
          `The archive unpacks to more than the limit of ${options.maxBytes} bytes.`,
        );
      }
      notePassed(chunk.length);
      const hasRoom = tar.write(chunk);
      unpackingMs += performance.now() - waitingSince;
      waitingSince = undefined;
      if (!hasRoom) await drained(tar);
      if (failure) return;
      waitingSince = performance.now();
    }
    waitingSince = undefined;
    tar.end(null);
  };

  const consume = async () => {
    for await (const entry of tar) {
      // A failure of the archive reaches every open entry. Without a listener it would end the process.
      entry.on('error', () => undefined);
      if (++entries > options.maxEntries) {
        throw new ArchiveError(`The archive contains more than the limit of ${options.maxEntries} entries.`);
      }
      const { header } = entry;
      const name = toEntryName(header.name);
      if (header.type !== 'file' && header.type !== 'directory') {
        throw new ArchiveError(
          `The archive contains ${KINDS[header.type ?? ''] ?? 'an unknown kind of entry'}: ${show(name)}.`,
        );
      }
      if (header.type === 'directory' || name === '') {
        await skip(entry);
        continue;
      }
      if (names.has(name)) throw new ArchiveError(`The archive contains ${show(name)} twice.`);
      names.add(name);
      await handOver(entry, name, options.onEntry);
    }
  };

  const onAbort = () => fail(options.signal?.reason ?? new DOMException('Aborted', 'AbortError'));
  const watch = setInterval(
    () => {
      const current = waitingSince === undefined ? 0 : performance.now() - waitingSince;
      if (unpackingMs + current > options.timeoutMs)
        fail(new ArchiveLimitError('time', `The archive takes too long to unpack: more than ${options.timeoutMs} ms.`));
    },
    Math.min(250, options.timeoutMs),
  );
  options.signal?.addEventListener('abort', onAbort, { once: true });
  tar.on('error', (error) => fail(toTarError(error, entries)));
  pipeline(source, gunzip, (error) => {
    if (error) fail(toGzipError(error));
  });

  try {
    if (options.signal?.aborted) onAbort();
    await Promise.all([pump().catch((error) => fail(toGzipError(error))), consume().catch(fail)]);
  } finally {
    clearInterval(watch);
    options.signal?.removeEventListener('abort', onAbort);
    gunzip.destroy();
    tar.destroy();
    source.destroy();
  }
  if (failure) throw failure.error;
  if (entries === 0) throw new ArchiveError('The archive is empty.');
  return { entries, bytes };
};

type Entry = Extract extends AsyncIterable<infer E> ? E : never;

/**
 * Passes the entry to the caller as a Node stream. Destroying tar-stream's own stream would destroy the archive. The
 * caller therefore gets a wrapper, and the unread rest is skipped afterwards.
 */
const handOver = async (entry: Entry, name: string, onEntry: ReadArchiveOptions['onEntry']): Promise<void> => {
  const iterator = entry[Symbol.asyncIterator]();
  let pending = Promise.resolve<IteratorResult<unknown>>({ done: false, value: undefined });
  const next = () => {
    pending = iterator.next();
    return pending;
  };
  const view = async function* () {
    for (let step = await next(); !step.done; step = await next()) yield step.value;
  };
  const stream = Readable.from(view(), { objectMode: false, highWaterMark: 256 * 1024 });
  // The caller of readArchive gets failures anyway, even if onEntry no longer listens.
  stream.on('error', () => undefined);
  await onEntry({ name, size: entry.header.size ?? 0, stream });
  stream.destroy();
  for (let step = await pending; !step.done; step = await next());
};

const skip = async (entry: Entry): Promise<void> => {
  for await (const _ of entry);
};

const drained = (tar: Extract): Promise<void> =>
  new Promise((resolve) => {
    const settle = () => {
      tar.off('drain', settle).off('close', settle);
      resolve();
    };
    tar.on('drain', settle).on('close', settle);
    if (tar.destroyed) settle();
  });

const toGzipError = (error: unknown): unknown => {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code === 'Z_BUF_ERROR') return new ArchiveError('The archive is truncated.');
  if (typeof code !== 'string' || !code.startsWith('Z_')) return error;
  return error instanceof Error && error.message === 'incorrect header check'
    ? new ArchiveError('The file is not a gzip archive.')
    : new ArchiveError('The archive is damaged: its compressed data cannot be read.');
};

const toTarError = (error: Error, entries: number): Error => {
  if (error instanceof ArchiveError) return error;
  if (error.message === 'Unexpected end of data') {
    return new ArchiveError(entries === 0 ? 'The file is not a tar archive.' : 'The archive is truncated.');
  }
  if (error.message.startsWith('Invalid tar header') && entries === 0) {
    return new ArchiveError('The file is not a tar archive.');
  }
  return new ArchiveError('The archive is damaged: a tar header cannot be read.');
};

const KINDS: { readonly [type: string]: string } = {
  link: 'a hard link',
  symlink: 'a symbolic link',
  'character-device': 'a device file',
  'block-device': 'a device file',
  fifo: 'a named pipe',
};
