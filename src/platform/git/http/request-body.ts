import type { Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip } from 'node:zlib';
import { GitError } from '../git-error.ts';
import type { ServeOptions } from '../http.ts';
import { replay } from './receive-commands.ts';

// The body of a request of git: decoded, held, bounded, and read to its end.

/**
 * Limit for holding a fetch request until it is complete, before a process starts. Only requests with many thousands of
 * refs exceed it.
 */
const MAX_HELD_BYTES = 256 * 1024;
/** The limit for reading a refused push to its end, so that the client gets to reading the response. */
const MAX_DRAINED_BYTES = 256 * 1024 * 1024;
const DRAIN_TIMEOUT_MS = 60_000;

/** Decodes the `Content-Encoding` of git clients. @throws GitError `invalid` for an unsupported encoding */
export const decodedBody = (body: Readable, contentEncoding: string | undefined): Readable => {
  const encoding = contentEncoding?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') return body;
  const decoders = { gzip: createGunzip, 'x-gzip': createGunzip, br: createBrotliDecompress };
  if (!(encoding === 'gzip' || encoding === 'x-gzip' || encoding === 'br')) {
    throw new GitError('invalid', 'The content encoding is not supported');
  }
  const decoder = decoders[encoding]();
  // Uncompressed bytes or a leaving client make the decoder fail, possibly while nothing listens for errors.
  decoder.on('error', () => {});
  body.once('error', (error) => decoder.destroy(error));
  body.once('close', () => {
    if (!body.readableEnded) decoder.destroy(new Error('The request was cut off'));
  });
  return body.pipe(decoder);
};

/** Waits until the request is complete or reaches the limit. Returns it again, followed by the rest. */
export const hold = async (source: AsyncIterator<Buffer>, idleTimeoutMs: number): Promise<AsyncGenerator<Buffer>> => {
  const held: Buffer[] = [];
  let size = 0;
  let isWhole = false;
  while (!isWhole && size < MAX_HELD_BYTES) {
    const step = await unlessIdle(source.next(), idleTimeoutMs);
    if (step.done) isWhole = true;
    else {
      held.push(step.value);
      size += step.value.length;
    }
  }
  return replay(held, source);
};

/** @throws GitError `timeout` if nothing arrives for this long */
export const unlessIdle = async <T>(next: Promise<T>, idleTimeoutMs: number): Promise<T> => {
  const { promise: idle, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new GitError('timeout', 'The request did not arrive in time')), idleTimeoutMs);
  try {
    return await Promise.race([next, idle]);
  } finally {
    clearTimeout(timer);
  }
};

/**
 * Ends quietly if the body breaks off. git itself refuses an incomplete pack, and must not be killed if it has the
 * complete pack and is moving refs.
 */
export async function* untilBroken(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* source;
  } catch {
    // The client is gone. The output of git shows what it did with the input.
  }
}

export async function* limited(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let size = 0;
  for await (const chunk of source) {
    size += chunk.length;
    if (size > maxBytes) throw new GitError('too_large', 'The request is too large');
    yield chunk;
  }
}

/** Reads the rest of an unneeded request. Stops quietly if it is too long, too slow, or breaks off. */
export const drain = async (body: AsyncIterable<Buffer>, { signal }: ServeOptions): Promise<void> => {
  const read = async () => {
    let size = 0;
    for await (const chunk of body) {
      size += chunk.length;
      if (signal?.aborted || size > MAX_DRAINED_BYTES) return;
    }
  };
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, DRAIN_TIMEOUT_MS);
  // A body that breaks off means that the client is gone, so there is no reason to read on.
  await Promise.race([read().catch(() => {}), over]);
  clearTimeout(timer);
};
