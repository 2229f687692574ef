import { z } from 'zod';
import { tooLong } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { storableTime } from '#platform/time.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { readBoolean } from '#platform/values/read-boolean.ts';
import { isStorable } from '#platform/values/storable.ts';
import { picker, type Rule, type Shape } from './input.ts';
import type { Parameters } from './nested.ts';
import { define, INVALID, invalid, isObject, kindOf, kinds, notInList, Refusal } from './param-kind.ts';
import { type FileOptions, SpooledFile } from './upload.ts';

/*
 * The kinds of parameter. Each is a zod schema that accepts every form in which v4 clients send it (conventions §3): `{
 * id: idOrPath(), title: text({ max: 255 }), weight: integer({ min: 0 }).nullish() }`.
 *
 * An absent parameter is `undefined`. For all kinds but text an empty string is null (conventions §3). If the schema does
 * not accept null (`.nullable()`, `.nullish()`), null means absent, because clients send it for what they do not set.
 * `refusingNull` makes it an error instead.
 */

const NO_TEXT = invalid('a string');
const NO_HASH = invalid('a hash, x[key]=value');

interface TextOptions {
  readonly max?: number;
  readonly pattern?: RegExp;
  /** An empty text is no text, as forms send it: an optional parameter is then absent. */
  readonly emptyIsNull?: boolean;
}

/** A string. Numbers and booleans are converted. Refuses NUL and lone surrogates, which Postgres cannot store. */
export const text = (options: TextOptions = {}): z.ZodType<string> =>
  define(
    {
      json: {
        type: 'string',
        ...(options.max === undefined ? {} : { maxLength: options.max }),
        ...(options.pattern === undefined ? {} : { pattern: options.pattern.source }),
      },
      emptyIsNull: options.emptyIsNull ?? false,
    },
    (value) => {
      const string = scalarText(value);
      if (string === null || !isStorable(string)) return NO_TEXT;
      if (options.max !== undefined && isLongerThan(string, options.max)) {
        return new Refusal(tooLong(options.max));
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

/** A number, or a string of one, such as `0.5`. */
export const decimal = (): z.ZodType<number> =>
  define({ json: { type: 'number' }, emptyIsNull: true }, (value) => {
    if (typeof value === 'number') return value;
    return typeof value === 'string' && /^\s*[+-]?\d{1,20}(\.\d{1,20})?\s*$/.test(value) ? Number(value) : NO_NUMBER;
  });

const NO_NUMBER = invalid('a number');

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
  options: { readonly max?: number; readonly commas?: boolean; readonly separator?: RegExp } = {},
) => {
  const schema = z.preprocess(
    (value) => {
      if (!options.commas) return toArray(value);
      // A single number in JSON is what a single number in a form is.
      return typeof value === 'string' || typeof value === 'number'
        ? splitText(String(value), options.separator ?? ',')
        : toArray(value);
    },
    options.max === undefined ? z.array(item) : z.array(item).max(options.max),
  );
  kinds.set(schema, { json: {}, emptyIsNull: false, ...(options.commas ? { commas: true } : {}) });
  return schema;
};

/** Like `list`, but also accepts `x=1,2`. */
export const commaList = <T extends z.ZodType>(item: T, options: { readonly max?: number } = {}) =>
  list(item, { ...options, commas: true });

/** Like `commaList`, for items without spaces: `x=1 2` and lines are accepted too. */
export const wordList = <T extends z.ZodType>(item: T) => list(item, { commas: true, separator: /[\s,;]+/ });

/** Nested parameters: `x[key]=1` or a JSON object. */
export const hash = <S extends Shape>(shape: S) => {
  const pick = picker(shape);
  const schema = z.preprocess((value) => (isObject(value) ? pick(value) : value), z.object(shape));
  kinds.set(schema, { json: {}, emptyIsNull: true, emptyHashIsNull: true });
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
 * Declares an optional parameter as required in the OpenAPI document: the contract requires it, and only requests
 * beyond the contract may omit it. A rule of the route refuses the others.
 */
export const declaredRequired = <T extends z.ZodType>(schema: T): T => {
  const kind = kindOf(schema);
  const copy = schema.describe(schema.description ?? '');
  if (kind) kinds.set(copy, { ...kind, declaredRequired: true });
  return copy;
};

/** Refuses null and empty values by name. Without it, they would be ignored. */
export const refusingNull = <T extends z.ZodType>(schema: T): T => {
  const kind = kindOf(schema);
  const copy = schema.clone();
  if (kind) kinds.set(copy, { ...kind, refusesNull: true });
  return copy;
};

/** At most one of these parameters may be given. */
export const exclusive = <N extends string>(...names: readonly N[]): Rule<N> => ({
  names,
  check: (given) => {
    // Clients send null for a parameter that they do not set.
    const present = names.filter((name) => given[name] != null);
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

const MAX_PATH = 1_024;
const DATE_TIME =
  /^(\d{4}-\d\d-\d\d)(?:[T ]((?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?)(Z|z|[+ -](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?)?$/;

const scalarText = (value: unknown): string | null =>
  typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;

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

const splitText = (value: string, separator: string | RegExp): string[] =>
  value === ''
    ? []
    : value
        .split(separator)
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
