import { type RawBuilder, sql } from 'kysely';
import { INTERNAL, PRIVATE } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import type { Actor, Context } from '#platform/context.ts';
import { containing } from '#platform/db/like.ts';
import { type List, listOf, type SortKey } from '#platform/db/list.ts';
import { notFound } from '#platform/errors.ts';

/** A topic as the caller sees it. */
export interface TopicRow {
  readonly id: number;
  /** The name, as stored in projects. */
  readonly name: string;
  /** The title for display. */
  readonly title: string;
  readonly description: string | null;
  readonly avatar_key: string | null;
  /** The number of projects with the topic whose visibility opens them to the caller. */
  readonly total_projects_count: number;
  readonly created_at: string;
  readonly updated_at: string;
}

export interface TopicFilter {
  /** Matches name and title. */
  readonly search?: string | undefined;
  /** Only topics whose number of projects is 0 for the caller. */
  readonly without_projects?: boolean | undefined;
}

/** Lists the topics that the caller can see, those with the most projects first. */
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

/** @throws DomainError `not_found` (Topic) if it does not exist or the caller cannot see it */
export const getTopic = async (ctx: Context, id: number): Promise<TopicRow> => {
  const topic = await topicsFor(ctx).where('topics.id', '=', id).executeTakeFirst();
  if (!topic) throw notFound('Topic');
  return topic;
};

/**
 * Selects the topics that the caller can see. A topic that only closed projects have is as hidden as these projects,
 * unless an administrator created it for everyone. Members of such projects see it in the project.
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

// Must match the expressions of the indexes (migration 0022).
const shownCount = (actor: Actor): RawBuilder<number> => {
  const least = openFrom(actor);
  if (least === PRIVATE) return sql<number>`(topics.public_count + topics.internal_count + topics.private_count)`;
  return least === INTERNAL
    ? sql<number>`(topics.public_count + topics.internal_count)`
    : sql<number>`topics.public_count`;
};
