// biome-ignore-all lint/suspicious/noTemplateCurlyInString: CI files refer to variables in this way.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { expandText, expandVariables, valuesOf } from '#domains/ci-config/variables.ts';
import { thrownBy } from './support.ts';

const VALUES: Readonly<Record<string, string>> = { A: '1', B_2: '2', EMPTY: '' };
const expand = (text: string): string => expandText(text, (name) => VALUES[name]);
const expanded = (
  variables: readonly (readonly [string, string] | { key: string; value: string; raw?: boolean; file?: boolean })[],
) =>
  expandVariables(variables.map((each) => ('key' in each ? each : { key: each[0], value: each[1] }))).map(
    ({ value }) => value,
  );

describe('expandText', () => {
  it.each([
    ['$A', '1'],
    ['${A}x', '1x'],
    ['%A%', '1'],
    ['$A$B_2', '12'],
    ['$NONE and ${NONE}', '$NONE and ${NONE}'],
    ['$$A', '$$A'],
    ['$$$A', '$$1'],
    ['[$EMPTY]', '[]'],
    ['100% sure, $5', '100% sure, $5'],
    ['${A', '${A'],
  ])('makes %s to %s', (text, result) => {
    expect(expand(text)).toBe(result);
  });
});

describe('expandVariables', () => {
  it('expands references in any order, by the last variable of a name', () => {
    expect(
      expanded([
        ['A', '$B-$C'],
        ['B', '${C}!'],
        ['C', 'x'],
        ['C', 'y'],
      ]),
    ).toEqual(['y!-y', 'y!', 'x', 'y']);
  });

  it('gives a variable that names itself the value below it', () => {
    expect(
      expanded([
        ['PATH', '/usr'],
        ['PATH', '$PATH:/bin'],
        ['ALL', '$PATH'],
      ]),
    ).toEqual(['/usr', '/usr:/bin', '/usr:/bin']);
    expect(expanded([['X', 'a$X']])).toEqual(['a$X']);
  });

  it('leaves raw and file variables alone, and references to files', () => {
    expect(
      expanded([
        { key: 'RAW', value: '$A', raw: true },
        { key: 'FILE', value: '$A', file: true },
        { key: 'A', value: '$RAW $FILE' },
      ]),
    ).toEqual(['$A', '$A', '$A $FILE']);
  });

  it('refuses circles', () => {
    expect(
      thrownBy(() =>
        expanded([
          ['A', '$B'],
          ['B', '$C'],
          ['C', '$A'],
          ['D', '$A'],
        ]),
      ),
    ).toBe('circular variable reference detected: ["A","B","C"]');
  });

  it('resolves chains of any length without recursion', () => {
    const chain = Array.from({ length: 20_000 }, (_, n) => [`V${n}`, `$V${n + 1}`] as const);
    expect(expanded([...chain, ['V20000', 'end']])[0]).toBe('end');
  });

  it('refuses values that double at each step', () => {
    const doubling = Array.from({ length: 40 }, (_, n) => [`V${n + 1}`, `$V${n}$V${n}`] as const);
    expect(thrownBy(() => expanded([['V0', 'xx'], ...doubling]))).toBe('variables expand to a text that is too long');
  });

  it('leaves nothing to expand, or finds a circle', () => {
    const name = fc.constantFrom('A', 'B', 'C', 'D');
    const value = fc.array(
      fc.oneof(
        name.map((each) => `$${each}`),
        fc.constantFrom('x', '-', '$$', '$UNKNOWN'),
      ),
      {
        maxLength: 4,
      },
    );
    fc.assert(
      fc.property(fc.uniqueArray(fc.tuple(name, value), { selector: ([key]) => key }), (pairs) => {
        const variables = pairs.map(([key, parts]) => ({ key, value: parts.join('') }));
        let result: { key: string; value: string }[];
        try {
          result = expandVariables(variables);
        } catch (error) {
          expect(String(error)).toContain('circular variable reference');
          return;
        }
        const lookup = valuesOf(result);
        // A name that refers to itself and has nothing below it stays as it is.
        for (const each of result) {
          expect(
            expandText(each.value, (other) => (each.value.includes(`$${other}`) ? undefined : lookup(other))),
          ).toBe(each.value);
        }
      }),
    );
  });
});
