import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { inputParser } from '#rest/input.ts';
import {
  anyHash,
  atLeastOneOf,
  boolean,
  commaList,
  date,
  dateTime,
  exclusive,
  hash,
  idOrPath,
  integer,
  list,
  oneOf,
  refusingNull,
  text,
} from '#rest/params.ts';

/** Parses a value given as `x`, and returns the result or the problem. */
const read = (schema: z.ZodType, ...given: unknown[]): unknown => {
  try {
    return inputParser({ x: schema })(given.length === 0 ? {} : { x: given[0] }).x;
  } catch (error) {
    return error instanceof Error ? `! ${error.message}` : error;
  }
};

describe('integer', () => {
  it.each([
    ['5', 5],
    [' -5 ', -5],
    [5, 5],
    ['9007199254740991', 9_007_199_254_740_991],
    ['18446744073709551616', '! x is invalid (allowed: a whole number)'],
    [1e300, '! x is invalid (allowed: a whole number)'],
    ['1.5', '! x is invalid (allowed: a whole number)'],
    [1.5, '! x is invalid (allowed: a whole number)'],
    ['0x10', '! x is invalid (allowed: a whole number)'],
    ['', '! x is missing'],
    [null, '! x is missing'],
    [true, '! x is invalid (allowed: a whole number)'],
    [['1'], '! x is invalid (allowed: a whole number)'],
    [{}, '! x is invalid (allowed: a whole number)'],
  ])('reads %j as %j', (given, expected) => {
    expect(read(integer(), given)).toBe(expected);
  });

  it('enforces its bounds', () => {
    expect(read(integer({ min: 1, max: 3 }), '0')).toBe('! x does not have a valid value (allowed: 1 to 3)');
    expect(read(integer({ min: 1, max: 3 }), '4')).toBe('! x does not have a valid value (allowed: 1 to 3)');
    expect(read(integer({ min: 1, max: 3 }), '3')).toBe(3);
  });
});

describe('absent, null and empty', () => {
  it('distinguishes null from absent only in nullable parameters', () => {
    expect(read(integer().optional())).toBeUndefined();
    expect(read(integer().optional(), '')).toBeUndefined();
    expect(read(integer().optional(), null)).toBeUndefined();
    expect(read(integer().nullish())).toBeUndefined();
    expect(read(integer().nullish(), '')).toBeNull();
    expect(read(integer().nullish(), null)).toBeNull();
    expect(read(integer().default(3), '')).toBe(3);
    expect(read(integer().describe('how many').optional(), '')).toBeUndefined();
    expect(read(integer())).toBe('! x is missing');
  });

  it('refuses null where it is told to, unless the parameter is nullable', () => {
    const blank = "! x can't be blank";
    expect(read(refusingNull(integer()).optional())).toBeUndefined();
    expect(read(refusingNull(integer()).optional(), null)).toBe(blank);
    expect(read(refusingNull(integer()).optional(), '')).toBe(blank);
    expect(read(refusingNull(boolean()).optional().describe('whether'), '')).toBe(blank);
    expect(read(refusingNull(list(text())).optional(), null)).toBe(blank);
    expect(read(refusingNull(list(text())).optional(), '')).toEqual([]);
    expect(read(refusingNull(hash({ y: refusingNull(boolean()).optional() })).optional(), { y: null })).toBe(
      "! x[y] can't be blank",
    );
    expect(read(refusingNull(integer().nullable()).optional(), '')).toBeNull();
    expect(read(refusingNull(text()).optional(), '')).toBe('');
  });

  it('keeps an empty text', () => {
    expect(read(text().optional(), '')).toBe('');
    expect(read(text().nullish(), null)).toBeNull();
    expect(read(text().optional(), null)).toBeUndefined();
  });
});

describe('boolean', () => {
  it.each(['true', 'True', 'TRUE', '1', 't', 'T', 'on', 'On', 'yes', true, 1])('reads %j as true', (given) => {
    expect(read(boolean(), given)).toBe(true);
  });
  it.each(['false', 'False', '0', 'f', 'off', 'no', 'NO', false, 0])('reads %j as false', (given) => {
    expect(read(boolean(), given)).toBe(false);
  });
  it.each(['truee', '2', [], {}, 2])('refuses %j', (given) => {
    expect(read(boolean(), given)).toBe('! x is invalid (allowed: true, false)');
  });
});

describe('text', () => {
  it.each([
    ['é', 'é'],
    [5, '5'],
    ['a\0b', '! x is invalid (allowed: a string)'],
    ['\ud800', '! x is invalid (allowed: a string)'],
    [['a'], '! x is invalid (allowed: a string)'],
    [{ a: 'b' }, '! x is invalid (allowed: a string)'],
    ['abcdef', '! x is too long (maximum is 5 characters)'],
    ['😀😀😀😀😀', '😀😀😀😀😀'],
    ['😀😀😀😀😀😀', '! x is too long (maximum is 5 characters)'],
  ])('reads %j as %j', (given, expected) => {
    expect(read(text({ max: 5 }), given)).toBe(expected);
  });
  it('enforces its pattern', () => {
    expect(read(text({ pattern: /^[a-z]+$/ }), 'A')).toBe('! x is invalid');
  });
});

describe('oneOf', () => {
  it('is case-sensitive', () => {
    expect(read(oneOf(['asc', 'desc']), 'asc')).toBe('asc');
    expect(read(oneOf(['asc', 'desc']), 'ASC')).toBe('! x does not have a valid value (allowed: asc, desc)');
    expect(read(oneOf(['asc', 'desc']).default('desc'), '')).toBe('desc');
    expect(read(oneOf(['', 'a']), '')).toBe('');
  });
});

describe('dates and times', () => {
  it.each([
    ['2024-02-29', '2024-02-29'],
    ['2023-02-29', '! x is invalid (allowed: a date, YYYY-MM-DD)'],
    ['2024-1-1', '! x is invalid (allowed: a date, YYYY-MM-DD)'],
    ['0000-01-01', '! x is invalid (allowed: a date, YYYY-MM-DD)'],
    ['2024-01-01T23:30:00-05:00', '2024-01-01'],
    ['2023-02-29T00:00:00Z', '! x is invalid (allowed: a date, YYYY-MM-DD)'],
    ['2024-01-01 or so', '! x is invalid (allowed: a date, YYYY-MM-DD)'],
    [20240101, '! x is invalid (allowed: a date, YYYY-MM-DD)'],
  ])('date reads %j as %j', (given, expected) => {
    expect(read(date(), given)).toBe(expected);
  });
  it.each([
    ['2024-01-31T10:00:00Z', '2024-01-31T10:00:00.000Z'],
    ['2024-01-31T10:00:00.123456789+02:00', '2024-01-31T08:00:00.123Z'],
    ['2024-01-31T10:00:00 02:00', '2024-01-31T08:00:00.000Z'],
    ['2024-01-31T10:00:00-0530', '2024-01-31T15:30:00.000Z'],
    ['2024-01-31 10:00', '2024-01-31T10:00:00.000Z'],
    ['2024-01-31', '2024-01-31T00:00:00.000Z'],
    ['2024-02-30T10:00:00Z', '! x is invalid (allowed: a time, ISO 8601)'],
    ['2024-01-31T25:00:00Z', '! x is invalid (allowed: a time, ISO 8601)'],
    ['0001-01-01T00:00:00+14:00', '! x is invalid (allowed: a time, ISO 8601)'],
    ['9999-12-31T23:59:59-10:00', '! x is invalid (allowed: a time, ISO 8601)'],
    ['yesterday', '! x is invalid (allowed: a time, ISO 8601)'],
    ['2024-01-31T10:00:00Z; drop', '! x is invalid (allowed: a time, ISO 8601)'],
  ])('dateTime reads %j as %j', (given, expected) => {
    expect(read(dateTime(), given)).toBe(expected);
  });
});

describe('idOrPath', () => {
  it.each([
    ['12', { id: 12 }],
    [12, { id: 12 }],
    ['group/sub/project', { path: 'group/sub/project' }],
    ['12a', { path: '12a' }],
    ['18446744073709551616', { path: '18446744073709551616' }],
    ['-1', { path: '-1' }],
    ['a\0', '! x is invalid'],
    [['a'], '! x is invalid'],
  ])('reads %j as %j', (given, expected) => {
    expect(read(idOrPath(), given)).toEqual(expected);
  });
});

describe('lists and hashes', () => {
  it.each([
    [
      ['1', '2'],
      [1, 2],
    ],
    [[1], [1]],
    ['', []],
    [[''], []],
    [[], []],
    [{ 1: '20', 0: '10' }, [10, 20]],
    ['1', '! x is invalid'],
    ['1,2', '! x is invalid'],
    [['a'], '! x is invalid (allowed: a whole number)'],
    [{ a: '1' }, '! x is invalid'],
  ])('list reads %j as %j', (given, expected) => {
    expect(read(list(integer()), given)).toEqual(expected);
  });

  it('commaList also splits at commas', () => {
    expect(read(commaList(text()), 'a, b,,c')).toEqual(['a', 'b', 'c']);
    expect(read(commaList(text()), ['a,b', 'c'])).toEqual(['a,b', 'c']);
    expect(read(commaList(text()).optional(), '')).toEqual([]);
    expect(read(commaList(text()).optional())).toBeUndefined();
  });

  it('limits its length', () => {
    expect(read(list(text(), { max: 1 }), ['a', 'b'])).toBe('! x is invalid');
  });

  it('hash coerces its known keys and ignores others', () => {
    const schema = hash({ url: text(), secure: boolean().optional(), level: integer().nullish() });
    expect(read(schema, { url: 'u', secure: 'True', level: '', other: 1 })).toEqual({
      url: 'u',
      secure: true,
      level: null,
    });
    expect(read(schema, { secure: 'x' })).toBe('! x[url] is missing, x[secure] is invalid (allowed: true, false)');
    expect(read(schema, 'u')).toBe('! x is invalid');
    expect(read(schema)).toBe('! x is missing');
    expect(read(schema.optional())).toBeUndefined();
    expect(read(schema.optional(), '')).toBeUndefined();
    expect(read(schema.optional(), {})).toBeUndefined();
    expect(read(schema.nullish(), {})).toBeNull();
    expect(read(schema, {})).toBe('! x is missing');
    expect(read(anyHash(), {})).toEqual({});
    expect(read(list(hash({ key: text() })), [{ key: 'a' }, {}])).toBe('! x[1][key] is missing');
    expect(read(anyHash(), { a: ['1'] })).toEqual({ a: ['1'] });
    expect(read(anyHash(), ['1'])).toBe('! x is invalid (allowed: a hash, x[key]=value)');
  });
});

describe('several parameters', () => {
  it('reports every problem in one sentence', () => {
    const parse = inputParser({ title: text(), state_event: oneOf(['close', 'reopen']).optional() });
    expect(() => parse({ state_event: 'x' })).toThrow(
      'title is missing, state_event does not have a valid value (allowed: close, reopen)',
    );
    expect(parse({ title: 't', unknown: [1] })).toEqual({ title: 't' });
  });

  it('supports exclusive and required sets', () => {
    const parse = inputParser({ a: text().optional(), b: integer().optional() }, [
      exclusive('a', 'b'),
      atLeastOneOf('a', 'b'),
    ]);
    expect(parse({ a: '' })).toEqual({ a: '' });
    expect(() => parse({ a: 'x', b: '1' })).toThrow('a, b are mutually exclusive');
    expect(() => parse({ b: '' })).toThrow('a, b are missing, at least one parameter must be provided');
  });

  it('reports problems of plain zod schemas in the same words', () => {
    const parse = inputParser({ mail: z.email(), kind: z.enum(['a']), size: z.int().optional() });
    expect(() => parse({ kind: 'b', size: 'x' })).toThrow(
      'mail is missing, kind does not have a valid value (allowed: a), size is invalid',
    );
  });
});
