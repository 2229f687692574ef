import { readDuration } from '#platform/values/durations.ts';

/** A value of a CI file. Mappings are maps, so that keys keep their order and `__proto__` is a key like any other. */
export type Value = null | boolean | number | string | Reference | readonly Value[] | Mapping;
export interface Mapping extends ReadonlyMap<string, Value> {}

/** `!reference [job, key, ...]` before it is resolved. */
export class Reference {
  readonly path: readonly Value[];

  constructor(path: readonly Value[]) {
    this.path = path;
  }
}

export const isMapping = (value: unknown): value is Mapping => value instanceof Map;
export const isList = (value: Value | undefined): value is readonly Value[] => Array.isArray(value);

export const isScalar = (value: Value | undefined): value is boolean | number | string =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';

/** Reads a duration such as `1 week` or a number of seconds. Null for anything else. */
export const readSeconds = (value: Value): number | null =>
  typeof value === 'string' || typeof value === 'number' ? readDuration(String(value)) : null;

/**
 * Returns both mappings as one. Mappings within are merged too; any other value of `over` replaces that of `under`. Calls
 * `count` with the number of entries that each mapping needs.
 */
export const deepMerge = (under: Mapping, over: Mapping, count?: (entries: number) => void): Mapping => {
  count?.(under.size + over.size);
  const merged = new Map(under);
  for (const [key, value] of over) {
    const before = merged.get(key);
    merged.set(key, isMapping(before) && isMapping(value) ? deepMerge(before, value, count) : value);
  }
  return merged;
};

/** The characters of a document. Aliases, inputs and `extends` may repeat a long text very often. */
const MAX_TEXT = 20 * 1024 * 1024;

/**
 * Returns the number of characters in the texts of the value. What occurs several times counts as often, but is looked at
 * once.
 */
const textLength = (value: Value, known: Map<unknown, number>): number => {
  if (typeof value === 'string') return value.length;
  if (value instanceof Reference) return textLength(value.path, known);
  if (!isMapping(value) && !isList(value)) return 0;
  const before = known.get(value);
  if (before !== undefined) return before;
  let length = 0;
  if (isMapping(value)) for (const [key, each] of value) length += key.length + textLength(each, known);
  else for (const each of value) length += textLength(each, known);
  known.set(value, length);
  return length;
};

/** Whether the texts of the value are too long together to be written or copied. */
export const isTooLong = (value: Value): boolean => textLength(value, new Map()) > MAX_TEXT;

/** Returns the value as JSON data. References must have been resolved. */
export const toJson = (value: Value): unknown => {
  if (isMapping(value)) return Object.fromEntries([...value].map(([key, each]) => [key, toJson(each)]));
  if (isList(value)) return value.map(toJson);
  return value instanceof Reference ? null : value;
};

/** Returns JSON data as a value. */
export const fromJson = (data: unknown): Value => {
  if (Array.isArray(data)) return data.map(fromJson);
  if (typeof data === 'object' && data !== null) {
    return new Map(Object.entries(data).map(([key, each]) => [key, fromJson(each)]));
  }
  return typeof data === 'string' || typeof data === 'number' || typeof data === 'boolean' ? data : null;
};
