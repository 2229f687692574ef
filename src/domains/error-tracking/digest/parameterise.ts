/** Only the start of a message decides its group. */
const MAX_LINES = 2;
const MAX_LENGTH = 1_000;

/** Status codes distinguish errors, so they stay. */
const KEPT = String.raw`\b(?:status|code|http)(?:[ _]?code)?[ :=/]{1,3}\d{3}\b`;

/**
 * The parts of a message that vary between occurrences of the same error, in the order in which they are tried at each
 * position (reference: error-tracking §7). None can backtrack over more than one word.
 */
const PATTERNS = {
  email: String.raw`[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+`,
  url: String.raw`\b[a-z][a-z0-9+.-]{1,15}://[^\s"'<>)\]]+`,
  hostname: String.raw`(?<![a-z0-9.-])(?:[a-z0-9-]{1,63}\.){1,16}(?:com|net|org|io|dev|app|cloud|local|internal|localdomain)\b(?::\d+)?`,
  ip: String.raw`\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?|(?<![\w:])(?:[0-9a-f]{0,4}:){3,7}[0-9a-f]{0,4}(?![\w:])`,
  uuid: String.raw`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`,
  date: String.raw`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\b\d{1,2}/\d{1,2}/\d{2,4}\b|\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b`,
  duration: String.raw`\b\d+(?:\.\d+)?(?:ns|µs|us|ms|s|sec|secs|min|mins|h|hrs|days)\b`,
  hex: String.raw`\b0x[0-9a-f]+\b|\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{8,}\b`,
  id: String.raw`\b(?:[a-z]{2,8}_)?(?=[a-z]*\d)(?=\d*[a-z])[0-9a-z]{14,}\b`,
  float: String.raw`(?<![a-z0-9.])[-+]?\d+\.\d+(?:e[-+]?\d+)?(?![a-z0-9])`,
  int: String.raw`(?<![a-z0-9])[-+]?\d+(?![a-z0-9])`,
  quoted: String.raw`(?<==)\s?(?:"[^"\n]*"|'[^'\n]*')`,
  bool: String.raw`(?<==)\s?(?:true|false)\b`,
} as const;

const VARYING = new RegExp(
  [`(?<kept>${KEPT})`, ...Object.entries(PATTERNS).map(([name, pattern]) => `(?<${name}>${pattern})`)].join('|'),
  'gi',
);

/**
 * Returns the first two lines of a message that have text, with the values in them replaced by their kind:
 * `user 42 not found` becomes `user <int> not found`.
 */
export const parameterise = (message: string): string =>
  message
    .slice(0, MAX_LENGTH * MAX_LINES)
    .split('\n', 20)
    .map((line) => line.trim().slice(0, MAX_LENGTH))
    .filter((line) => line !== '')
    .slice(0, MAX_LINES)
    .map((line) => line.replaceAll(VARYING, replacement))
    .join('\n');

const replacement = (found: string, ...rest: readonly unknown[]): string => {
  const groups = rest.at(-1);
  if (typeof groups !== 'object' || groups === null) return found;
  const [name = 'kept'] = Object.entries(groups).find(([, text]) => text !== undefined) ?? [];
  return name === 'kept' ? found : `<${name}>`;
};
