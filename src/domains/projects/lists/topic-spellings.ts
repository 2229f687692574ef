import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { ProjectFilter } from './filter.ts';

/**
 * Extends the filter with the old and new spellings of topics that are being renamed, because projects may carry either
 * (migration 0039). Returns the filter unchanged if it has no topic, or if no rename is in progress.
 */
const withTopicSpellings = async (ctx: Context, filter: ProjectFilter): Promise<ProjectFilter> => {
  const { topics, topic_id } = filter;
  const { rows } = await sql<{ spellings: string[]; moved: boolean }>`
    select array_append(array(select m.former_name from topic_moves m where m.topic_id = t.id), coalesce(t.name, wanted.name))
        as spellings
    from (
      select topic_named(name) as id, name from unnest(${topics ?? []}::text[]) as given (name)
      union all select ${topic_id ?? null}::bigint, null where ${topic_id ?? null}::bigint is not null) as wanted
    left join topics t on t.id = wanted.id
    where exists (select from topic_moves)`.execute(ctx.db);
  if (rows.length === 0) return filter;
  return { ...filter, topics: null, topic_id: null, topic_spellings: rows.map(({ spellings }) => spellings) };
};

export const asksForTopics = ({ topics, topic_id }: ProjectFilter): boolean =>
  (topics ?? null) !== null || (topic_id ?? null) !== null;

/** Returns the list, or the same list by all spellings if topics are being renamed. Checked once, on first use. */
export const afterSpellings = <L>(
  ctx: Context,
  given: ProjectFilter,
  list: L,
  listBy: (filter: ProjectFilter) => L,
): (() => Promise<L>) => {
  let found: Promise<L> | null = null;
  return () => {
    found ??= withTopicSpellings(ctx, given).then((filter) => (filter === given ? list : listBy(filter)));
    return found;
  };
};
