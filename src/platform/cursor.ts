import { DomainError } from './errors.ts';

/** The values of the sort columns of one row, the unique one (usually the id) last. */
export type CursorValues = readonly (string | number | boolean | null)[];

const MAX_CURSOR_LENGTH = 4_000;
const MAX_CURSOR_VALUES = 8;

/** An opaque text for a place in a sorted list: where a row stands, not how many stand before it. */
export const encodeCursor = (values: CursorValues): string => Buffer.from(JSON.stringify(values)).toString('base64url');

/**
 * Reads what `encodeCursor` wrote. The values come from outside: give `types` (one per sort column, null always
 * allowed) before they go into a statement.
 *
 * @throws DomainError `bad_request` when the text is not such a cursor, or one of another sort order.
 */
export const decodeCursor = (text: string, types?: readonly ('string' | 'number' | 'boolean')[]): CursorValues => {
  const values = text.length <= MAX_CURSOR_LENGTH ? parse(Buffer.from(text, 'base64url').toString('utf8')) : null;
  if (!isCursor(values)) throw invalidCursor();
  return types ? checkCursor(values, types) : values;
};

/** The same check for values already decoded. Throws DomainError `bad_request`. */
const checkCursor = (values: CursorValues, types: readonly ('string' | 'number' | 'boolean')[]): CursorValues => {
  const fits =
    values.length === types.length && values.every((value, i) => value === null || typeof value === types[i]);
  if (!fits) throw invalidCursor();
  return values;
};

/** Not `badRequest`, whose prefix belongs to REST bodies: both faces show this sentence. */
const invalidCursor = () => new DomainError('bad_request', 'The cursor is invalid for this list');

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
  // Postgres text can hold no NUL: it would fail in the middle of a statement.
  (typeof value === 'string' && !value.includes('\u0000'));
