import { z } from 'zod';
import { badParameters } from '#platform/errors.ts';
import { readBoolean } from '#platform/read-boolean.ts';
import { storableTime } from '#platform/time.ts';
import type { Parameters } from './nested.ts';
import { type FileOptions, SpooledFile } from './upload.ts';

/**
 * The kinds of parameter. Each is a zod schema that accepts every form in which v4 clients send it (conventions §3): `{
 * id: idOrPath(), title: text({ max: 255 }), weight: integer({ min: 0 }).nullish() }`.
 *
 * An absent parameter is `undefined`. Null, and for all kinds but text an empty string, mean null if the schema accepts
 * null (`.nullable()`, `.nullish()`), and absent otherwise.
 */
export type Shape = Readonly<Record<string, z.ZodType>>;
export type Input<S extends Shape> = z.output<z.ZodObject<S>>;

/** The `:id` of a project, group or user. A number is always an id, never a path. */
export type IdOrPath = { readonly id: number; readonly path?: never } | { readonly path: string; readonly id?: never };

type JsonSchema = Readonly<Record<string, unknown>>;

interface Kind {
  readonly json: JsonSchema;
  readonly emptyIsNull: boolean;
  /** The list may also be sent as `a,b`. */
  readonly commas?: true;
  readonly file?: FileOptions;
}

class Refusal {
  readonly problem: string;
  constructor(problem: string) {
    this.problem = problem;
  }
}

const INVALID = new Refusal('is invalid');
/** The message that existing tools know, plus the allowed values. */
const invalid = (allowed: string) => new Refusal(`is invalid (allowed: ${allowed})`);
const notInList = (allowed: string) => new Refusal(`does not have a valid value (allowed: ${allowed})`);

const kinds = new WeakMap<z.core.$ZodType, Kind>();

const define = <T>(kind: Kind, read: (value: unknown) => T | Refusal): z.ZodType<T> => {
  const schema = z.unknown().transform((value, ctx): T => {
    const result = value === undefined || value === null ? new Refusal('is missing') : read(value);
    if (!(result instanceof Refusal)) return result;
    ctx.issues.push({ code: 'custom', message: result.problem, input: value });
    return z.NEVER;
  });
  kinds.set(schema, kind);
  return schema;
};

const NO_TEXT = invalid('a string');
const NO_HASH = invalid('a hash, x[key]=value');

/** A string. Numbers and booleans are converted. Refuses NUL and lone surrogates, which Postgres cannot store. */
export const text = (options: { readonly max?: number; readonly pattern?: RegExp } = {}): z.ZodType<string> =>
  define(
    {
      json: {
        type: 'string',
        ...(options.max === undefined ? {} : { maxLength: options.max }),
        ...(options.pattern === undefined ? {} : { pattern: options.pattern.source }),
      },
      emptyIsNull: false,
    },
    (value) => {
      const string = scalarText(value);
      if (string === null || !isStorable(string)) return NO_TEXT;
      if (options.max !== undefined && string.length > options.max) {
        return new Refusal(`is too long (maximum is ${options.max} characters)`);
      }
      return options.pattern && !options.pattern.test(string) ? INVALID : string;
    },
  );

/** A whole number, or a string of one. */
export const integer = (options: { readonly min?: number; readonly max?: number } = {}): z.ZodType<number> => {
  const outside = notInList(rangeText(options));
  return define(
    {
      json: {
        type: 'integer',
        ...(options.min === undefined ? {} : { minimum: options.min }),
        ...(options.max === undefined ? {} : { maximum: options.max }),
      },
      emptyIsNull: true,
    },
    (value) => {
      const number = readInteger(value);
      if (number === null) return NO_INTEGER;
      const fits = number >= (options.min ?? -Infinity) && number <= (options.max ?? Infinity);
      return fits ? number : outside;
    },
  );
};

const NO_INTEGER = invalid('a whole number');

const rangeText = ({ min, max }: { readonly min?: number; readonly max?: number }): string =>
  min === undefined ? `at most ${max}` : max === undefined ? `${min} or more` : `${min} to ${max}`;

/** `true`, `1`, `t`, `on`, `yes`, `y` and their opposites, case-insensitive. */
export const boolean = (): z.ZodType<boolean> =>
  define({ json: { type: 'boolean' }, emptyIsNull: true }, (value) => {
    const text = scalarText(value);
    return (text === null ? null : readBoolean(text)) ?? NO_BOOLEAN;
  });

const NO_BOOLEAN = invalid('true, false');

/** One of the values, case-sensitive. */
export const oneOf = <const T extends string>(values: readonly T[]): z.ZodType<T> => {
  const outside = notInList(values.join(', '));
  return define(
    { json: { type: 'string', enum: [...values] }, emptyIsNull: !values.some((value) => value === '') },
    (given) => {
      const string = scalarText(given);
      return values.find((value) => value === string) ?? outside;
    },
  );
};

/** One of the numbers, or a string of one. */
export const oneOfNumbers = <const T extends number>(values: readonly T[]): z.ZodType<T> => {
  const outside = notInList(values.join(', '));
  return define({ json: { type: 'integer', enum: [...values] }, emptyIsNull: true }, (given) => {
    const number = readInteger(given);
    return number === null ? NO_INTEGER : (values.find((value) => value === number) ?? outside);
  });
};

/**
 * An existing day as `YYYY-MM-DD`. The result is a string. Some clients send times: then the result is the day as
 * written.
 */
export const date = (): z.ZodType<string> =>
  define({ json: { type: 'string', format: 'date' }, emptyIsNull: true }, (value) => {
    const day = typeof value === 'string' ? DATE_TIME.exec(value)?.[1] : undefined;
    return day !== undefined && isDay(day) ? day : NO_DATE;
  });

const NO_DATE = invalid('a date, YYYY-MM-DD');

/**
 * An ISO 8601 time. A date means its first moment, and a time without an offset is in UTC. The result looks like
 * `2024-01-31T10:00:00.000Z`.
 */
export const dateTime = (): z.ZodType<string> =>
  define({ json: { type: 'string', format: 'date-time' }, emptyIsNull: true }, (value) => {
    if (typeof value !== 'string') return NO_TIME;
    const parts = DATE_TIME.exec(value.trim());
    if (!parts?.[1] || !isDay(parts[1])) return NO_TIME;
    // An unescaped `+` in a query arrives as a space.
    const offset = (parts[3] ?? 'Z')
      .replace(/^ /, '+')
      .replace(/^([+-]\d\d):?(\d\d)?$/, (_, h, m) => `${h}:${m ?? '00'}`);
    return storableTime(new Date(`${parts[1]}T${parts[2] ?? '00:00:00'}${offset.toUpperCase()}`)) ?? NO_TIME;
  });

const NO_TIME = invalid('a time, ISO 8601');

/** An id or a path. A number is an id. Everything else, including a number that is too large for an id, is a path. */
export const idOrPath = (): z.ZodType<IdOrPath> =>
  define({ json: { type: ['integer', 'string'] }, emptyIsNull: true }, (value): IdOrPath | Refusal => {
    const string = scalarText(value);
    if (string === null || !isStorable(string) || string.length > MAX_PATH) return INVALID;
    const id = /^\d+$/.test(string) ? Number(string) : -1;
    return id >= 0 && Number.isSafeInteger(id) ? { id } : { path: string };
  });

/** A list: `x[]=1&x[]=2`, `x[0]=...` or a JSON array. An empty string, `x[]=` and `[]` are the empty list. */
export const list = <T extends z.ZodType>(
  item: T,
  options: { readonly max?: number; readonly commas?: boolean } = {},
) => {
  const schema = z.preprocess(
    (value) => (typeof value === 'string' && options.commas ? splitCommas(value) : toArray(value)),
    options.max === undefined ? z.array(item) : z.array(item).max(options.max),
  );
  kinds.set(schema, { json: {}, emptyIsNull: false, ...(options.commas ? { commas: true } : {}) });
  return schema;
};

/** Like `list`, but also accepts `x=1,2`. */
export const commaList = <T extends z.ZodType>(item: T, options: { readonly max?: number } = {}) =>
  list(item, { ...options, commas: true });

/** Nested parameters: `x[key]=1` or a JSON object. */
export const hash = <S extends Shape>(shape: S) => {
  const pick = picker(shape);
  const schema = z.preprocess((value) => (isObject(value) ? pick(value) : value), z.object(shape));
  kinds.set(schema, { json: {}, emptyIsNull: true });
  return schema;
};

/** A hash with arbitrary keys. Its values are returned as sent. */
export const anyHash = (): z.ZodType<Parameters> =>
  define({ json: { type: 'object', additionalProperties: true }, emptyIsNull: true }, (value) =>
    isObject(value) ? value : NO_HASH,
  );

/**
 * A file in a multipart form. It is in storage before `run` is called, and is removed afterwards unless `run` keeps it
 * (`file.keep()`).
 */
export const fileUpload = (options: FileOptions): z.ZodType<SpooledFile> =>
  define({ json: { type: 'string', format: 'binary' }, emptyIsNull: true, file: options }, (value) =>
    value instanceof SpooledFile ? value : INVALID,
  );

/**
 * A condition on several parameters. `check` returns null or the problem. `given` contains only declared parameters
 * that were sent.
 */
export interface Rule<N extends string> {
  readonly names: readonly N[];
  check(given: Parameters): string | null;
}

/** At most one of these parameters may be given. */
export const exclusive = <N extends string>(...names: readonly N[]): Rule<N> => ({
  names,
  check: (given) => {
    const present = names.filter((name) => given[name] !== undefined);
    return present.length > 1 ? `${present.join(', ')} are mutually exclusive` : null;
  },
});

/** At least one of these parameters must be given. */
export const atLeastOneOf = <N extends string>(...names: readonly N[]): Rule<N> => ({
  names,
  check: (given) =>
    names.some((name) => given[name] !== undefined)
      ? null
      : `${names.join(', ')} are missing, at least one parameter must be provided`,
});

/** Either all or none of these parameters must be given. */
export const allOrNoneOf = <N extends string>(...names: readonly N[]): Rule<N> => ({
  names,
  check: (given) => {
    const present = names.filter((name) => given[name] !== undefined);
    return present.length === 0 || present.length === names.length
      ? null
      : `${names.join(', ')} provide all or none of parameters`;
  },
});

/**
 * Compiles a shape into a parser. The parser throws a DomainError `parameters` that names every problem (conventions
 * §1).
 */
export const inputParser = <S extends Shape>(shape: S, rules: readonly Rule<string>[] = []) => {
  const pick = picker(shape);
  const schema = z.object(shape);
  return (sent: Parameters): Input<S> => {
    const given = pick(sent);
    const result = schema.safeParse(given);
    if (result.success && rules.length === 0) return result.data;
    const problems = result.success ? [] : result.error.issues.map((issue) => describeIssue(issue, given));
    for (const rule of rules) {
      const problem = rule.check(given);
      if (problem !== null) problems.push(problem);
    }
    if (result.success && problems.length === 0) return result.data;
    throw badParameters([...new Set(problems)].slice(0, MAX_PROBLEMS).join(', '));
  };
};

/** Returns the kind of a schema, through `.optional()`, `.default()`, `.nullable()` and similar wrappers. */
export const kindOf = (schema: z.core.$ZodType): Kind | undefined => {
  const { def, parent } = schema._zod;
  // `.describe()` and `.refine()` return copies that refer to the original as their parent.
  const kind = kinds.get(schema) ?? (parent && kindOf(parent));
  if (kind) return kind;
  if ('innerType' in def && def.innerType instanceof z.core.$ZodType) return kindOf(def.innerType);
  return 'in' in def && def.in instanceof z.core.$ZodType ? kindOf(def.in) : undefined;
};

const MAX_PROBLEMS = 20;
const MAX_PATH = 1_024;
const DATE_TIME =
  /^(\d{4}-\d\d-\d\d)(?:[T ]((?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?)(Z|z|[+ -](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?$/;

/** Returns a function that picks the declared parameters and applies the rules for empty values. */
const picker = (shape: Shape) => {
  const fields = Object.entries(shape).map(([name, schema]) => ({
    name,
    emptyIsNull: kindOf(schema)?.emptyIsNull ?? false,
    nullable: schema.safeParse(null).success,
  }));
  return (sent: Parameters): Parameters => {
    const given: Parameters = {};
    for (const { name, emptyIsNull, nullable } of fields) {
      let value = sent[name];
      if (value === '' && emptyIsNull) value = null;
      if (value !== undefined && (value !== null || nullable)) given[name] = value;
    }
    return given;
  };
};

const describeIssue = (issue: z.core.$ZodIssue, given: Parameters): string => {
  // Reports a bad element of a plain list as a problem of the list, as existing tools expect.
  const path = typeof issue.path.at(-1) === 'number' ? issue.path.slice(0, -1) : issue.path;
  const [first = '', ...rest] = path.map(String);
  const name = first + rest.map((part) => `[${part}]`).join('');
  if (issue.code === 'custom') return `${name} ${issue.message}`;
  const value = issue.path.reduce<unknown>(
    (at, key) => (isObject(at) || Array.isArray(at) ? Reflect.get(at, key) : undefined),
    given,
  );
  if (value === undefined || value === null) return `${name} is missing`;
  const refusal = issue.code === 'invalid_value' ? notInList(issue.values.join(', ')) : INVALID;
  return `${name} ${refusal.problem}`;
};

const isObject = (value: unknown): value is Parameters =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof SpooledFile);

const scalarText = (value: unknown): string | null =>
  typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;

const isStorable = (string: string): boolean => !string.includes('\0') && string.isWellFormed();

const readInteger = (value: unknown): number | null => {
  const number =
    typeof value === 'number'
      ? value
      : typeof value === 'string' && /^\s*[+-]?\d{1,20}\s*$/.test(value)
        ? Number(value)
        : NaN;
  return Number.isSafeInteger(number) ? number : null;
};

const isDay = (text: string): boolean => {
  // `Date` turns 30 February into a day in March.
  return storableTime(new Date(`${text}T00:00:00Z`))?.startsWith(text) ?? false;
};

const splitCommas = (value: string): string[] =>
  value === ''
    ? []
    : value
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '');

const toArray = (value: unknown): unknown => {
  if (value === '') return [];
  if (Array.isArray(value)) return value.every((item) => item === '') ? [] : value;
  // In `x[0][key]=a&x[1][key]=b` the positions only order the items.
  if (isObject(value) && Object.keys(value).every((key) => /^\d{1,9}$/.test(key))) {
    return Object.entries(value)
      .sort(([left], [right]) => Number(left) - Number(right))
      .map(([, item]) => item);
  }
  return value;
};
