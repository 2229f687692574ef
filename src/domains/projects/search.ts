import { type RawBuilder, sql } from 'kysely';
import { type SlotValues, slot } from '#platform/db/compiled.ts';
import { containing, containsInParts, hasTrigram, lookupOf } from '#platform/db/like.ts';

/** The parts of a project filter that define the search term and where to search. */
interface Search {
  readonly search?: string | null | undefined;
  readonly search_namespaces?: boolean | null | undefined;
}

/** Returns the values for the slots of `searchCondition`. */
export const searchPatterns = ({ search }: Search): SlotValues =>
  search ? { search_pattern: containing(search), ...lookupOf(search) } : {};

/** Returns true if a part of the term is looked up instead of the term: it is long, or has several words. */
export const isInParts = (search: Search): boolean =>
  !!search.search && !lacksTrigrams(search) && !lookupOf(search.search).isWhole;

/**
 * Requires all words of the term in one of name, path and description of the row `projects`, or also in its full path
 * or the full name of its namespace. A term that lacks trigrams is looked for as a whole.
 */
export const searchCondition = (search: Search): RawBuilder<unknown> =>
  search.search_namespaces
    ? sql`(${contains(search, WITH_PATH)} or projects.namespace_id in (select n.id from namespaces n where ${isNamed(search)}))`
    : contains(search, COLUMNS);

const COLUMNS = ['projects.name', 'projects.path', 'projects.description'];
const WITH_PATH = [...COLUMNS, 'projects.full_path'];

/** Requires the term in the full name of the namespace `n`. */
const isNamed = (search: Search): RawBuilder<unknown> => contains(search, ['n.full_name']);

const contains = (search: Search, columns: readonly string[]): RawBuilder<unknown> => {
  const pattern = sql`${slot('search_pattern')}::text`;
  const inColumn = (name: string) => {
    const column = sql.ref(name);
    return isInParts(search) ? containsInParts(column, slot) : sql`${column} ilike ${pattern}`;
  };
  const found = sql.join(columns.map(inColumn), sql` or `);
  // Without a trigram the trigram indexes would be read from end to end. `coalesce` prevents their use.
  return lacksTrigrams(search) ? sql`coalesce(${found}, false)` : sql`(${found})`;
};

export const lacksTrigrams = ({ search }: Search): boolean => !!search && !hasTrigram(search);

/**
 * Leads to the rows by an index where the search alone cannot: by the character pairs of a term that lacks trigrams
 * (migration 0032), and by the names of namespaces. Add it only where the search should lead to the rows: it is implied
 * by the search itself and costs time to check.
 */
export const foundBySearch = (search: Search): RawBuilder<unknown>[] => {
  const byPairs = lacksTrigrams(search) ? [PAIRS] : [];
  if (!search.search || !search.search_namespaces) return byPairs;
  const [own = contains(search, WITH_PATH)] = byPairs;
  return [
    sql`projects.id in (select projects.id from projects where ${own} union all
      select projects.id from namespaces n join projects on projects.namespace_id = n.id where ${isNamed(search)})`,
  ];
};

const PAIRS = sql`search_pairs(projects.name || ' ' || projects.full_path || ' ' || coalesce(projects.description, ''))
  @@ search_pairs_of(${slot('search')}::text)`;
