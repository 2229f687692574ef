import { isObject, type JsonObject } from '#platform/values/json.ts';

export const asObject = (value: unknown): JsonObject | null => (isObject(value) ? value : null);

/** Reads a list: SDKs send a list, `{values: [...]}` or one bare object (reference: error-tracking §6). */
export const asList = (value: unknown): readonly unknown[] => {
  if (Array.isArray(value)) return value;
  const object = asObject(value);
  if (object === null) return [];
  return Array.isArray(object.values) ? object.values : 'values' in object ? [] : [object];
};

/** Texts, numbers and booleans as text. Null for anything else. */
export const asText = (value: unknown): string | null =>
  typeof value === 'string' ? value : typeof value === 'number' || typeof value === 'boolean' ? String(value) : null;

export const asInteger = (value: unknown): number | null => {
  const number = typeof value === 'string' && /^\d{1,10}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isInteger(number) && Math.abs(number) <= MAX_INTEGER ? number : null;
};

const MAX_INTEGER = 2_147_483_647;

export const asBoolean = (value: unknown): boolean | null => (typeof value === 'boolean' ? value : null);

/** The entries of a map or of a list of pairs, which is `[[key, value]]` or `[{key, value}]`. */
export const asEntries = (value: unknown): readonly (readonly [string, unknown])[] => {
  const object = asObject(value);
  if (object) return Object.entries(object);
  if (!Array.isArray(value)) return [];
  return value.flatMap((pair: unknown) => {
    const [key, of] = Array.isArray(pair) ? pair : [asObject(pair)?.key, asObject(pair)?.value];
    const name = asText(key);
    return name === null ? [] : [[name, of] as const];
  });
};

/** Builds an object whose keys are data, without a key that some code takes for the prototype. */
export const fromEntries = <T>(entries: Iterable<readonly [string, T]>): Readonly<Record<string, T>> =>
  Object.fromEntries([...entries].filter(([key]) => key !== '__proto__'));

/**
 * Parses JSON. Some SDKs write NaN and infinities, which become null.
 *
 * @throws SyntaxError
 */
export const parseLenient = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error;
    return JSON.parse(text.replaceAll(STRING_OR_CONSTANT, (match) => (match.startsWith('"') ? match : 'null')));
  }
};

/** A string that never ends is matched up to the end of the text. Otherwise each of its quotes would be tried. */
const STRING_OR_CONSTANT = /"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|-?\b(?:NaN|Infinity)\b/gs;
