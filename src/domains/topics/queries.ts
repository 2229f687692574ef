import { type RawBuilder, sql } from 'kysely';
import { INTERNAL, PRIVATE } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import type { Actor, Context } from '#platform/context.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';

/** A topic as the caller meets it. */
export interface TopicRow {
  readonly id: number;
  /** How projects carry it. */
  readonly name: string;
  /** How it is shown. */
  readonly title: string;
  readonly description: string | null;
  readonly avatar_key: string | null;
  /** Projects that carry it, of those whose visibility opens them to the caller. */
  readonly total_projects_count: number;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface TopicFilter {
  /** In name and title. */
  readonly search?: string | undefined;
  /** Only those that no project carries, as far as the caller is told. */
  readonly without_projects?: boolean | undefined;
}

/** The topics that the caller may know of, those of most projects first. */
export const listTopics = (ctx: Context, { search, without_projects }: TopicFilter = {}): List<TopicRow> => {
  let query = topicsFor(ctx);
  if (search) {
    const pattern = containing(search);
    query = query.where(sql<boolean>`(topics.name ilike ${pattern} or topics.title ilike ${pattern})`);
  }
  if (without_projects) query = query.where(sql<boolean>`${shownCount(ctx.actor)} = 0`);
  const keys: readonly SortKey<TopicRow>[] = [
    { by: shownCount(ctx.actor), of: (row) => row.total_projects_count },
    { by: sql.ref('topics.id'), of: (row) => row.id },
  ];
  return listOf(ctx.db, query, keys, 'desc');
};

/** @throws DomainError `not_found` (Topic) when there is none, or none that the caller may know of */
export const getTopic = async (ctx: Context, id: number): Promise<TopicRow> => {
  const topic = await topicsFor(ctx).where('topics.id', '=', id).executeTakeFirst();
  if (!topic) throw notFound('Topic');
  return topic;
};

/**
 * A topic that only closed projects carry is as little to know as these are; unless an administrator made it, for all
 * to use. Members of such projects see it there.
 */
const topicsFor = (ctx: Context) => {
  const { actor } = ctx;
  const query = ctx.db
    .selectFrom('topics')
    .select([
      'topics.id',
      'topics.name',
      'topics.title',
      'topics.description',
      'topics.avatar_key',
      'topics.created_at',
      'topics.updated_at',
      shownCount(actor).as('total_projects_count'),
    ]);
  return openFrom(actor) === PRIVATE ? query : query.where(sql<boolean>`(topics.curated or ${shownCount(actor)} > 0)`);
};

// As the indexes have them (migration 0022).
const shownCount = (actor: Actor): RawBuilder<number> => {
  const least = openFrom(actor);
  if (least === PRIVATE) return sql<number>`(topics.public_count + topics.internal_count + topics.private_count)`;
  return least === INTERNAL
    ? sql<number>`(topics.public_count + topics.internal_count)`
    : sql<number>`topics.public_count`;
};
