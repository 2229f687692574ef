/** How much a JSON text from outside may hold. Bytes alone do not bound it: `{"a":1,"b":1,...}` costs ten times what a string does. */
export interface JsonLimits {
  /** Members of all objects and items of all lists. */
  readonly values: number;
  /** Objects and lists within each other. */
  readonly depth: number;
}

/** The text holds more than it may. Nothing of it was parsed. */
export class JsonLimitError extends Error {
  override readonly name = 'JsonLimitError';
}

/**
 * Parses JSON once it is clear that it holds no more than the limits allow. Finding that out takes a few milliseconds for a
 * megabyte.
 * @throws JsonLimitError, or SyntaxError as `JSON.parse` does
 */
export const parseJson = (text: string, limits: JsonLimits): unknown => {
  checkJson(text, limits);
  return JSON.parse(text);
};

/**
 * Counts commas and brackets outside of strings. What is no JSON is left for the parser to refuse.
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

/** Where the string that begins at `start` ends: at the first quote behind an even number of backslashes. -1 where none is. */
const endOfString = (text: string, start: number): number => {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end;
    while (text.charCodeAt(before - 1) === BACKSLASH) before--;
    if ((end - before) % 2 === 0) return end;
  }
  return -1;
};
