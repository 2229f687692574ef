import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { type LineOptions, readLineBatches, readLines, writeLines } from '#platform/archive/ndjson.ts';
import { parseArchiveJson } from '#platform/archive/safe-json.ts';

const limits = { maxLineBytes: 1_000, maxDepth: 20 };

/** Yields the content in chunks of `size` bytes, so that lines and characters span chunks. */
const chunked = async function* (content: string | Buffer, size: number) {
  const bytes = Buffer.from(content);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
};
const lines = async (content: string | Buffer, options: Partial<LineOptions> = {}, size = 64_000) => {
  const found = [];
  for await (const line of readLines(chunked(content, size), { ...limits, ...options })) found.push(line);
  return found;
};

describe('readLines', () => {
  test.each([1, 2, 3, 7, 64_000])('reads the same lines from chunks of %i bytes', async (size) => {
    const found = await lines('{"a":"é€😀"}\n\n[1]\r\n\r\n"end"', {}, size);
    expect(found).toEqual([
      { index: 0, bytes: 18, value: { a: 'é€😀' } },
      { index: 2, bytes: 5, value: [1] },
      { index: 4, bytes: 5, value: 'end' },
    ]);
  });

  test('reports a bad line and continues', async () => {
    const found = await lines('{"id":1}\n{"id":\n{"id":3}\n');
    expect(found.map(({ index, error }) => [index, error])).toEqual([
      [0, undefined],
      [1, 'is not valid JSON'],
      [2, undefined],
    ]);
  });

  test.each([10, 64_000])('skips a long line without holding it in memory (chunks of %i)', async (size) => {
    const long = `"${'x'.repeat(5_000)}"`;
    const found = await lines(`1\n${long}\n2\n${long}`, {}, size);
    expect(found).toEqual([
      { index: 0, bytes: 2, value: 1 },
      { index: 1, bytes: 5_003, error: 'is longer than the limit of 1000 bytes' },
      { index: 2, bytes: 2, value: 2 },
      { index: 3, bytes: 5_002, error: 'is longer than the limit of 1000 bytes' },
    ]);
  });

  test('skips a line of 100 MB quickly and without memory', async () => {
    const piece = Buffer.alloc(1_000_000, 'x');
    const source = async function* () {
      for (let sent = 0; sent < 100; sent++) yield piece;
      yield Buffer.from('\n"after"\n');
    };
    const before = process.memoryUsage().rss;
    const found = [];
    for await (const line of readLines(source(), limits)) found.push(line);
    expect(found.map(({ error, value }) => error ?? value)).toEqual([
      'is longer than the limit of 1000 bytes',
      'after',
    ]);
    expect(process.memoryUsage().rss - before).toBeLessThan(60_000_000);
  });

  test('resumes at a line, with the same line numbers', async () => {
    const found = await lines('0\n1\nbroken\n3\n4\n', { fromIndex: 3 });
    expect(found.map(({ index, value }) => [index, value])).toEqual([
      [3, 3],
      [4, 4],
    ]);
  });

  test('yields in batches', async () => {
    const content = Array.from({ length: 1_050 }, (_, index) => index).join('\n');
    const sizes = [];
    for await (const batch of readLineBatches(chunked(content, 64_000), limits)) sizes.push(batch.length);
    expect(sizes).toEqual([500, 500, 50]);
  });
});

describe('parseArchiveJson', () => {
  const parse = (content: string, maxDepth = 20) => parseArchiveJson(Buffer.from(content), { maxDepth });

  test('limits nesting, and ignores brackets in strings', () => {
    expect(parse('['.repeat(20) + ']'.repeat(20))).toHaveProperty('value');
    expect(parse('['.repeat(21) + ']'.repeat(21))).toEqual({ error: 'is nested deeper than the limit of 20' });
    expect(parse(`${'{"a":'.repeat(21)}1${'}'.repeat(21)}`)).toHaveProperty('error');
    expect(parse('['.repeat(100_000))).toEqual({ error: 'is nested deeper than the limit of 20' });
    expect(parse(JSON.stringify('[{'.repeat(500)))).toHaveProperty('value');
    expect(parse(JSON.stringify(`\\"${'[{'.repeat(500)}`))).toHaveProperty('value');
    expect(parse(JSON.stringify(Array.from({ length: 500 }, () => [{}])))).toHaveProperty('value');
  });

  test('removes NUL and replaces lone surrogates, which Postgres refuses, and keeps surrogate pairs', () => {
    const value = parse(String.raw`{"a\u0000b":"x\u0000y","list":["\ud800","\udc00z","\ud83d\ude00"],"c":"\\u0000"}`);
    expect(value).toEqual({ value: { ab: 'xy', list: ['\ufffd', '\ufffdz', '😀'], c: '\\u0000' } });
  });

  test('drops __proto__, even if escaped', () => {
    for (const key of [
      '__proto__',
      '\\u005f_proto__',
      '__\\u0070roto__',
      '__pr\\u006Fto__',
      '__proto\\u005F_',
      '__proto__\\u0000',
    ]) {
      const { value } = { value: undefined, ...parse(`{"a":{"${key}":{"admin":true},"b":1}}`) };
      expect(value).toEqual({ a: { b: 1 } });
      expect(JSON.stringify(value)).toBe('{"a":{"b":1}}');
    }
    expect(Object.hasOwn(Object.prototype, 'admin')).toBe(false);
  });

  test('survives odd numbers and bytes', () => {
    expect(parse('18446744073709551616')).toEqual({ value: 2 ** 64 });
    expect(parse('1e999')).toEqual({ value: Number.POSITIVE_INFINITY });
    expect(parse('NaN')).toEqual({ error: 'is not valid JSON' });
    expect(parseArchiveJson(Buffer.from([0x22, 0xff, 0xfe, 0x22]), limits)).toEqual({ value: '\ufffd\ufffd' });
    expect(parseArchiveJson(Buffer.from('"a\0b"'), limits)).toEqual({ error: 'is not valid JSON' });
  });
});

test('writes objects, finished JSON and batches of both', async () => {
  const source = async function* () {
    yield { a: 1 };
    yield '{"b":"\\n"}';
    yield [{ c: 3 }, '{"d":4}'];
    yield [];
  };
  expect(await text(writeLines(source()))).toBe('{"a":1}\n{"b":"\\n"}\n{"c":3}\n{"d":4}\n');
  expect(await text(writeLines(Readable.from([])))).toBe('');
});
