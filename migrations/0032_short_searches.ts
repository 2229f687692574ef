import { type Kysely, sql } from 'kysely';

/**
 * Searches that the trigram indexes cannot find: terms of one or two characters, and those without three letters or digits in
 * a row, which where the database knows no other letters than ASCII are all Cyrillic, Chinese and the like. Each text is
 * taken apart into all pairs of its characters.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- In two cuts, of which the second begins a character earlier. Functions of C alone: it runs for each change of a row.
    create function search_pairs(p_text text) returns tsvector language sql immutable parallel safe as $$
      select array_to_tsvector(array_remove(
        string_to_array(regexp_replace(lower(p_text), '(..)', '\\1' || chr(1), 'g'), chr(1))
          || string_to_array(regexp_replace(' ' || lower(p_text), '(..)', '\\1' || chr(1), 'g'), chr(1)), ''))
    $$;
    -- Asks for the pairs of a term, fifty at most; for a single character as the first of any.
    create function search_pairs_of(p_term text) returns tsquery language sql immutable parallel safe as $$
      select string_agg('''' || replace(replace(substr(term, i, 2), '\\', '\\\\'), '''', '''''') || ''':*', ' & ')::tsquery
        from lower(p_term) as term, generate_series(1, least(greatest(length(term) - 1, 1), 50)) as i
    $$;
    create index projects_search_pairs on projects
      using gin (search_pairs(name || ' ' || full_path || ' ' || coalesce(description, '')));
    -- What it would tell of the pairs is not worth what it costs to gather.
    alter index projects_search_pairs alter column 1 set statistics 0;
  `.execute(db);
};
