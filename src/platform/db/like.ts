/** Returns the pattern of `like` and `ilike` for texts that contain the term. Escapes special characters. */
export const containing = (term: string): string => `%${term.replace(/[\\%_]/g, '\\$&')}%`;

/** Longer patterns have seven trigrams or more. */
const CHARS = 8;

/**
 * Returns the terms to look up in a trigram index instead of the whole term, or null if the term is short. The whole term
 * must then be checked without the index. From seven trigrams on, Postgres reads the lists of frequent trigrams from end
 * to end, also if a rare one is among them. The two ends of a term have at most six each.
 */
export const endsOf = (term: string): readonly [string, string] | null => {
  const characters = [...term];
  return characters.length <= CHARS ? null : [characters.slice(0, CHARS).join(''), characters.slice(-CHARS).join('')];
};
