import type { Readable, Transform } from 'node:stream';
import {
  brotliDecompressSync,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
  gunzipSync,
  inflateRawSync,
  inflateSync,
  zstdDecompressSync,
} from 'node:zlib';
import { codeOf } from '#platform/files/error-code.ts';
import { ENCODINGS, type Encoding, LINE_FEED } from './model.ts';
import { malformed, Refusal, tooLarge } from './refusal.ts';

/**
 * Reads a `Content-Encoding`. Some SDKs send an empty one for bodies that are not compressed.
 *
 * @throws Refusal 415
 */
export const readEncoding = (header: string | undefined): Encoding => {
  const name = header?.trim().toLowerCase() ?? '';
  if (name === '') return 'identity';
  const encoding = ENCODINGS.find((each) => each === (name === 'x-gzip' ? 'gzip' : name));
  if (encoding === undefined) {
    throw new Refusal(415, `the content encoding must be one of ${ENCODINGS.join(', ')}`);
  }
  return encoding;
};

/** A window of 8 MiB, which is the largest that senders may use over HTTP (RFC 9659). It is held while unpacking. */
const ZSTD_LIMITS = { [constants.ZSTD_d_windowLogMax]: 23 };

/** Unpacks a body. Null if it has more than `maxBytes`. @throws Refusal 400 if it is broken */
export const unpack = (body: Buffer, encoding: Encoding, maxBytes: number): Buffer | null => {
  try {
    return unpackers[encoding](body, { maxOutputLength: maxBytes });
  } catch (error) {
    if (isTooLong(error)) return null;
    throw broken(encoding);
  }
};

const unpackers: Readonly<Record<Encoding, (body: Buffer, options: { maxOutputLength: number }) => Buffer>> = {
  identity: (body) => body,
  gzip: (body, options) => gunzipSync(body, options),
  // The standard says zlib, but some senders leave its header out.
  deflate: (body, options) => (hasZlibHeader(body) ? inflateSync(body, options) : inflateRawSync(body, options)),
  br: (body, options) => brotliDecompressSync(body, options),
  zstd: (body, options) => zstdDecompressSync(body, { ...options, params: ZSTD_LIMITS }),
};

/**
 * Unpacks a body while it arrives, and passes its parts on.
 *
 * @throws Refusal 413 for more than `maxBytes`, before or after unpacking, and 400 if it is broken
 */
export const unpackStream = async (
  first: readonly Buffer[],
  rest: Readable | null,
  encoding: Encoding,
  limits: { readonly maxBytes: number; readonly maxUnpackedBytes: number },
  onPart: (part: Buffer) => void,
): Promise<number> => {
  let unpacked = 0;
  const take = (part: Buffer): void => {
    unpacked += part.length;
    if (unpacked > limits.maxUnpackedBytes)
      throw tooLarge(`the body unpacks to more than ${limits.maxUnpackedBytes} bytes`);
    onPart(part);
  };
  const parts = packedParts(first, rest, limits.maxBytes);
  if (encoding === 'identity') {
    for await (const part of parts) take(part);
    return unpacked;
  }
  const head = first[0];
  const transform = createUnpacker(encoding, head === undefined || hasZlibHeader(head));
  const writing = writeAll(parts, transform);
  try {
    for await (const part of transform) take(part);
    await writing;
    return unpacked;
  } catch (error) {
    // The reason why writing failed explains why reading did.
    const cause = await writing.then(
      () => error,
      (reason: unknown) => reason,
    );
    throw cause instanceof Refusal
      ? cause
      : error instanceof Refusal
        ? error
        : isAborted(cause)
          ? cause
          : broken(encoding);
  } finally {
    transform.destroy();
  }
};

/** Unpacks the first line of a body, or as much of it as `maxBytes`. @throws Refusal 400 if it is broken */
export const unpackStart = async (body: Buffer, encoding: Encoding, maxBytes: number): Promise<Buffer> => {
  if (encoding === 'identity') return body.subarray(0, maxBytes);
  const transform = createUnpacker(encoding, hasZlibHeader(body));
  transform.end(body);
  const parts: Buffer[] = [];
  let size = 0;
  try {
    for await (const part of transform) {
      parts.push(part);
      size += part.length;
      if (size >= maxBytes || part.includes(LINE_FEED)) break;
    }
  } catch {
    // The body may go on after what was read of it.
    if (size === 0) throw broken(encoding);
  } finally {
    transform.destroy();
  }
  return Buffer.concat(parts).subarray(0, maxBytes);
};

async function* packedParts(first: readonly Buffer[], rest: Readable | null, maxBytes: number): AsyncGenerator<Buffer> {
  let size = 0;
  const check = (part: Buffer): Buffer => {
    size += part.length;
    if (size > maxBytes) throw tooLarge(`the body exceeds ${maxBytes} bytes`);
    return part;
  };
  for (const part of first) yield check(part);
  if (!rest) return;
  // The request stays open for the answer.
  for await (const part of rest.iterator({ destroyOnReturn: false })) yield check(part);
}

const writeAll = async (parts: AsyncIterable<Buffer>, transform: Transform): Promise<void> => {
  try {
    for await (const part of parts) {
      if (transform.destroyed) return;
      if (!transform.write(part)) await drained(transform);
    }
    transform.end();
  } catch (error) {
    transform.destroy(error instanceof Error ? error : new Error(String(error)));
    throw error;
  }
};

const drained = (transform: Transform): Promise<void> =>
  new Promise((resolve) => {
    const done = () => {
      transform.off('drain', done).off('close', done);
      resolve();
    };
    transform.on('drain', done).on('close', done);
  });

const createUnpacker = (encoding: Exclude<Encoding, 'identity'>, zlibHeader: boolean): Transform => {
  switch (encoding) {
    case 'gzip':
      return createGunzip();
    case 'deflate':
      return zlibHeader ? createInflate() : createInflateRaw();
    case 'br':
      return createBrotliDecompress();
    case 'zstd':
      return createZstdDecompress({ params: ZSTD_LIMITS });
  }
};

/** RFC 1950: the method is 8, and the two bytes of the header are a multiple of 31. */
const hasZlibHeader = (body: Buffer): boolean =>
  body.length >= 2 && ((body[0] ?? 0) & 15) === 8 && (((body[0] ?? 0) << 8) | (body[1] ?? 0)) % 31 === 0;

const broken = (encoding: Encoding): Refusal => malformed(`the body is not valid ${encoding}`);

const isTooLong = (error: unknown): boolean => codeOf(error) === 'ERR_BUFFER_TOO_LARGE';

const isAborted = (error: unknown): boolean =>
  ['ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE'].some((code) => code === codeOf(error));
