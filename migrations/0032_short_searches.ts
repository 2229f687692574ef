import { type Kysely, sql } from 'kysely';

/**
 * Searches that the trigram indexes cannot serve: terms of one or two characters, and terms without three consecutive
 * letters or digits. If the database only knows ASCII letters, the latter includes all Cyrillic, Chinese and similar
 * texts. Each text is split into all pairs of its characters.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- Splits the text twice, the second time from one character earlier. Uses only functions written in C, because it
    -- runs for each change of a row.
    create function search_pairs(p_text text) returns tsvector language sql immutable parallel safe as $$
      select array_to_tsvector(array_remove(
        string_to_array(regexp_replace(lower(p_text), '(..)', '\\1' || chr(1), 'g'), chr(1))
          || string_to_array(regexp_replace(' ' || lower(p_text), '(..)', '\\1' || chr(1), 'g'), chr(1)), ''))
    $$;
    -- Searches for the pairs of a term, at most fifty. A single character matches as the first of any pair.
    create function search_pairs_of(p_term text) returns tsquery language sql immutable parallel safe as $$
      select string_agg('''' || replace(replace(substr(term, i, 2), '\\', '\\\\'), '''', '''''') || ''':*', ' & ')::tsquery
        from lower(p_term) as term, generate_series(1, least(greatest(length(term) - 1, 1), 50)) as i
    $$;
    create index projects_search_pairs on projects
      using gin (search_pairs(name || ' ' || full_path || ' ' || coalesce(description, '')));
    -- Statistics about the pairs are not worth the cost of gathering them.
    alter index projects_search_pairs alter column 1 set statistics 0;
  `.execute(db);
};
