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
const endsOf = (term: string): readonly [string, string] | null => {
  const characters = [...term];
  return characters.length <= CHARS ? null : [characters.slice(0, CHARS).join(''), characters.slice(-CHARS).join('')];
};

/** Trigrams need three letters or digits in a row. Which letters beyond ASCII count depends on the database. */
export const hasTrigram = (text: string): boolean => /[a-z0-9]{3}/i.test(text);

/**
 * Returns how a trigram index finds the texts that contain all words of a term: by the two ends of its longest word. All
 * words must then be checked without the index, unless the term `isWhole`: it is a single short word.
 */
export const lookupOf = (term: string) => {
  const words = wordsOf(term);
  const [longest = ''] = words.toSorted(
    (one, other) => Number(hasTrigram(other)) - Number(hasTrigram(one)) || other.length - one.length,
  );
  const ends = endsOf(longest);
  const [start, end] = ends ?? [longest, longest];
  return {
    isWhole: words.length === 1 && ends === null,
    search_start: containing(start),
    search_end: containing(end),
    search_words: words.map(containing),
  };
};

/** Requires the column to contain all words of a term. `put` places a value of `lookupOf`. */
export const containsInParts = (column: RawBuilder<unknown>, put: (name: string) => unknown): RawBuilder<unknown> =>
  // The index finds the two ends of the longest word. The concatenation keeps it from looking up the other words.
  sql`(${column} ilike ${put('search_start')}::text and ${column} ilike ${put('search_end')}::text
    and ${column} || '' ilike all (${put('search_words')}::text[]))`;
