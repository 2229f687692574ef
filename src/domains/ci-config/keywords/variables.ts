import type { FileVariable } from '../model.ts';
import { isList, isMapping, isScalar, type Mapping, type Value } from '../values.ts';
import { type KeyPath, readHash, scalarText } from './key-path.ts';

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const DATA = ['value', 'description', 'options', 'expand'];

/** Reads `variables`. The root may describe variables and list options, jobs only give a value and `expand`. */
export const readVariables = (value: Value | undefined, at: KeyPath, kind: 'root' | 'job'): readonly FileVariable[] => {
  if (value === undefined || value === null) return [];
  const hash = readHash(value, at);
  if (!hash) return [];
  return [...hash].flatMap(([key, given]) => {
    const variable = readVariable(key, given, at, kind);
    return variable ? [variable] : [];
  });
};

const readVariable = (key: string, given: Value, at: KeyPath, kind: 'root' | 'job'): FileVariable | null => {
  if (!NAME.test(key)) return at.fail(`should be a hash of key value pairs: ${key} is not the name of a variable`);
  if (isScalar(given) || given === null) return { key, value: scalarText(given) ?? '', raw: false };
  if (!isMapping(given)) return at.fail('should be a hash of key value pairs');
  return readWithDescription(key, given, at.in(key), kind);
};

const readWithDescription = (key: string, given: Mapping, at: KeyPath, kind: 'root' | 'job'): FileVariable | null => {
  const unknown = [...given.keys()].filter((each) => !DATA.includes(each));
  if (unknown.length > 0) return at.fail(`contains unknown keys: ${unknown.join(', ')}`);
  if (kind === 'job') {
    const others = [...given.keys()].filter((each) => each !== 'value' && each !== 'expand');
    if (others.length > 0) return at.fail(`uses invalid data keys: ${others.join(', ')}`);
  }
  const value = given.get('value') ?? null;
  const expand = given.get('expand') ?? true;
  const options = given.get('options') ?? null;
  const description = given.get('description') ?? null;
  if (value !== null && !isScalar(value)) return at.fail('must be a scalar', 'value');
  if (typeof expand !== 'boolean') return at.fail('should be a boolean value', 'expand');
  if (description !== null && typeof description !== 'string') return at.fail('should be a string', 'description');
  if (options !== null && !(isList(options) && options.every(isScalar))) {
    return at.fail('should be an array of strings', 'options');
  }
  if (kind === 'job' && value === null) return at.fail('must be a scalar', 'value');
  if (options !== null) {
    if (value === null || !options.map(String).includes(String(value))) {
      return at.fail('value must be present in options');
    }
  }
  return { key, value: scalarText(value) ?? '', raw: !expand };
};
