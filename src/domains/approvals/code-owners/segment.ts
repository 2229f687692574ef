/** Tests one name of a path, without slashes. */
export interface NameTest {
  accepts(name: string): boolean;
  /** The most comparisons per character of a name. */
  readonly weight: number;
}

type Unit = string | { readonly isNegated: boolean; readonly ranges: readonly (readonly [string, string])[] } | null;

/**
 * Compiles one segment of a pattern as fnmatch reads it: `*`, `?`, `[a-z]`, `[!a-z]`, and `\` before a literal
 * character. A dot at the start is nothing special. Returns a string if the segment has no wildcards.
 *
 * Between two `*` the leftmost place always serves, so a test never goes back and takes at most the length of the name
 * times that of the longest part.
 */
export const compileSegment = (segment: string): string | NameTest => {
  const parts: Unit[][] = [[]];
  const characters = [...segment];
  for (let at = 0; at < characters.length; at += 1) {
    const character = characters[at] ?? '';
    const part = parts.at(-1) ?? [];
    if (character === '*') parts.push([]);
    else if (character === '?') part.push(null);
    else if (character === '\\') {
      at += 1;
      part.push(characters[at] ?? '\\');
    } else if (character === '[') {
      const set = setAt(characters, at);
      part.push(set ? set.unit : '[');
      at = set ? set.end : at;
    } else part.push(character);
  }
  const [first = [], ...others] = parts;
  if (others.length === 0) {
    const literal = first.every((unit) => typeof unit === 'string');
    if (literal) return first.join('');
    return {
      weight: 1,
      accepts: (name) => {
        const given = [...name];
        return given.length === first.length && fits(first, given, 0);
      },
    };
  }
  const last = others.pop() ?? [];
  const middle = others.filter((part) => part.length > 0);
  const least = [first, ...middle, last].reduce((sum, part) => sum + part.length, 0);
  const accepts = (name: string): boolean => {
    const given = [...name];
    const end = given.length - last.length;
    if (given.length < least || !fits(first, given, 0) || !fits(last, given, end)) return false;
    let at = first.length;
    for (const part of middle) {
      while (at + part.length <= end && !fits(part, given, at)) at += 1;
      if (at + part.length > end) return false;
      at += part.length;
    }
    return true;
  };
  return { accepts, weight: Math.max(1, ...middle.map((part) => part.length)) };
};

const fits = (part: readonly Unit[], name: readonly string[], at: number): boolean => {
  for (const [index, unit] of part.entries()) {
    const character = name[at + index];
    if (character === undefined) return false;
    if (unit === null) continue;
    if (typeof unit === 'string' ? unit !== character : isIn(unit.ranges, character) === unit.isNegated) return false;
  }
  return true;
};

const isIn = (ranges: readonly (readonly [string, string])[], character: string): boolean =>
  ranges.some(([from, to]) => from <= character && character <= to);

/** Reads a set such as `[a-z]`. Returns null if it does not end: then `[` is a literal character. */
const setAt = (characters: readonly string[], start: number) => {
  let at = start + 1;
  const isNegated = characters[at] === '!' || characters[at] === '^';
  if (isNegated) at += 1;
  const ranges: [string, string][] = [];
  for (let isFirst = true; at < characters.length; isFirst = false) {
    if (characters[at] === ']' && !isFirst) return { unit: { isNegated, ranges }, end: at };
    const from = literalAt(characters, at);
    at = from.next;
    if (characters[at] === '-' && characters[at + 1] !== undefined && characters[at + 1] !== ']') {
      const to = literalAt(characters, at + 1);
      ranges.push([from.character, to.character]);
      at = to.next;
    } else ranges.push([from.character, from.character]);
  }
  return null;
};

const literalAt = (characters: readonly string[], at: number) => {
  const isEscaped = characters[at] === '\\' && characters[at + 1] !== undefined;
  const place = isEscaped ? at + 1 : at;
  return { character: characters[place] ?? '', next: place + 1 };
};
