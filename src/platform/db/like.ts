import { type RawBuilder, sql } from 'kysely';

/** Returns the pattern of `like` and `ilike` for texts that contain the term. Escapes special characters. */
export const containing = (term: string): string => `%${term.replace(/[\\%_]/g, '\\$&')}%`;

/** More words cost too much: such a term is looked for as a whole. */
const MOST_WORDS = 8;

/** Returns the words of a search term without spaces around it. A text must contain all of them, in any order. */
export const wordsOf = (term: string): readonly string[] => {
  const words = [...new Set(term.split(/\s+/))];
  return words.length > MOST_WORDS ? [term] : words;
};

/** Requires that one of the columns contains all words of the term. */
export const containsWords = (columns: readonly string[], term: string): RawBuilder<boolean> => {
  const patterns = wordsOf(term.trim()).map(containing);
  const inColumn = (column: string) =>
    sql.join(
      patterns.map((pattern) => sql`${sql.ref(column)} ilike ${pattern}`),
      sql` and `,
    );
  return sql<boolean>`(${sql.join(columns.map(inColumn), sql` or `)})`;
};

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
