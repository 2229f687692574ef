import { isList, isMapping, type Mapping, type Value } from '../values.ts';
import { type KeyPath, readHash, textsOf } from './key-path.ts';

/** Keywords that jobs take from `default`, or from the root for the first few. */
const ROOT_DEFAULTS = ['before_script', 'after_script', 'image', 'services', 'cache'];
const DEFAULT_KEYS = [...ROOT_DEFAULTS, 'hooks', 'interruptible', 'timeout', 'retry', 'tags', 'artifacts', 'id_tokens'];

/** Returns what jobs inherit: `default`, and the older keywords at the root. */
export const readDefaults = (root: Mapping, at: KeyPath): Mapping => {
  const place = at.in('default');
  const given = root.get('default') ?? null;
  const hash = given === null ? null : readHash(given, place, [...DEFAULT_KEYS, 'identity']);
  if (hash?.has('identity')) place.refuse('identity');
  const defaults = new Map(hash);
  for (const key of ROOT_DEFAULTS) {
    const value = root.get(key);
    if (value === undefined || value === null) continue;
    if (defaults.has(key)) place.fail(`${key} is defined in top-level and \`default:\` entry`);
    defaults.set(key, value);
  }
  return defaults;
};

export interface Inheritance {
  readonly default: boolean | readonly string[];
  readonly variables: boolean | readonly string[];
}

/** Reads `inherit`: which defaults and which variables of the root reach the job. */
export const readInheritance = (value: Value | undefined, at: KeyPath): Inheritance => {
  const everything = { default: true, variables: true };
  if (value === undefined || value === null) return everything;
  const hash = isMapping(value) ? readHash(value, at, ['default', 'variables']) : at.fail('should be a hash');
  if (!hash) return everything;
  const defaults = readChoice(hash.get('default'), at.in('default'));
  const unknown = typeof defaults === 'boolean' ? [] : defaults.filter((key) => !DEFAULT_KEYS.includes(key));
  if (unknown.length > 0) at.in('default').fail(`contains unknown values: ${unknown.join(', ')}`);
  return { default: defaults, variables: readChoice(hash.get('variables'), at.in('variables')) };
};

const readChoice = (value: Value | undefined, at: KeyPath): boolean | readonly string[] => {
  if (value === undefined || value === null) return true;
  if (typeof value === 'boolean') return value;
  return (isList(value) ? textsOf(value) : null) ?? at.fail('should be a bool or array of strings') ?? true;
};

/** Returns the job with the defaults that it does not set itself. */
export const withDefaults = (job: Mapping, defaults: Mapping, inherited: Inheritance['default']): Mapping => {
  if (inherited === false) return job;
  const merged = new Map(job);
  for (const [key, value] of defaults) {
    const isInherited = inherited === true || inherited.includes(key);
    if (isInherited && (merged.get(key) ?? null) === null) merged.set(key, value);
  }
  return merged;
};
