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
