/** The JSON.stringify output for the only two things that jsonb refuses: NUL and lone surrogates. */
const SUSPECT = /\\u0000|\\ud[89a-f]/;

/**
 * Returns JSON that every Postgres accepts as `jsonb`. NUL characters and lone surrogates become U+FFFD, also in keys.
 *
 * @throws TypeError if JSON cannot represent the value (cycles, bigint)
 */
export const toJsonb = (value: unknown): string => {
  const json = JSON.stringify(value) ?? 'null';
  return SUSPECT.test(json) ? JSON.stringify(clean(JSON.parse(json))) : json;
};

const clean = (value: unknown): unknown => {
  if (typeof value === 'string') return cleanText(value);
  if (Array.isArray(value)) return value.map(clean);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [cleanText(key), clean(entry)]));
};

/** Returns a text that Postgres can store. NUL characters and lone surrogates become U+FFFD. */
export const cleanText = (text: string): string => {
  const formed = text.toWellFormed();
  return formed.includes('\0') ? formed.replaceAll('\0', '\uFFFD') : formed;
};
