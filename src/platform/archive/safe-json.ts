export interface ArchiveJsonLimits {
  readonly maxDepth: number;
}

/**
 * Parses untrusted JSON. Limits the nesting, and makes strings valid for Postgres `text` and `jsonb` (no NUL, no lone
 * surrogates). Drops keys named `__proto__`. Numbers stay as JSON.parse reads them, so a caller that expects an integer
 * must check that it is safe. The error completes "line 3 ...".
 */
export const parseArchiveJson = (
  bytes: Buffer,
  { maxDepth }: ArchiveJsonLimits,
): { value: unknown } | { error: string } => {
  if (isTooDeep(bytes, maxDepth)) return { error: `is nested deeper than the limit of ${maxDepth}` };
  const text = bytes.toString('utf8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { error: 'is not valid JSON' };
  }
  return { value: needsCleaning(text) ? clean(value) : value };
};

/** Counts brackets first, because nearly every text has fewer than the limit. Only then looks at strings. */
const isTooDeep = (bytes: Buffer, maxDepth: number): boolean => {
  if (bytes.length <= maxDepth) return false;
  let opened = 0;
  for (let index = 0; index < bytes.length; index++) {
    // Square (0x5b) and curly (0x7b) brackets differ only in this bit.
    if (((bytes[index] ?? 0) | 0x20) === CURLY_OPEN) opened++;
  }
  return opened > maxDepth && depthOf(bytes) > maxDepth;
};

const depthOf = (bytes: Buffer): number => {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let index = 0; index < bytes.length; index++) {
    const byte = bytes[index] ?? 0;
    if (inString) {
      if (byte === BACKSLASH) index++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) {
      inString = true;
    } else if ((byte | 0x20) === CURLY_OPEN) {
      depth++;
      if (depth > deepest) deepest = depth;
    } else if ((byte | 0x20) === CURLY_CLOSE) {
      depth--;
    }
  }
  return deepest;
};

/** NUL, surrogates and a disguised `__proto__` can only come from escapes. */
const needsCleaning = (text: string): boolean =>
  (text.includes('\\u') && SUSPICIOUS_ESCAPE.test(text)) || text.includes('"__proto__"');

const SUSPICIOUS_ESCAPE = /\\u(?:0000|[dD][89a-fA-F]|005[fF]|006[fF]|007[024])/;

const clean = (value: unknown): unknown => {
  if (typeof value === 'string') return cleanText(value);
  if (Array.isArray(value)) return value.map(clean);
  if (typeof value !== 'object' || value === null) return value;
  const cleaned: { [key: string]: unknown } = {};
  for (const [rawKey, item] of Object.entries(value)) {
    const key = cleanText(rawKey);
    if (key !== '__proto__') cleaned[key] = clean(item);
  }
  return cleaned;
};

/** Removes NUL, and replaces lone surrogates. */
const cleanText = (text: string): string => text.replaceAll('\0', '').toWellFormed();

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const CURLY_OPEN = 0x7b;
const CURLY_CLOSE = 0x7d;
