import { type RawBuilder, sql } from 'kysely';
import type { Actor } from '#platform/context.ts';
import type { CursorValues } from '#platform/cursor.ts';
import { slot } from '#platform/db/compiled.ts';
import type { ProjectFilter, ProjectOrder } from './filter.ts';

/**
 * Returns the sort key that precedes the id; null if the id alone decides. Uses the columns of `projects`, and for
 * sizes the project statistics `s`.
 */
export const sortExpression = (order: ProjectOrder): RawBuilder<unknown> | null => {
  switch (order) {
    case 'id':
      return null;
    case 'name':
    case 'path':
      return sql`lower(${sql.ref(`projects.${order}`)})`;
    case 'similarity': {
      const term = sql`${slot('search')}::text`;
      return sql`(greatest(similarity(projects.name, ${term}), similarity(projects.path, ${term}))
        + 0.2 * similarity(coalesce(projects.description, ''), ${term}))::float8`;
    }
    case 'repository_size':
    case 'packages_size':
    case 'wiki_size':
      return sql.ref(`s.${order}`);
    case 'storage_size':
      // Must match the expression of the index.
      return sql`(s.repository_size + s.wiki_size + s.lfs_objects_size + s.job_artifacts_size
        + s.pipeline_artifacts_size + s.packages_size + s.snippets_size + s.uploads_size)`;
    default:
      return sql.ref(`projects.${order}`);
  }
};

/** Sizes are for administrators, and similarity needs a search. Anything else falls back to the usual order. */
export const effectiveOrder = (actor: Actor, { order_by, search }: ProjectFilter): ProjectOrder => {
  if (order_by === 'similarity') return search ? 'similarity' : 'created_at';
  if (order_by && isSize(order_by)) return actor.isAdmin ? order_by : 'created_at';
  return order_by ?? 'created_at';
};

export const isSize = (order: ProjectOrder): boolean => order.endsWith('_size');

/** Limits similarity to the caller's projects or to one place (specification 1 §4.5). */
export const withinReach = (actor: Actor, filter: ProjectFilter): ProjectFilter =>
  effectiveOrder(actor, filter) === 'similarity' && (filter.namespace_id ?? null) === null
    ? { ...filter, membership: true }
    : filter;

// Similarity lists the best match first, regardless of `sort`.
export const isAscending = (order: ProjectOrder, { sort }: ProjectFilter): boolean =>
  order !== 'similarity' && sort === 'asc';

/** Returns the values of the sort keys in a row of a list. */
export const cursorOf = (
  order: ProjectOrder,
  row: { readonly id: number; readonly sort_key?: string | number | boolean | null },
): CursorValues => (order === 'id' ? [row.id] : [row.sort_key ?? null, row.id]);
