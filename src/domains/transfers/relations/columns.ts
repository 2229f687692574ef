import { tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
/**
 * A column of the archive. Each is declared once, with its name in the archive, its column here, and how to read an
 * untrusted value. Export selects the declared columns and import reads them. Import ignores everything else.
 */
export interface Column {
  /** The name in the archive. */
  readonly key: string;
  /** The column in the table. */
  readonly column: string;
  /** The Postgres type of the column. */
  readonly type: string;
  /** The SQL that export selects, with `t` as the alias of the table. Null if the column is only read. */
  readonly select: string | null;
  read(value: unknown, people: People): unknown;
}

/** Maps the user ids of the archive to users here. */
export interface People {
  /** Returns the user, or the importer if the id is unknown. */
  author(sourceId: unknown): number;
  /** Returns the user, or null if the id is unknown. */
  known(sourceId: unknown): number | null;
}

export type Row = Record<string, unknown>;
export type Json = Readonly<Record<string, unknown>>;

/** A value is not acceptable. The message follows the name of the attribute, as in `title is missing`. */
export class Refused extends Error {
  override readonly name = 'RecordInvalid';
}

interface Options {
  readonly column?: string;
  readonly select?: string | null;
}

const define = (
  key: string,
  type: string,
  { column = key, select = `t.${column}` }: Options,
  read: Column['read'],
): Column => ({
  key,
  column,
  type,
  select,
  read: (value, people) => {
    try {
      return read(value, people);
    } catch (error) {
      throw error instanceof Refused ? new Refused(`${key} ${error.message}`) : error;
    }
  },
});

const MAX_TEXT = 4 * 1024 * 1024;

/** Text that may be absent. */
export const text = (key: string, { max = MAX_TEXT, ...options }: Options & { readonly max?: number } = {}): Column =>
  define(key, 'text', options, (value) => readText(value, max));

/** Text that is required. */
export const title = (key: string, { max = 255, ...options }: Options & { readonly max?: number } = {}): Column =>
  define(key, 'text', options, (value) => {
    const found = readText(value, max);
    if (found === null || found.trim() === '') throw new Refused("can't be blank");
    return found;
  });

/** Text with a default. */
export const textOr = (key: string, otherwise: string, options: Options & { readonly max?: number } = {}): Column =>
  define(key, 'text', options, (value) => readText(value, options.max ?? MAX_TEXT) ?? otherwise);

const readText = (value: unknown, max: number): string | null => {
  if (value === null || value === undefined) return null;
  if (typeof value !== 'string') throw new Refused('is not a text');
  if (isLongerThan(value, max)) throw new Refused(tooLong(max));
  return value;
};

/** A git object id. Any other value counts as absent. */
export const sha = (key: string, options: Options = {}): Column =>
  define(key, 'text', options, (value) =>
    typeof value === 'string' && /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null,
  );

/** One of the words. Other values become `otherwise`, or are refused if there is no `otherwise`. */
export const word = (
  key: string,
  words: readonly string[],
  { otherwise, ...options }: Options & { readonly otherwise?: string | null } = {},
): Column =>
  define(key, 'text', options, (value) => {
    if (typeof value === 'string' && words.includes(value)) return value;
    if (otherwise === undefined) throw new Refused('is not included in the list');
    return otherwise;
  });

const MAX_INT = 2_147_483_647;

export const readInteger = (value: unknown): number | null => {
  if (value === null || value === undefined) return null;
  const number = typeof value === 'string' && /^-?\d{1,10}$/.test(value) ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isInteger(number) || Math.abs(number) > MAX_INT)
    throw new Refused('is not a number');
  return number;
};

export const integer = (key: string, options: Options = {}): Column =>
  define(key, 'integer', options, (value) => readInteger(value));

export const integerOr = (key: string, otherwise: number, options: Options = {}): Column =>
  define(key, 'integer', options, (value) => readInteger(value) ?? otherwise);

/** Far below the largest integer, so that an archive cannot use up the numbers of a project. */
const MAX_IID = 1_000_000_000;

/** Reads the number of an item within its project. Null if it is absent. @throws Refused */
const readIid = (value: unknown): number | null => {
  const number = readInteger(value);
  if (number !== null && (number < 1 || number > MAX_IID)) throw new Refused(`must be from 1 to ${MAX_IID}`);
  return number;
};

/** Returns the number of an item, or null if it is absent or not usable. */
export const usableIid = (value: unknown): number | null => {
  try {
    return readIid(value);
  } catch (error) {
    if (error instanceof Refused) return null;
    throw error;
  }
};

/** The number of an item within its project. */
export const iid = (): Column =>
  define('iid', 'integer', {}, (value) => {
    const number = readIid(value);
    if (number === null) throw new Refused("can't be blank");
    return number;
  });

/** The number of an item within its project, which older archives lack. */
export const iidIfAny = (): Column => define('iid', 'integer', {}, readIid);

export const decimal = (key: string, options: Options = {}): Column =>
  define(key, 'double precision', options, (value) => {
    if (value === null || value === undefined) return null;
    const number = typeof value === 'string' ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isFinite(number)) throw new Refused('is not a number');
    return number;
  });

/** A boolean. Null and absent become `otherwise`. */
export const flag = (
  key: string,
  { otherwise = false, ...options }: Options & { readonly otherwise?: boolean | null } = {},
): Column =>
  define(key, 'boolean', options, (value) => {
    if (value === null || value === undefined) return otherwise;
    if (value === true || value === 1 || value === 'true') return true;
    if (value === false || value === 0 || value === 'false') return false;
    throw new Refused('is not a boolean');
  });

const TIME = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?: ?(?:Z|UTC|[+-]\d\d(?::?\d\d)?))?)?$/;

export const readTime = (value: unknown): string | null => {
  if (value === null || value === undefined) return null;
  if (typeof value !== 'string' || !TIME.test(value) || value.startsWith('0000')) throw new Refused('is not a time');
  // Postgres parses the text itself. `Date` only checks that the time exists.
  if (Number.isNaN(Date.parse(value.replace(/(:\d\d.*[+-]\d\d)$/, '$1:00')))) throw new Refused('is not a time');
  return value;
};

export const time = (key: string, options: Options = {}): Column =>
  define(key, 'timestamptz', options, (value) => readTime(value));

/** A required time. Defaults to the time of the import. */
export const moment = (key: string, options: Options = {}): Column =>
  define(key, 'timestamptz', options, (value) => readTime(value) ?? new Date().toISOString());

export const day = (key: string, options: Options = {}): Column =>
  define(key, 'date', options, (value) => readTime(value)?.slice(0, 10) ?? null);

/** A required user. The importer stands in for unknown users. */
export const author = (key: string, options: Options = {}): Column =>
  define(key, 'bigint', options, (value, people) => people.author(value));

/** An optional user. The importer stands in for unknown users. */
export const actor = (key: string, options: Options = {}): Column =>
  define(key, 'bigint', options, (value, people) =>
    value === null || value === undefined ? null : people.author(value),
  );

const MAX_JSON = 1024 * 1024;

/** An object that is stored as JSON in the archive. */
export const object = (key: string, otherwise: string, options: Options = {}): Column =>
  define(key, 'jsonb', options, (value) => {
    if (typeof value !== 'object' || value === null) return otherwise;
    const json = JSON.stringify(value);
    if (json.length > MAX_JSON) throw new Refused('is too large');
    return json;
  });

/** An object that is stored as a string of JSON in the archive. */
export const jsonText = (key: string, options: Options = {}): Column =>
  define(key, 'jsonb', { select: `t.${options.column ?? key}::text`, ...options }, (value) => {
    if (value === null || value === undefined || value === '') return null;
    const json = typeof value === 'string' ? value : JSON.stringify(value);
    if (json.length > MAX_JSON) throw new Refused('is too large');
    let parsed: unknown;
    try {
      parsed = JSON.parse(json);
    } catch {
      // Older archives have YAML here, which is not supported.
      return null;
    }
    return typeof parsed === 'object' && parsed !== null ? storableJson(JSON.stringify(parsed)) : null;
  });

/** Returns null for JSON that jsonb rejects: NUL characters and unpaired surrogates in strings. */
const storableJson = (json: string): string | null => (/\\u0000|\\ud[89a-f]/i.test(json) ? null : json);

/** A column that is only exported. The relation reads it itself, if at all. */
export const exported = (key: string, select: string): Column => ({
  key,
  column: '',
  type: '',
  select,
  read: () => undefined,
});

/** Reads the declared columns of a line. @throws Refused */
export const readRow = (columns: readonly Column[], line: Json, people: People): Row => {
  const row: Row = {};
  for (const { column, key, read } of columns) if (column !== '') row[column] = read(line[key], people);
  return row;
};

/** Returns the columns for a select: `t.iid as "iid", ...`. */
export const selectColumns = (columns: readonly Column[]): string =>
  columns.flatMap(({ key, select }) => (select === null ? [] : [`${select} as "${key}"`])).join(', ');

/** Returns the type of each column, for `insertRows`. */
export const typesOf = (
  columns: readonly Column[],
  more: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(columns.filter(({ column }) => column !== '').map(({ column, type }) => [column, type])),
  ...more,
});

/** Returns the items of the list at a key, or no items if it is not a list. */
export const objectsIn = (line: Json, key: string): readonly unknown[] => {
  const found = line[key];
  return Array.isArray(found) ? found : [];
};
