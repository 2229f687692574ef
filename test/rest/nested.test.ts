import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expandJson, parseForm } from '#rest/nested.ts';
import { computedMs } from '../support/computed-ms.ts';

const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('parseForm', () => {
  it.each([
    ['', {}],
    ['a=1&b=', { a: '1', b: '' }],
    ['a', { a: '' }],
    ['a=1+2%2B3', { a: '1 2+3' }],
    ['a[]=1&a[]=2', { a: ['1', '2'] }],
    ['a[]=1&a[]=1', { a: ['1', '1'] }],
    ['a%5B%5D=1', { a: ['1'] }],
    ['not[labels]=a&not[milestone]=b', { not: { labels: 'a', milestone: 'b' } }],
    [
      'v[][key]=a&v[][value]=1&v[][key]=b&v[][value]=2',
      {
        v: [
          { key: 'a', value: '1' },
          { key: 'b', value: '2' },
        ],
      },
    ],
    ['v[0][key]=a&v[0][value]=1&v[1][key]=b', { v: { 0: { key: 'a', value: '1' }, 1: { key: 'b' } } }],
    ['v[][a][b]=1&v[][a][c]=2&v[][a][b]=3', { v: [{ a: { b: '1', c: '2' } }, { a: { b: '3' } }] }],
    ['a[b=1&[c]=2&a[b]c=3', { 'a[b': '1', '[c]': '2', 'a[b]c': '3' }],
    ['__proto__=1&__proto__[x]=2&a[__proto__][x]=3&b=4', { b: '4' }],
    ['constructor=1&toString=2', { constructor: '1', toString: '2' }],
  ])('reads %s', (text, expected) => {
    expect(plain(parseForm(text))).toEqual(expected);
    expect(Object.getPrototypeOf({})).not.toHaveProperty('x');
  });

  it.each([
    ['a=1&a=2', 'a is given more than once'],
    ['a=1&b=2&a=1', 'a is given more than once'],
    ['a[b]=1&a[b]=1', 'a[b] is given more than once'],
    ['a[b]=1&a[b]=2', 'a[b] is given more than once'],
    ['a=1&a=', 'a is given more than once'],
    ['a=1&a[]=2', 'a[] is invalid'],
    ['a[]=1&a[b]=2', 'a[b] is invalid'],
    ['a=%zz', 'the parameters are not properly URL-encoded'],
    ['a=%ff', 'the parameters are not properly URL-encoded'],
    [`a${'[b]'.repeat(9)}=1`, 'a parameter nests too deeply'],
    ['a=&'.repeat(1_001), 'too many parameters'],
  ])('refuses %s', (text, problem) => {
    expect(() => parseForm(text)).toThrow(problem);
  });

  it.each([
    ['a=1&b=2&a=1', { a: '1', b: '2' }],
    ['a[b]=1&a[b]=1', { a: { b: '1' } }],
    ['a[]=1&a[]=1', { a: ['1', '1'] }],
    ['a[][k]=1&a[][k]=1', { a: [{ k: '1' }, { k: '1' }] }],
  ])('accepts the same value again in %s if it may repeat', (text, expected) => {
    expect(plain(parseForm(text, { mayRepeat: true }))).toEqual(expected);
  });

  it('refuses another value for a scalar that may repeat', () => {
    expect(() => parseForm('a=1&a=2', { mayRepeat: true })).toThrow('a is given more than once');
  });

  it('restores every nested value that was written with brackets', () => {
    const name = fc.string({ unit: fc.constantFrom('a', 'b', '_', 'é', '-'), minLength: 1, maxLength: 4 });
    const scalar = fc.string({ unit: 'binary' }).map((text) => text.toWellFormed());
    const value = fc.letrec((tie) => ({
      any: fc.oneof({ maxDepth: 4 }, scalar, fc.array(scalar, { minLength: 1, maxLength: 3 }), tie('hash')),
      hash: fc.dictionary(name, tie('any'), { minKeys: 1, maxKeys: 3 }),
    })).hash;
    fc.assert(
      fc.property(value, (written) => {
        expect(plain(parseForm(writeForm(written)))).toEqual(plain(written));
      }),
      { numRuns: 60 },
    );
  });

  it('returns parameters or throws a DomainError for any text, and quickly', () => {
    const piece = fc.constantFrom('a', '[', ']', '&', '=', '%5B', '%', '[]', '__proto__', '0', ';', '\u0000');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
        try {
          parseForm(pieces.join(''));
        } catch (error) {
          expect(error).toMatchObject({ name: 'DomainError', code: 'parameters' });
        }
      }),
      { numRuns: 500 },
    );
    const started = computedMs();
    expect(() => parseForm(`a${'['.repeat(1_000_000)}=1`)).not.toThrow();
    expect(() => parseForm('&'.repeat(1_000_000))).toThrow('too many parameters');
    expect(computedMs() - started).toBeLessThan(1_000);
  });
});

describe('expandJson', () => {
  it('expands bracketed keys and keeps the rest', () => {
    const body = { 'override_params[visibility]': 'private', overwrite: 'True', tags: ['a'], deep: { 'x[y]': 1 } };
    expect(plain(expandJson(body))).toEqual({
      override_params: { visibility: 'private' },
      overwrite: 'True',
      tags: ['a'],
      deep: { 'x[y]': 1 },
    });
    expect(plain(expandJson(undefined))).toEqual({});
  });

  it('drops __proto__ at every depth', () => {
    const body: unknown = JSON.parse('{"__proto__":{"x":1},"a":{"__proto__":{"x":1},"b":[{"__proto__":1}]}}');
    expect(plain(expandJson(body))).toEqual({ a: { b: [{}] } });
  });

  it('refuses a body that is not an object or nests too deeply', () => {
    expect(() => expandJson([1])).toThrow('body is not a JSON object');
    expect(() => expandJson('x')).toThrow('body is not a JSON object');
    expect(() => expandJson(JSON.parse(`{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}}`))).toThrow(
      'body nests too deeply',
    );
  });
});

const writeForm = (value: unknown, prefix = ''): string => {
  if (Array.isArray(value)) return value.map((item) => writeForm(item, `${prefix}[]`)).join('&');
  if (typeof value !== 'object' || value === null)
    return `${encodeURIComponent(prefix)}=${encodeURIComponent(String(value))}`;
  return Object.entries(value)
    .map(([key, each]) => writeForm(each, prefix === '' ? key : `${prefix}[${key}]`))
    .join('&');
};
