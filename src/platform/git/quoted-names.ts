const ESCAPES: Readonly<Record<string, string>> = {
  a: '\u0007',
  b: '\b',
  t: '\t',
  n: '\n',
  v: '\v',
  f: '\f',
  r: '\r',
  '"': '"',
  '\\': '\\',
};
const LETTERS: ReadonlyMap<string, string> = new Map(Object.entries(ESCAPES).map(([letter, byte]) => [byte, letter]));

/** Decodes a path that git quoted because it contains quotes, backslashes, control characters or other letters. */
export const unquoteName = (name: string): string => {
  if (!name.startsWith('"') || !name.endsWith('"') || name.length < 2) return name;
  const bytes: Buffer[] = [];
  const parts = name.slice(1, -1).matchAll(/\\([0-7]{3})|\\(.)|[^\\]+/gsu);
  for (const [whole, octal, escaped] of parts) {
    if (octal !== undefined) bytes.push(Buffer.from([Number.parseInt(octal, 8) & 0xff]));
    else bytes.push(Buffer.from(escaped === undefined ? whole : (ESCAPES[escaped] ?? escaped)));
  }
  return Buffer.concat(bytes).toString('utf8');
};

/** Quotes a path as git does by default, if it contains anything but printable ASCII, or quotes or backslashes. */
export const quoteName = (name: string): string => {
  if (/^[ !#-[\]-~]*$/.test(name)) return name;
  const quoted = Array.from(Buffer.from(name), (byte) => {
    const text = String.fromCharCode(byte);
    const letter = LETTERS.get(text);
    if (letter !== undefined) return `\\${letter}`;
    return byte < 0x20 || byte >= 0x7f ? `\\${byte.toString(8).padStart(3, '0')}` : text;
  });
  return `"${quoted.join('')}"`;
};
