import { isList, type Mapping, type Value } from '../values.ts';
import type { KeyPath } from './key-path.ts';

const MAX_NESTING = 10;

/** Returns the lines of a script: a text, or lists of texts within each other. Null if absent or after an error. */
export const readScript = (hash: Mapping, key: string, at: KeyPath): readonly string[] | null => {
  const value = hash.get(key) ?? null;
  if (value === null) return null;
  const lines: string[] = [];
  if (collect(value, lines, 0)) return lines;
  return at.in(key).fail(`should be a string or a nested array of strings up to ${MAX_NESTING} levels deep`);
};

const collect = (value: Value, lines: string[], level: number): boolean => {
  if (typeof value === 'string') {
    lines.push(value);
    return true;
  }
  return isList(value) && level <= MAX_NESTING && value.every((each) => collect(each, lines, level + 1));
};
