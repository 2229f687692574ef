/**
 * The columns that an archive carries: each is declared once, with its name in the archive, its column, and how a value
 * from a stranger is read. Export selects them, import reads them; what is not declared is not taken.
 */
export interface Column {
  /** In the archive. */
  readonly key: string;
  /** In the table. */
  readonly column: string;
  /** Of the column, as Postgres names it. */
  readonly type: string;
  /** What export selects, of the table's alias `t`. Null: it is only read. */
  readonly select: string | null;
  read(value: unknown, people: People): unknown;
}

/** Whom the ids of the archive mean here. */
export interface People {
  /** The user, or who imports when nobody is known by that id. */
  author(sourceId: unknown): number;
  /** The user, or null. */
  known(sourceId: unknown): number | null;
}

export type Row = Record<string, unknown>;
export type Json = Readonly<Record<string, unknown>>;

/** A value cannot be taken. The message completes the name of the attribute: `title is missing`. */
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

/** Text that must be there. */
export const title = (key: string, { max = 255, ...options }: Options & { readonly max?: number } = {}): Column =>
  define(key, 'text', options, (value) => {
    const found = readText(value, max);
    if (found === null || found.trim() === '') throw new Refused("can't be blank");
    return found;
  });

/** Text with something in its place when it is absent. */
export const textOr = (key: string, otherwise: string, options: Options & { readonly max?: number } = {}): Column =>
  define(key, 'text', options, (value) => readText(value, options.max ?? MAX_TEXT) ?? otherwise);

const readText = (value: unknown, max: number): string | null => {
  if (value === null || value === undefined) return null;
  if (typeof value !== 'string') throw new Refused('is not a text');
  if (value.length > max) throw new Refused(`is too long (maximum is ${max} characters)`);
  return value;
};

/** An object id of git; anything else counts as absent. */
export const sha = (key: string, options: Options = {}): Column =>
  define(key, 'text', options, (value) =>
    typeof value === 'string' && /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(value) ? value : null,
  );

/** One of the words; what is none of them becomes `otherwise`, or is refused where that is absent. */
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

/** The number of an item within its project. */
export const iid = (): Column =>
  define('iid', 'integer', {}, (value) => {
    const number = readInteger(value);
    if (number === null || number < 1) throw new Refused('must be greater than 0');
    return number;
  });

export const decimal = (key: string, options: Options = {}): Column =>
  define(key, 'double precision', options, (value) => {
    if (value === null || value === undefined) return null;
    const number = typeof value === 'string' ? Number(value) : value;
    if (typeof number !== 'number' || !Number.isFinite(number)) throw new Refused('is not a number');
    return number;
  });

/** Null and absent are `otherwise`. */
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
  // Postgres takes the text as it is; Date only tells whether there is such a moment.
  if (Number.isNaN(Date.parse(value.replace(/(:\d\d.*[+-]\d\d)$/, '$1:00')))) throw new Refused('is not a time');
  return value;
};

export const time = (key: string, options: Options = {}): Column =>
  define(key, 'timestamptz', options, (value) => readTime(value));

/** A time that has to be there: of the import when the archive knows none. */
export const moment = (key: string, options: Options = {}): Column =>
  define(key, 'timestamptz', options, (value) => readTime(value) ?? new Date().toISOString());

export const day = (key: string, options: Options = {}): Column =>
  define(key, 'date', options, (value) => readTime(value)?.slice(0, 10) ?? null);

/** Somebody who acted: who imports stands in for those who are not known. */
export const author = (key: string, options: Options = {}): Column =>
  define(key, 'bigint', options, (value, people) => people.author(value));

/** Somebody who may have acted. */
export const actor = (key: string, options: Options = {}): Column =>
  define(key, 'bigint', options, (value, people) =>
    value === null || value === undefined ? null : people.author(value),
  );

const MAX_JSON = 1024 * 1024;

/** An object, which stands in the archive as such. */
export const object = (key: string, otherwise: string, options: Options = {}): Column =>
  define(key, 'jsonb', options, (value) => {
    if (typeof value !== 'object' || value === null) return otherwise;
    const json = JSON.stringify(value);
    if (json.length > MAX_JSON) throw new Refused('is too large');
    return json;
  });

/** An object, which stands in the archive as a text of JSON. */
export const jsonText = (key: string, options: Options = {}): Column =>
  define(key, 'jsonb', { select: `t.${options.column ?? key}::text`, ...options }, (value) => {
    if (value === null || value === undefined || value === '') return null;
    const json = typeof value === 'string' ? value : JSON.stringify(value);
    if (json.length > MAX_JSON) throw new Refused('is too large');
    let parsed: unknown;
    try {
      parsed = JSON.parse(json);
    } catch {
      // Older archives hold YAML here, which nothing reads any more.
      return null;
    }
    return typeof parsed === 'object' && parsed !== null ? storableJson(JSON.stringify(parsed)) : null;
  });

/** What jsonb does not take out of a text within a text: NUL and half a surrogate pair. */
const storableJson = (json: string): string | null => (/\\u0000|\\ud[89a-f]/i.test(json) ? null : json);

/** What was exported as it is, and is read into the row by the relation itself. */
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

/** `t.iid as "iid", ...`, for export. */
export const selectColumns = (columns: readonly Column[]): string =>
  columns.flatMap(({ key, select }) => (select === null ? [] : [`${select} as "${key}"`])).join(', ');

/** Column and type of each, for `insertRows`. */
export const typesOf = (
  columns: readonly Column[],
  more: Readonly<Record<string, string>> = {},
): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(columns.filter(({ column }) => column !== '').map(({ column, type }) => [column, type])),
  ...more,
});

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** The objects below a key; anything else that stands there is none. */
export const objectsIn = (line: Json, key: string): readonly unknown[] => {
  const found = line[key];
  return Array.isArray(found) ? found : [];
};
