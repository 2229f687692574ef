import { type RawBuilder, sql } from 'kysely';
import { GUEST, visibilityLevel } from '#domains/access/model.ts';
import { openFrom, projectIsOpen, projectIsVisible, projectsHeld } from '#domains/access/policy.ts';
import type { Actor } from '#platform/context.ts';
import { slot } from '#platform/db/compiled.ts';
import { and } from '#platform/db/conditions.ts';
import { SEEN } from '#platform/db/known-counts.ts';
import type { Window } from '#platform/db/list.ts';
import { betweenCursors, limitTo, sorted } from '#platform/db/windows.ts';
import { foundBySearch } from '../search.ts';
import { belonging, conditions, LEAST, narrowed, type Parent, placed, projectsPlaced, ranges } from './conditions.ts';
import { leastHeld, type ProjectFilter, rolesOpen } from './filter.ts';
import { effectiveOrder, isSize, sortExpression } from './order.ts';
import type { ProjectPart } from './parts.ts';
import { columnsRead, selectList, sqlFrom } from './select.ts';

// docs/decisions/0012 explains how a page is found. Each statement first finds ids and sort keys, from indexes only
// where possible. It then joins the other columns to the page that is left.

/** The list that a statement reads. */
export interface Wanted {
  readonly actor: Actor;
  readonly filter: ProjectFilter;
  readonly ascending: boolean;
  /** Replaces a value of the filter. */
  readonly of?: Parent | undefined;
}

/** Builds the statement that reads the page as rows. */
export const pageStatement = (
  { actor, filter, ascending }: Wanted,
  parts: readonly ProjectPart[],
  { backwards, offset }: Pick<Window, 'backwards' | 'offset'>,
  page: RawBuilder<unknown>,
): RawBuilder<unknown> => {
  const order = effectiveOrder(actor, filter);
  const from = sqlFrom(parts, sql`(${page}) page join projects on projects.id = page.id`);
  return sql`select ${selectList(actor, parts)}, page.total${offset === undefined ? sql`` : sql`, ${SEEN} as seen`}${order === 'id' ? sql`` : sql`, page.sort_key`}
    from ${from} ${sorted(order === 'id' ? null : sql.ref('page.sort_key'), sql.ref('page.id'), ascending !== (backwards ?? false))}`;
};

/**
 * Builds the statement that gathers a page with its columns, without a total. Saves the join to the page. Not for the
 * part `columns`: its row versions are lost in a subselect.
 */
export const gatheredStatement = (
  wanted: Wanted,
  parts: readonly ProjectPart[],
  window: Window,
): RawBuilder<unknown> => {
  const { actor, filter } = wanted;
  const { key, id } = sorting(wanted, window, 'found');
  const up = upwards(wanted, window);
  const page = sql`(select found.* from (${matching(wanted, columnsRead(parts))}) found
    where ${and(betweenCursors(wanted.ascending, window, key, id))} ${sorted(key, id, up)} ${limitTo(window)}) projects`;
  const hasKey = effectiveOrder(actor, filter) !== 'id';
  return sql`select ${selectList(actor, parts)}${hasKey ? sql`, projects.sort_key` : sql``}
    from ${sqlFrom(parts, page)} ${sorted(hasKey ? sql.ref('projects.sort_key') : null, sql.ref('projects.id'), up)}`;
};

/**
 * Walks along the index of the order and checks each row until the page is full. With `most`, the walk ends after that
 * many rows, so the page may be short.
 */
export const walk = (wanted: Wanted, window: Window, most: number | null): RawBuilder<unknown> => {
  const { actor, filter, of } = wanted;
  const { key, id, order, from } = sorting(wanted, window);
  const end = limitTo(window);
  const lookup = window.offset ? 'any' : 'each';
  if (most === null) {
    const all = [conditions(actor, filter, lookup, of), ...betweenCursors(wanted.ascending, window, key, id)];
    return sql`select projects.id, ${key ?? sql`null`} as sort_key, null::bigint as total
      from ${from} where ${and(all)} ${order} ${end}`;
  }
  const near = [...ranges(filter, effectiveOrder(actor, filter)), ...betweenCursors(wanted.ascending, window, key, id)];
  // For anonymous callers and administrators the index alone decides visibility.
  if (actor.userId === null) near.push(projectIsVisible(actor));
  return sql`select projects.id, projects.sort_key, null::bigint as total
    from (select ${columnsFor(wanted)}, ${key ?? sql`null`} as sort_key from ${from} where ${and(near)} ${order} limit ${sql.lit(most)}) projects
    where ${conditions(actor, filter, lookup, of)}
    ${sorted(key ? sql.ref('projects.sort_key') : null, sql.ref('projects.id'), upwards(wanted, window))} ${end}`;
};

/** Selects only the columns that a walk needs. Reading all hundred costs more than finding the rows. */
const columnsFor = ({ actor, filter, of }: Wanted): RawBuilder<unknown> =>
  narrowed(actor, filter, of).length === 0 && ranges(filter).length === ranges(filter, 'id').length
    ? sql`projects.id, projects.namespace_id, projects.visibility_level, projects.hidden, projects.pending_delete`
    : sql`projects.*`;

/** Finds all matches by any index, sorts them and cuts out the page. Includes the total. */
export const gather = (wanted: Wanted, window: Window): RawBuilder<unknown> => {
  const { key, id } = sorting(wanted, window, 'found');
  const all = [...betweenCursors(wanted.ascending, window, key, id)];
  return sql`with found as materialized (${matching(wanted)})
    select id, sort_key, (select count(*) from found) as total
    from found where ${and(all)} ${sorted(key, id, upwards(wanted, window))} ${limitTo(window)}`;
};

/**
 * Walks along the open projects, gathers the closed ones that the caller can see, and merges both. This suits callers
 * who are members of few projects among many that are closed to them.
 */
export const walkAndGather = (wanted: Wanted, window: Window): RawBuilder<unknown> => {
  const { actor, filter } = wanted;
  const { key, id, order, from } = sorting(wanted, window);
  const [foundKey, foundId] = [key ? sql.ref('found.sort_key') : null, sql.ref('found.id')];
  const upTo = sql`limit ${sql.lit(window.limit)}${window.offset ? sql` + ${slot('offset')}::bigint` : sql``}`;
  const up = upwards(wanted, window);
  const open = [
    isOpen(actor),
    ...ranges(filter),
    ...narrowed(actor, filter),
    ...betweenCursors(wanted.ascending, window, key, id),
  ];
  const arms = [
    sql`(select projects.id, ${key ?? sql`null`} as sort_key from ${from} where ${and(open)} ${order} ${upTo})`,
    sql`(select found.id, found.sort_key from (with held as materialized (${closedButHeld(wanted, key)}) select * from held) found
      where ${and(betweenCursors(wanted.ascending, window, foundKey, foundId))} ${sorted(foundKey, foundId, up)} ${upTo})`,
  ].filter((_arm, i) => isReached(wanted, i === 0));
  return sql`select id, sort_key, null::bigint as total from (${sql.join(arms, sql` union all `)}) reached
    ${sorted(key ? sql.ref('reached.sort_key') : null, sql.ref('reached.id'), up)} ${limitTo(window)}`;
};

/** Returns true if a list that is limited to one visibility can include open (or else closed) projects. */
const isReached = ({ actor, filter: { visibility } }: Wanted, open: boolean): boolean =>
  !visibility || visibilityLevel(visibility) >= openFrom(actor) === open;

/** Counts the matches, up to `at_most` + 1. */
export const counting = (wanted: Wanted, isDriven: boolean): RawBuilder<unknown> => {
  const { actor, filter } = wanted;
  const all = isDriven
    ? [sql`select 1 from (${matching(wanted)}) matching`]
    : actor.userId === null || actor.isAdmin
      ? [sql`select 1 from projects where ${conditions(actor, filter)}`]
      : [
          sql`select 1 from projects where ${and([isOpen(actor), ...ranges(filter), ...narrowed(actor, filter)])}`,
          sql`select 1 from (${closedButHeld(wanted, null)}) held`,
        ].filter((_arm, i) => isReached(wanted, i === 0));
  return sql`select count(*) as count, ${SEEN} as seen from (${sql.join(all, sql` union all `)} limit ${slot('at_most')}::bigint) counted`;
};

const isThere = sql`not projects.hidden and not projects.pending_delete`;

const isOpen = (actor: Actor): RawBuilder<unknown> => sql`${isThere} and ${projectIsOpen(actor)}`;

/**
 * These columns and the sort keys of all matches, unordered: found by the place or, if that is more direct, by the
 * caller's memberships.
 */
export const matching = (wanted: Wanted, columns: RawBuilder<unknown> = sql`projects.id`): RawBuilder<unknown> => {
  const { actor, filter, of } = wanted;
  const order = effectiveOrder(actor, filter);
  const key = sortExpression(order) ?? sql`null`;
  const isHeld = actor.userId !== null && leastHeld(filter) > 0;
  const select = (source: RawBuilder<unknown>, all: readonly RawBuilder<unknown>[]) =>
    sql`select ${columns}, ${key} as sort_key from ${withStatistics(source, isSize(order))} where ${and(all)}`;
  const rights = [projectIsVisible(actor), ...belonging(actor, filter, 'any'), ...ranges(filter)];
  const isPlaced = filter.namespace_id !== null && filter.namespace_id !== undefined;
  if (isPlaced && filter.with_shared === true) {
    return select(sql`${projectsPlaced(filter, of)} projects`, [...rights, ...narrowed(actor, filter, of)]);
  }
  if (isHeld && !isPlaced) {
    const seen = rolesOpen(filter) ? (actor.isAdmin ? sql`true` : isThere) : projectIsVisible(actor);
    return select(sql`${projectsHeld(actor, LEAST)} projects`, [
      seen,
      ...ranges(filter),
      ...narrowed(actor, filter, of),
    ]);
  }
  // The filter itself finds the rows; rights are checked on each. `offset 0` keeps the planner from reading an index
  // for the rights.
  const isLedElsewhere = isPlaced || filter.search || filter.topics || filter.topic_id || filter.topic_spellings;
  const narrow = [
    ...placed(filter, of),
    ...narrowed(actor, filter, of, isLedElsewhere ? 'any' : 'lead'),
    ...(isPlaced ? [] : foundBySearch(filter)),
  ];
  return narrow.length === 0
    ? select(sql`projects`, rights)
    : select(sql`(select projects.* from projects where ${and(narrow)} offset 0) projects`, rights);
};

/** Projects that the caller can see only because they hold a role. */
const closedButHeld = ({ actor, filter }: Wanted, key: RawBuilder<unknown> | null): RawBuilder<unknown> =>
  sql`select projects.id, ${key ?? sql`null`} as sort_key
    from ${withStatistics(sql`${projectsHeld(actor, GUEST)} projects`, isSize(effectiveOrder(actor, filter)))}
    where ${and([isThere, sql`projects.visibility_level < ${sql.lit(openFrom(actor))}`, ...ranges(filter), ...narrowed(actor, filter)])}`;

const withStatistics = (projects: RawBuilder<unknown>, bySize: boolean): RawBuilder<unknown> =>
  // Every project has a row in project_statistics.
  bySize ? sql`${projects} join project_statistics s on s.project_id = projects.id` : projects;

/** Returns the sort expressions, over `projects` or over earlier results named `found`. */
const sorting = (wanted: Wanted, window: Window, found?: string) => {
  const order = effectiveOrder(wanted.actor, wanted.filter);
  const by = sortExpression(order);
  const key = by && found ? sql.ref(`${found}.sort_key`) : by;
  const id = sql.ref(`${found ?? 'projects'}.id`);
  return {
    key,
    id,
    order: sorted(key, id, upwards(wanted, window)),
    from: withStatistics(sql`projects`, isSize(order)),
  };
};

const upwards = ({ ascending }: Wanted, { backwards }: Window): boolean => ascending !== (backwards ?? false);
