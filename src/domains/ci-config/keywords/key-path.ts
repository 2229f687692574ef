import { isList, isMapping, isScalar, type Mapping, type Value } from '../values.ts';

/** A place in the CI file, such as `jobs:test:artifacts`, that collects what is wrong there. */
export class KeyPath {
  /** Empty at the root. */
  readonly path: string;
  readonly #errors: string[];

  constructor(errors: string[], path = '') {
    this.path = path;
    this.#errors = errors;
  }

  in(key: string): KeyPath {
    return new KeyPath(this.#errors, this.path === '' ? key : `${this.path}:${key}`);
  }

  /** Adds an error in the wording that clients know: `jobs:test:script config should be a string`, in lower case. */
  fail(problem: string, attribute = 'config'): null {
    this.#errors.push(`${this.path || 'root'} ${attribute} ${problem}`.toLowerCase());
    return null;
  }

  /** Adds an error for a keyword of the reference that this product does not have. */
  refuse(keyword: string): null {
    this.#errors.push(`${this.in(keyword).path} is not supported`.toLowerCase());
    return null;
  }
}

/** Returns the value as a mapping with only these keys, or null after adding an error. */
export const readHash = (value: Value | undefined, at: KeyPath, keys?: readonly string[]): Mapping | null => {
  if (!isMapping(value)) return at.fail('should be a hash');
  const unknown = keys ? [...value.keys()].filter((key) => !keys.includes(key)) : [];
  return unknown.length > 0 ? at.fail(`contains unknown keys: ${unknown.join(', ')}`) : value;
};

/** The functions below read an attribute of a mapping. They return null if it is absent, or after adding an error. */
export const readText = (hash: Mapping, key: string, at: KeyPath): string | null => {
  const value = hash.get(key) ?? null;
  if (value === null) return null;
  if (typeof value === 'string') return value;
  return at.fail('should be a string', words(key));
};

export const readBoolean = (hash: Mapping, key: string, at: KeyPath): boolean | null => {
  const value = hash.get(key) ?? null;
  return value === null || typeof value === 'boolean' ? value : at.fail('should be a boolean value', words(key));
};

export const readOneOf = <const T extends string>(
  hash: Mapping,
  key: string,
  allowed: readonly T[],
  at: KeyPath,
): T | null => {
  const value = hash.get(key) ?? null;
  if (value === null) return null;
  return allowed.find((each) => each === value) ?? at.fail(`should be one of: ${allowed.join(', ')}`, words(key));
};

export const readTexts = (hash: Mapping, key: string, at: KeyPath): readonly string[] | null => {
  const value = hash.get(key) ?? null;
  if (value === null) return null;
  return textsOf(value) ?? at.fail('should be an array of strings', words(key));
};

export const readTextOrTexts = (hash: Mapping, key: string, at: KeyPath): readonly string[] | null => {
  const value = hash.get(key) ?? null;
  if (value === null) return null;
  if (typeof value === 'string') return [value];
  return textsOf(value) ?? at.fail('should be an array of strings or a string', words(key));
};

/** Returns the list if it holds only texts, else null. */
export const textsOf = (value: Value): readonly string[] | null =>
  isList(value) && value.every((each) => typeof each === 'string') ? value : null;

/** Returns a scalar as text, else null. */
export const scalarText = (value: Value | undefined): string | null => (isScalar(value) ? String(value) : null);

/** Attributes are named with spaces in messages. */
const words = (key: string): string => key.replaceAll('_', ' ');
