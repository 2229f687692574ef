import { DomainError } from './errors.ts';

/** The values of the sort columns of one row, the unique one (usually the id) last. */
export type CursorValues = readonly (string | number | boolean | null)[];

const MAX_CURSOR_LENGTH = 4_000;
const MAX_CURSOR_VALUES = 8;

/** Returns an opaque cursor for a position in a sorted list: the sort values of a row, not its index. */
export const encodeCursor = (values: CursorValues): string => Buffer.from(JSON.stringify(values)).toString('base64url');

/**
 * Decodes the output of `encodeCursor`. The values come from outside: pass `types` (one per sort column, null always
 * allowed) before they go into a statement.
 *
 * @throws DomainError `bad_request` if the text is not a valid cursor, or belongs to another sort order
 */
export const decodeCursor = (text: string, types?: readonly ('string' | 'number' | 'boolean')[]): CursorValues => {
  const values = text.length <= MAX_CURSOR_LENGTH ? parse(Buffer.from(text, 'base64url').toString('utf8')) : null;
  if (!isCursor(values)) throw badCursor();
  return types ? checkCursor(values, types) : values;
};

/** Checks values that are already decoded. @throws DomainError `bad_request` */
const checkCursor = (values: CursorValues, types: readonly ('string' | 'number' | 'boolean')[]): CursorValues => {
  const fits =
    values.length === types.length && values.every((value, i) => value === null || typeof value === types[i]);
  if (!fits) throw badCursor();
  return values;
};

/** Not `badRequest`, whose prefix is for REST bodies: REST and GraphQL both show this sentence. */
export const badCursor = () => new DomainError('bad_request', 'The cursor is invalid for this list');

const parse = (json: string): unknown => {
  try {
    return JSON.parse(json);
  } catch {
    return null;
  }
};

const isCursor = (value: unknown): value is CursorValues =>
  Array.isArray(value) && value.length > 0 && value.length <= MAX_CURSOR_VALUES && value.every(isScalar);

const isScalar = (value: unknown): boolean =>
  value === null ||
  typeof value === 'boolean' ||
  (typeof value === 'number' && Number.isFinite(value)) ||
  // Postgres text cannot contain NUL; the statement would fail.
  (typeof value === 'string' && !value.includes('\u0000'));
