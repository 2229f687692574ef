import type { IncomingHttpHeaders } from 'node:http';

/** A byte range. Both ends are inclusive. */
export interface Part {
  readonly start: number;
  readonly end: number;
}

const ONE = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i;

/**
 * Returns the part of a file of `size` bytes that the `Range` header requests (RFC 9110 §14.2). Returns null for the
 * whole file, also when several ranges are requested or `If-Range` names another version of the file. Returns `outside`
 * when the range is not satisfiable.
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
