import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseAnyYaml } from '#domains/ci-config/large-yaml.ts';
import { fromJson, Reference, toJson, type Value } from '#domains/ci-config/values.ts';
import { parseYaml, writeYaml } from '#domains/ci-config/yaml.ts';
import { computedMs } from '../support/computed-ms.ts';
import { thrownBy } from './support.ts';

const parsed = (text: string): unknown => toJson(parseYaml(text).documents[0] ?? null);
const problem = (text: string): string => thrownBy(() => parseYaml(text));

describe('YAML of CI files', () => {
  it('is read as version 1.1, and unusual numbers stay texts', () => {
    expect(parsed('a: yes\nb: off\nc: 010\nd: 0x1F\ne: 1.10\nf: null')).toEqual({
      a: true,
      b: false,
      c: 8,
      d: 31,
      e: 1.1,
      f: null,
    });
    expect(parsed('a: 1.0\nb: 1e3\nc: 08\nd: 12345678901234567890\ne: 2020-01-01\nf: y\non: push\n1.10: x')).toEqual({
      a: '1.0',
      b: '1e3',
      c: '08',
      d: '12345678901234567890',
      e: '2020-01-01',
      f: 'y',
      on: 'push',
      '1.10': 'x',
    });
  });

  it('prefers the own keys of a mapping to those of anchors and merge keys', () => {
    expect(parsed('.a: &a {x: 1, y: 2}\n.b: &b {y: 3, z: 4}\nc:\n  <<: [*a, *b]\n  x: 9')).toEqual({
      '.a': { x: 1, y: 2 },
      '.b': { y: 3, z: 4 },
      c: { x: 9, y: 2, z: 4 },
    });
    expect(problem('a: {<<: 1}')).toBe('Only mappings can be merged with << at line 1 column 5');
    expect(problem('a: *b')).toBe('Unknown alias: b at line 1 column 4');
  });

  it('reads !reference, and no other tag', () => {
    const value = parseYaml('a: !reference [b, c]').documents[0];
    expect(value).toEqual(new Map([['a', new Reference(['b', 'c'])]]));
    expect(problem('a: !ruby/object:X {}')).toBe('Unresolved tag: !ruby/object:X at line 1 column 4');
  });

  it('names the line and column of a mistake', () => {
    expect(problem('a:\n  - b\n c: d')).toMatch(/ at line 3 column 1$/);
    expect(problem('a: [b')).toMatch(/ at line 1 column 6$/);
    expect(problem('a:\n\t- b')).toMatch(/^Tabs are not allowed as indentation at line 2 column 1$/);
    expect(problem('{a: 1}: b')).toBe('Keys must be texts at line 1 column 1');
  });

  it('warns about a key that is given twice, and takes the last one', () => {
    const { documents, warnings } = parseYaml('a: 1\na: 2');
    expect(documents.map(toJson)).toEqual([{ a: 2 }]);
    expect(warnings).toEqual(['the key a is given twice at line 2 column 1; the last one counts']);
  });

  it('keeps keys such as __proto__ as keys', () => {
    const [document] = parseYaml('__proto__: {polluted: true}\nconstructor: {prototype: {x: 1}}').documents;
    expect(document).toBeInstanceOf(Map);
    expect(Object.keys(Object(toJson(document ?? null)))).toEqual(['__proto__', 'constructor']);
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
  });

  it('writes text that it reads again as the same values', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 3 })), (data) => {
        const value = fromJson(JSON.parse(JSON.stringify(data)));
        // Such numbers are read as texts.
        fc.pre(!JSON.stringify(data).match(/-0|e[+-]?\d|\d{16}/i));
        expect(toJson(parseYaml(writeYaml(value)).documents[0] ?? null)).toEqual(toJson(value));
      }),
      { numRuns: 300 },
    );
  });

  it('answers any text with a value or an error that has a place', () => {
    const pieces = fc.constantFrom(
      'a',
      ':',
      ' ',
      '\n',
      '- ',
      '[',
      ']',
      '{',
      '}',
      '&a ',
      '*a',
      '"',
      "'",
      '|',
      '>',
      '!reference ',
      '#',
      '<<: ',
      ',',
      '---\n',
      '\t',
      '?',
      '%',
    );
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 40 }), (parts) => {
        expect(problem(parts.join(''))).toMatch(/^$| at line \d+ column \d+$/);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('hostile YAML', () => {
  const TOO_BIG = 'The parsed YAML is too big';
  const chain = (count: number, line: (name: string, before: string) => string): string =>
    Array.from({ length: count }, (_, n) => line(`k${n + 1}`, `k${n}`)).join('\n');

  it.each([
    ['deep flow sequences', '['.repeat(100_000)],
    ['deep flow mappings', '{a: '.repeat(100_000)],
    ['deep block sequences', '- '.repeat(100_000)],
    ['deep block mappings', Array.from({ length: 200 }, (_, depth) => `${' '.repeat(depth)}a:`).join('\n')],
    ['aliases of aliases', `k0: &k0 [x]\n${chain(40, (name, before) => `${name}: &${name} [*${before}, *${before}]`)}`],
    [
      'merges of merges',
      `k0: &k0 {x: 1}\n${chain(60, (name, before) => `${name}: &${name} {<<: *${before}, y: [*${before}, *${before}]}`)}`,
    ],
    ['more than 2 MiB', `a: ${'x'.repeat(2 * 1024 * 1024)}`],
  ])('is refused: %s', (_, text) => {
    const started = computedMs();
    expect(problem(text)).toBe(TOO_BIG);
    expect(computedMs() - started).toBeLessThan(2_000);
  });

  it('is refused if an alias is inside of its own anchor', () => {
    expect(problem('a: &a [*a]')).toMatch(/^Unknown alias: a/);
    expect(problem('a: &a {<<: *a}')).toMatch(/^Unknown alias: a/);
  });

  it('of any size leaves the event loop free', async () => {
    const { signal } = new AbortController();
    const text = 'a: &a {x: !reference [b, c]}\nb: [*a, *a]\n'.concat(
      Array.from({ length: 3_000 }, (_, n) => `job${n}: [${n}]\n`).join(''),
    );
    let turns = 0;
    const timer = setInterval(() => turns++, 1);
    const large = await parseAnyYaml(text, signal);
    clearInterval(timer);
    expect(turns).toBeGreaterThan(5);
    const [root] = large.documents;
    const first: Value = (root instanceof Map && root.get('a')) || null;
    expect(first).toEqual(new Map([['x', new Reference(['b', 'c'])]]));
    expect(root instanceof Map && root.size).toBe(3_002);
    await expect(parseAnyYaml(`${text}x: [`, signal)).rejects.toThrow(/ at line \d+ column \d+$/);
    await expect(parseAnyYaml(`${text}${'- '.repeat(200)}`, signal)).rejects.toThrow();
  });
});
