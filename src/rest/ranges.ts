import type { IncomingHttpHeaders } from 'node:http';

/** The first and the last byte, both included. */
export interface Part {
  readonly start: number;
  readonly end: number;
}

const ONE = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i;

/**
 * The part of a file of `size` bytes that `Range` asks for (RFC 9110 §14.2): null for the whole of it, also where several
 * parts are asked for or the file is another than the one that `If-Range` names; `outside` where it has no such bytes.
 */
export const wantedPart = (
  { range, 'if-range': ifRange }: IncomingHttpHeaders,
  size: number,
  etag: string | undefined,
): Part | 'outside' | null => {
  const [, first = '', last = ''] = ONE.exec(range ?? '') ?? [];
  if (first === '' && last === '') return null;
  if (ifRange !== undefined && (ifRange !== etag || etag?.startsWith('W/'))) return null;
  if (first === '') {
    const length = Math.min(Number(last), size);
    return length === 0 ? 'outside' : { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return null;
  return start >= size ? 'outside' : { start, end };
};
