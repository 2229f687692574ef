import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonLimitError, parseJson } from '#platform/values/json.ts';
import { computedMs } from '../support/computed-ms.ts';

const LIMITS = { values: 20_000, depth: 32 };

const depthOf = (value: unknown): number =>
  typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depthOf)) : 0;
/** Counts the commas and brackets in the JSON of a value. */
const sizeOf = (value: unknown): number => {
  if (typeof value !== 'object' || value === null) return 0;
  const below = Object.values(value);
  return Math.max(1, below.length) + below.reduce((sum: number, each) => sum + sizeOf(each), 0);
};

describe('parseJson', () => {
  it('returns the same as JSON.parse, or rejects the value as too complex', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.nat(4), fc.nat(12), (value, depth, values) => {
        const text = JSON.stringify(value);
        const fits = depthOf(value) <= depth && sizeOf(value) <= values;
        if (fits) expect(parseJson(text, { depth, values })).toEqual(JSON.parse(text));
        else expect(() => parseJson(text, { depth, values })).toThrow(JsonLimitError);
      }),
    );
  });

  it('ignores commas and brackets in strings, however they are escaped', () => {
    const text = JSON.stringify({ a: '[[[[{{{{,,,,\\', 'b"]': '\\"[', c: '\\\\' });
    expect(parseJson(text, { depth: 1, values: 3 })).toEqual(JSON.parse(text));
  });

  it('leaves invalid JSON to the parser', () => {
    for (const text of ['', '{', '"abc', '"\\', ']]]]', '{"a":1'])
      expect(() => parseJson(text, LIMITS)).toThrow(SyntaxError);
  });

  it('checks megabytes quickly', () => {
    const keys = Array.from({ length: 600_000 }, (_, n) => `"k${n}":1`).join(',');
    for (const text of [
      `{${keys}}`,
      '['.repeat(7_000_000),
      `"${'\\"'.repeat(3_000_000)}`,
      '\\'.repeat(7_000_000),
      '"'.repeat(6_999_999),
    ]) {
      const started = computedMs();
      expect(() => parseJson(text, LIMITS)).toThrow();
      expect(computedMs() - started).toBeLessThan(500);
    }
  });
});
