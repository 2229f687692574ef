import { describe, expect, it } from 'vitest';
import { interpolate, readInputs } from '#domains/ci-config/inputs.ts';
import { fromJson, toJson } from '#domains/ci-config/values.ts';
import { thrownBy } from './support.ts';

const inputsOf = (inputs: object, given: Record<string, unknown>) => readInputs(fromJson({ inputs }), given);
const problem = (inputs: object, given: Record<string, unknown>) => thrownBy(() => inputsOf(inputs, given));
const fill = (data: unknown, given: Record<string, unknown>) =>
  toJson(
    interpolate(fromJson(data), {
      inputs: new Map(Object.entries(given).map(([name, value]) => [name, fromJson(value)])),
      valueFor: (name) => (name === 'VAR' ? 'value' : null),
      isMasked: (name) => name === 'SECRET',
    }),
  );

describe('inputs', () => {
  it('have types, defaults, options and patterns', () => {
    const spec = {
      text: { default: 'x', description: 'a text' },
      count: { type: 'number' },
      flag: { type: 'boolean', default: false },
      list: { type: 'array', default: [] },
      choice: { options: ['a', 'b'] },
      version: { regex: '^v\\d+$' },
      plain: null,
    };
    expect([...inputsOf(spec, { count: 2, list: [1], choice: 'b', version: 'v1', plain: 'p' })]).toEqual([
      ['text', 'x'],
      ['count', 2],
      ['flag', false],
      ['list', [1]],
      ['choice', 'b'],
      ['version', 'v1'],
      ['plain', 'p'],
    ]);
  });

  it('are texts in push options and forms, which are read as the type of the input', () => {
    const spec = { count: { type: 'number' }, flag: { type: 'boolean' }, list: { type: 'array' }, text: null };
    const given = { count: '-2.5', flag: 'false', list: '["a", 1]', text: '3' };
    expect([...readInputs(fromJson({ inputs: spec }), given, { texts: true }).values()].map(toJson)).toEqual([
      -2.5,
      false,
      ['a', 1],
      '3',
    ]);
    for (const wrong of [{ count: '3x' }, { flag: 'yes' }, { list: '[' }, { list: '{}' }]) {
      const read = () => readInputs(fromJson({ inputs: spec }), { ...given, ...wrong }, { texts: true });
      expect(thrownBy(read)).toMatch(/input: provided value is not an? (number|boolean|array)$/);
    }
    expect(problem(spec, given)).toBe('`count` input: provided value is not a number');
  });

  it.each([
    [{ a: null }, {}, '`a` input: required value has not been provided'],
    [{}, { a: 1, b: 2 }, 'unknown input arguments: a, b'],
    [{ a: null }, { a: 1 }, '`a` input: provided value is not a string'],
    [{ a: { type: 'number' } }, { a: '1' }, '`a` input: provided value is not a number'],
    [{ a: { type: 'array' } }, { a: 'x' }, '`a` input: provided value is not an array'],
    [{ a: { type: 'boolean', default: 1 } }, {}, '`a` input: default value is not a boolean'],
    [{ a: { type: 'date' } }, { a: 'x' }, 'header:spec:inputs:a input type unknown value: date'],
    [
      { a: { options: ['x'] } },
      { a: 'y' },
      '`a` input: `y` cannot be used because it is not in the list of allowed options',
    ],
    [{ a: { regex: '^x$' } }, { a: 'y' }, '`a` input: provided value does not match required RegEx pattern'],
    [{ a: { regex: '(' } }, { a: 'y' }, '`a` input: invalid regular expression'],
    [{ a: { rules: [] } }, { a: 'y' }, 'header:spec:inputs:a:rules is not supported'],
    [{ a: { foo: 1 } }, { a: 'y' }, 'header:spec:inputs:a config contains unknown keys: foo'],
    [{ a: 'x' }, { a: 'y' }, 'header:spec:inputs:a config should be a hash'],
    [{}, { __proto__: null, constructor: 'x' }, 'unknown input arguments: constructor'],
  ])('%j with %j are refused', (spec, given, message) => {
    expect(problem(spec, given)).toBe(message);
  });

  it('fill keys and values, and keep their type where they stand alone', () => {
    const given = { name: 'a b', count: 2, list: ['x', 'y'], flag: true };
    expect(
      fill(
        {
          '$[[ inputs.name ]]-job': ['$[[inputs.count]]', 'n=$[[ inputs.count ]] $[[ inputs.flag ]]'],
          all: '$[[ inputs.list ]]',
          text: 'l=$[[ inputs.list ]]',
        },
        given,
      ),
    ).toEqual({
      'a b-job': [2, 'n=2 true'],
      all: ['x', 'y'],
      text: 'l=["x","y"]',
    });
    // A value is not filled in again.
    expect(fill('$[[ inputs.x ]]', { x: '$[[ inputs.x ]]' })).toBe('$[[ inputs.x ]]');
  });

  it('pass through functions', () => {
    expect(fill('$[[ inputs.a | expand_vars ]]', { a: '$VAR and $OTHER' })).toBe('value and $OTHER');
    expect(fill('$[[ inputs.a | truncate(1, 3) ]]', { a: 'abcdef' })).toBe('bcd');
    expect(fill('$[[ inputs.a | posix_escape ]]', { a: "a b'c" })).toBe("a\\ b\\'c");
    expect(fill('$[[ inputs.a | expand_vars | truncate(0,3) ]]', { a: '$VAR' })).toBe('val');
    expect(() => fill('$[[ inputs.a | expand_vars ]]', { a: 'x-$SECRET' })).toThrow('masked variables');
  });

  it.each([
    ['$[[ inputs.b ]]', 'unknown interpolation key: `b`'],
    ['$[[ secrets.a ]]', 'unknown interpolation provided: `secrets.a`'],
    [
      '$[[ inputs.a | shell ]]',
      'no function matching `shell`: check that the function name, arguments, and types are correct',
    ],
    [
      '$[[ inputs.a | truncate(0,1) | truncate(0,1) | truncate(0,1) | truncate(0,1) ]]',
      'too many functions in interpolation block',
    ],
    ['$[[ inputs.constructor ]]', 'unknown interpolation key: `constructor`'],
  ])('%s is refused', (text, message) => {
    expect(thrownBy(() => fill(text, { a: 'x' }))).toBe(message);
  });
});
