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
    ? sql`(${contains(search, [...COLUMNS, 'projects.full_path'])} or ${inNamespaces(search)})`
    : contains(search, COLUMNS);

const COLUMNS = ['projects.name', 'projects.path', 'projects.description'];

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

/** An array instead of a subquery, so that the index of projects by namespace can be combined with the others. */
const inNamespaces = (search: Search): RawBuilder<unknown> =>
  sql`projects.namespace_id = any (array(select n.id from namespaces n where ${contains(search, ['n.full_name'])}))`;

export const lacksTrigrams = ({ search }: Search): boolean => !!search && !hasTrigram(search);

/**
 * Requires the character pairs of a term that lacks trigrams, so that an index can find the row (migration 0032). Add
 * it only where the search should lead to the rows: it is implied by the search itself and costs time to check.
 */
export const foundByPairs = (search: Search): RawBuilder<unknown>[] => {
  if (!lacksTrigrams(search)) return [];
  const pairs = sql`search_pairs(projects.name || ' ' || projects.full_path || ' ' || coalesce(projects.description, ''))
    @@ search_pairs_of(${slot('search')}::text)`;
  return [search.search_namespaces ? sql`(${pairs} or ${inNamespaces(search)})` : pairs];
};
