/** An object of a parsed JSON text. */
export type JsonObject = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * The limits for a JSON text from outside. Limiting the bytes is not enough: `{"a":1,"b":1,...}` costs ten times as
 * much as a string.
 */
export interface JsonLimits {
  /** Members of all objects and elements of all arrays. */
  readonly values: number;
  /** Nesting depth of objects and arrays. */
  readonly depth: number;
}

/** The text exceeds a limit. It was not parsed. */
export class JsonLimitError extends Error {
  override readonly name = 'JsonLimitError';
}

/**
 * Parses JSON after checking the limits. The check takes a few milliseconds per megabyte.
 *
 * @throws JsonLimitError, or SyntaxError as `JSON.parse` does
 */
export const parseJson = (text: string, limits: JsonLimits): unknown => {
  checkJson(text, limits);
  return JSON.parse(text);
};

/**
 * Counts commas and brackets outside of strings. Leaves invalid JSON for the parser to refuse.
 *
 * @throws JsonLimitError
 */
export const checkJson = (text: string, limits: JsonLimits): void => {
  let values = 0;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at);
        if (at < 0) return;
        break;
      case OPEN_BRACE:
      case OPEN_BRACKET:
        if (++depth > limits.depth) throw new JsonLimitError(`nests more than ${limits.depth} levels deep`);
        values++;
        break;
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--;
        break;
      case COMMA:
        values++;
        break;
    }
    if (values > limits.values) throw new JsonLimitError(`holds more than ${limits.values} values`);
  }
};

const QUOTE = '"'.charCodeAt(0);
const COMMA = ','.charCodeAt(0);
const BACKSLASH = '\\'.charCodeAt(0);
const OPEN_BRACE = '{'.charCodeAt(0);
const CLOSE_BRACE = '}'.charCodeAt(0);
const OPEN_BRACKET = '['.charCodeAt(0);
const CLOSE_BRACKET = ']'.charCodeAt(0);

/**
 * Returns the end of the string that starts at `start`: the first quote after an even number of backslashes, or -1 if
 * there is none.
 */
const endOfString = (text: string, start: number): number => {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end;
    while (text.charCodeAt(before - 1) === BACKSLASH) before--;
    if ((end - before) % 2 === 0) return end;
  }
  return -1;
};
