import { type RawBuilder, sql } from 'kysely';
import { slot } from '#platform/db/compiled.ts';
import { containing } from '#platform/db/like.ts';

/** What of a project filter says which term is searched for, and where. */
interface Search {
  readonly search?: string | null | undefined;
  readonly search_namespaces?: boolean | null | undefined;
}

/** The value for the slot `search_pattern`. */
export const searchPattern = ({ search }: Search): string | null => (search ? containing(search) : null);

/** That the term stands in the name, the path or the description of the row `projects`, or also in its full path. */
export const searchCondition = (search: Search): RawBuilder<unknown> => {
  const pattern = sql`${slot('search_pattern')}::text`;
  const columns = ['name', 'path', 'description', ...(search.search_namespaces ? ['full_path'] : [])];
  const found = sql.join(
    columns.map((column) => sql`${sql.ref(`projects.${column}`)} ilike ${pattern}`),
    sql` or `,
  );
  // Without a trigram the indexes of trigrams are read from end to end: no condition that they answer.
  return lacksTrigrams(search) ? sql`coalesce(${found}, false)` : sql`(${found})`;
};

/** Trigrams are made of words of three letters or digits; of which letters beyond ASCII depends on the database. */
export const lacksTrigrams = ({ search }: Search): boolean => !!search && !/[a-z0-9]{3}/i.test(search);

/**
 * That the row has the pairs of characters of a term that lacks trigrams: an index finds it by them (migration 0032). To be
 * added where the search is to lead to the rows, as it says no more than the search itself and takes long to find out.
 */
export const foundByPairs = (search: Search): RawBuilder<unknown>[] =>
  lacksTrigrams(search)
    ? [
        sql`search_pairs(projects.name || ' ' || projects.full_path || ' ' || coalesce(projects.description, ''))
          @@ search_pairs_of(${slot('search')}::text)`,
      ]
    : [];
