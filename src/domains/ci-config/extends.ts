import { ConfigError } from './config-error.ts';
import { deepMerge, isList, isMapping, type Mapping, Reference, type Value } from './values.ts';

const MAX_LEVELS = 10;
/** Values that references may copy in all. They can double at each step. */
const MAX_COPIED = 200_000;
/** Entries of mappings that `extends` may make in all. A small file can make very many. */
const MAX_MERGED = 1_000_000;
const TOO_BIG = 'The parsed YAML is too big';

/**
 * Merges each job with those that it extends. Mappings are merged, lists replaced, and later parents win.
 *
 * @throws ConfigError for unknown parents and circles, and for too many values
 */
export const resolveExtends = (root: Mapping): Mapping => {
  const done = new Map<string, Mapping>();
  let entries = 0;
  const count = (more: number): void => {
    entries += more;
    if (entries > MAX_MERGED) throw new ConfigError(TOO_BIG);
  };
  const resolve = (name: string, job: Mapping, below: readonly string[]): Mapping => {
    const before = done.get(name);
    if (before) return before;
    const parents = parentsOf(name, job);
    if (parents.length === 0) return job;
    if (below.includes(name)) throw new ConfigError(`${name}: circular dependency detected in \`extends\``);
    if (below.length > MAX_LEVELS) {
      throw new ConfigError(`${name}: nesting too deep in \`extends\` (maximum is ${MAX_LEVELS} levels)`);
    }
    const unknown = parents.filter((parent) => !isMapping(root.get(parent)));
    const missing = unknown.filter((parent) => !root.has(parent));
    if (missing.length > 0) throw new ConfigError(`${name}: unknown keys in \`extends\` (${missing.join(', ')})`);
    if (unknown.length > 0)
      throw new ConfigError(`${name}: invalid base hashes in \`extends\` (${unknown.join(', ')})`);
    let merged: Mapping = new Map();
    for (const parent of parents) {
      const base = root.get(parent);
      if (isMapping(base)) merged = deepMerge(merged, resolve(parent, base, [...below, name]), count);
    }
    const own = new Map(deepMerge(merged, job, count));
    own.delete('extends');
    done.set(name, own);
    return own;
  };
  return new Map([...root].map(([name, value]) => [name, isMapping(value) ? resolve(name, value, []) : value]));
};

const parentsOf = (name: string, job: Mapping): readonly string[] => {
  const given = job.get('extends') ?? null;
  if (given === null) return [];
  const parents = isList(given) ? given : [given];
  const names = parents.flatMap((each) => (typeof each === 'string' ? [each] : []));
  if (names.length !== parents.length) {
    throw new ConfigError(`jobs:${name} extends should be an array of strings or a string`.toLowerCase());
  }
  return names;
};

/** Replaces each `!reference` by what it names. @throws ConfigError if there is no such key, or for a circle */
export const resolveReferences = (root: Mapping): Mapping => {
  const done = new Map<Reference, Value>();
  let copied = 0;

  const resolve = (value: Value, chain: readonly Reference[]): Value => {
    if (++copied > MAX_COPIED) throw new ConfigError(TOO_BIG);
    if (value instanceof Reference) return referenced(value, chain);
    if (isMapping(value)) {
      let isSame = true;
      const entries = [...value].map(([key, each]) => {
        const resolved = resolve(each, chain);
        isSame &&= resolved === each;
        return [key, resolved] as const;
      });
      return isSame ? value : new Map(entries);
    }
    if (!isList(value)) return value;
    const items = value.map((each) => resolve(each, chain));
    return items.every((each, index) => each === value[index]) ? value : items;
  };

  const referenced = (reference: Reference, chain: readonly Reference[]): Value => {
    const before = done.get(reference);
    if (before !== undefined) return before;
    const shown = `!reference ${JSON.stringify(reference.path.map(String)).replaceAll('","', '", "')}`;
    if (chain.includes(reference)) throw new ConfigError(`${shown} is part of a circular chain`);
    if (chain.length >= MAX_LEVELS) {
      throw new ConfigError(`${shown} is nested too deep (maximum is ${MAX_LEVELS} levels)`);
    }
    if (reference.path.length === 0 || reference.path.some((key) => typeof key === 'object')) {
      throw new ConfigError(`${shown} is not valid`);
    }
    let found: Value | undefined = root;
    for (const key of reference.path) {
      if (found instanceof Reference) found = referenced(found, [...chain, reference]);
      found = isMapping(found) ? found.get(String(key)) : undefined;
    }
    if (found === undefined) throw new ConfigError(`${shown} could not be found`);
    const resolved = resolve(found, [...chain, reference]);
    done.set(reference, resolved);
    return resolved;
  };

  const resolved = resolve(root, []);
  return isMapping(resolved) ? resolved : root;
};
