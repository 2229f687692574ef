import { type RawBuilder, sql } from 'kysely';
import { REPORTER, visibilityLevel } from '#domains/access/model.ts';
import {
  type MembershipLookup,
  openFrom,
  projectIsMine,
  projectIsOpen,
  projectIsVisible,
} from '#domains/access/policy.ts';
import { placesSharedWith } from '#domains/access/roles.ts';
import { hasCustomAttributes } from '#domains/custom-attributes/queries.ts';
import type { Actor } from '#platform/context.ts';
import { slot } from '#platform/db/compiled.ts';
import { atOrAfter, atOrBefore } from '#platform/db/times.ts';
import { MEMBERS_ROLES } from '../policy.ts';
import { searchCondition } from '../search.ts';
import { isGiven, leastHeld, type ProjectFilter, type ProjectOrder, spellingsSlot } from './filter.ts';

// The filter and the rights of the caller as SQL.

/** How languages are looked up: as memberships are, or so that the language leads to the projects. */
type LanguageLookup = MembershipLookup | 'lead';

/** Returns the conditions of the filter and of the caller's rights on the row `projects`. */
export const conditions = (actor: Actor, filter: ProjectFilter, lookup: MembershipLookup = 'any', of?: Parent) =>
  sql.join(
    [
      projectIsVisible(actor, 'projects', lookup),
      ...belonging(actor, filter, lookup),
      ...placed(filter, of),
      ...ranges(filter),
      ...narrowed(actor, filter, of, lookup),
    ],
    sql` and `,
  );

export const LEAST = sql<number>`${slot('least')}::int`;

/** Requires a role of the caller in the project, if the filter asks for one. */
export const belonging = (actor: Actor, filter: ProjectFilter, lookup: MembershipLookup): RawBuilder<unknown>[] => {
  if (leastHeld(filter) === 0) return [];
  return [actor.userId === null ? sql`false` : projectIsMine(actor, LEAST, 'projects', lookup)];
};

/**
 * Replaces one filter value when a list is read for many parents at once: the namespaces of a page, or the forked
 * projects.
 */
export interface Parent {
  readonly by: ParentFilter;
  readonly id: RawBuilder<number>;
}
export type ParentFilter = 'namespace_id' | 'forked_from_id' | 'starred_by' | 'contributed_by';

const idOf = (by: ParentFilter, of: Parent | undefined): unknown => (of?.by === by ? of.id : slot(by));

/** Requires that the project is in the filter's namespace, if one is given. */
export const placed = (filter: ProjectFilter, of?: Parent): RawBuilder<unknown>[] => {
  if (!isGiven(filter.namespace_id)) return [];
  const at = idOf('namespace_id', of);
  const [own, shared] = [liesIn(filter, at), isSharedWith(at)];
  if (filter.with_shared === 'only') return [shared];
  return [filter.with_shared ? sql`(${own} or ${shared})` : own];
};

/** A subselect of the rows in the namespace or shared with it, each once. No single index finds both. */
export const projectsPlaced = (filter: ProjectFilter, of?: Parent): RawBuilder<unknown> => {
  const at = idOf('namespace_id', of);
  const [own, shared] = [liesIn(filter, at, 'p'), isSharedWith(at, 'p')];
  return sql`(select p.* from projects p where ${own}
    union all
    select p.* from projects p where ${shared} and not ${own})`;
};

/** Returns the filter's conditions on the row itself, without rights, roles, place and ranges. */
export const narrowed = (
  actor: Actor,
  filter: ProjectFilter,
  of?: Parent,
  lookup: LanguageLookup = 'any',
): RawBuilder<unknown>[] => {
  const all: RawBuilder<unknown>[] = [];
  const given = (name: keyof ProjectFilter) => isGiven(filter[name]);
  const add = (condition: RawBuilder<unknown>) => all.push(condition);
  const nobody = sql`false`;
  // For all other callers, visibility already implies both.
  if (actor.isAdmin && !filter.include_hidden) add(sql`not projects.hidden`);
  if (actor.isAdmin && !filter.include_pending_delete) add(sql`not projects.pending_delete`);

  if (given('ids')) add(sql`projects.id = any (${slot('ids')}::bigint[])`);
  if (given('forked_from_id')) add(sql`projects.forked_from_id = ${idOf('forked_from_id', of)}::bigint`);
  if (given('full_paths')) add(sql`lower(projects.full_path) = any (${slot('full_paths')}::text[])`);
  if (given('namespace_id')) {
    add(
      openProfile(actor, sql`(select n.owner_id from namespaces n where n.id = ${idOf('namespace_id', of)}::bigint)`),
    );
  }
  if (given('archived')) add(filter.archived ? sql`projects.archived` : sql`not projects.archived`);
  if (filter.imported) {
    add(actor.userId === null ? nobody : sql`projects.imported and projects.creator_id = ${actor.userId}`);
  }
  if (filter.personal) {
    add(
      actor.userId === null
        ? nobody
        : sql`projects.namespace_id in (select id from namespaces where kind = 'user' and owner_id = ${actor.userId})`,
    );
  }
  if (filter.starred) add(actor.userId === null ? nobody : starredBy(actor.userId));
  if (given('starred_by')) {
    const userId = idOf('starred_by', of);
    add(starredBy(userId));
    add(openProfile(actor, sql`${userId}::bigint`));
  }
  if (given('contributed_by')) {
    const userId = idOf('contributed_by', of);
    add(sql`projects.id in (select c.project_id from project_contributions c
      where c.user_id = ${userId}::bigint and c.last_at > now() - interval '1 year')`);
    add(openProfile(actor, sql`${userId}::bigint`));
  }
  if (filter.search) add(searchCondition(filter));
  if (given('topics')) add(sql`projects.topics @> ${TOPICS_AS_SPELT}`);
  if (given('topic_id')) {
    add(sql`projects.topics @> array[(select t.name from topics t where t.id = ${slot('topic_id')}::bigint)]`);
  }
  for (const index of (filter.topic_spellings ?? []).keys()) {
    add(sql`projects.topics && ${slot(spellingsSlot(index))}::text[]`);
  }
  if (given('with_programming_language')) {
    add(isWrittenIn(lookup));
    add(codeCondition(actor));
  }
  if (filter.visibility) {
    const level = visibilityLevel(filter.visibility);
    // Anonymous callers see public projects only.
    add(actor.userId === null && level < openFrom(actor) ? nobody : sql`projects.visibility_level = ${sql.lit(level)}`);
  }
  if (given('repository_storage')) add(sql`projects.repository_storage = ${slot('repository_storage')}`);
  if (filter.with_issues_enabled) add(featureCondition(actor, 'issues_access_level'));
  if (filter.with_security_reports || filter.repository_checksum_failed || filter.wiki_checksum_failed) add(nobody);
  if (filter.with_merge_requests_enabled) add(featureCondition(actor, 'merge_requests_access_level'));
  if (actor.isAdmin && given('custom_attributes')) {
    add(hasCustomAttributes('projects', sql.ref('projects.id'), slot('custom_attributes')));
  }
  if (given('marked_for_deletion_on')) {
    add(markedWhere(sql`= ${slot('marked_for_deletion_on')}::date`));
    add(MARKED_ON);
  }
  if (given('marked_for_deletion'))
    add(filter.marked_for_deletion ? markedWhere(sql`is not null`) : sql`not ${MARKED}`);
  if (given('active')) {
    add(filter.active ? sql`not projects.archived and not ${MARKED}` : sql`(projects.archived or ${MARKED})`);
  }
  return all;
};

/** Returns the conditions that an order's index can answer; with `order`, only those of that order. */
export const ranges = (filter: ProjectFilter, order?: ProjectOrder): RawBuilder<unknown>[] => {
  const all: RawBuilder<unknown>[] = [];
  const add = (of: ProjectOrder, name: keyof ProjectFilter, condition: RawBuilder<unknown>) => {
    if (isGiven(filter[name]) && (order === undefined || order === of)) all.push(condition);
  };
  add('id', 'id_after', sql`projects.id > ${slot('id_after')}::bigint`);
  add('id', 'id_before', sql`projects.id < ${slot('id_before')}::bigint`);
  const active = sql`projects.last_activity_at`;
  add('last_activity_at', 'last_activity_after', atOrAfter(active, slot('last_activity_after')));
  add('last_activity_at', 'last_activity_before', atOrBefore(active, slot('last_activity_before')));
  if (filter.order_by === 'updated_at') {
    const updated = sql`projects.updated_at`;
    add('updated_at', 'updated_after', atOrAfter(updated, slot('updated_after')));
    add('updated_at', 'updated_before', atOrBefore(updated, slot('updated_before')));
  }
  return all;
};

/**
 * Requires that the user's profile is open to the caller. The projects that a user with a private profile owns, has
 * starred or contributes to are visible only to that user and administrators. Groups have no owner in this sense.
 */
const openProfile = (actor: Actor, userId: RawBuilder<unknown>): RawBuilder<unknown> => {
  if (actor.isAdmin) return sql`true`;
  const others = actor.userId === null ? sql`true` : sql`u.id <> ${actor.userId}`;
  return sql`not exists (select 1 from users u where u.id = ${userId} and u.private_profile and ${others})`;
};

const isSharedWith = (id: unknown, alias = 'projects'): RawBuilder<unknown> =>
  sql`${sql.ref(`${alias}.id`)} in (${placesSharedWith('project', sql`${id}::bigint`)})`;

const liesIn = ({ include_subgroups }: ProjectFilter, id: unknown, alias = 'projects'): RawBuilder<unknown> => {
  const namespace = sql.ref(`${alias}.namespace_id`);
  return include_subgroups
    ? sql`${namespace} in (select d.id from namespaces d where d.traversal_ids @> array[${id}::bigint])`
    : sql`${namespace} = ${id}::bigint`;
};

/** Projects store topics in their first spelling. */
const TOPICS_AS_SPELT = sql`(select coalesce(array_agg(coalesce(t.name, wanted.name)), '{}')
  from unnest(${slot('topics')}::text[]) as wanted (name) left join topics t on lower(t.name) = lower(wanted.name))`;

// The earlier date counts, of the project's own mark and those of the groups above it (model.ts: markedForDeletionOn).
const MARKED_ON = sql`(projects.marked_for_deletion_on = ${slot('marked_for_deletion_on')}::date
    and projects.namespace_id not in (select n.id from namespaces n where n.deletion_marked_on < ${slot('marked_for_deletion_on')}::date)
  or projects.namespace_id in (select n.id from namespaces n where n.deletion_marked_on = ${slot('marked_for_deletion_on')}::date)
    and (projects.marked_for_deletion_on is null or projects.marked_for_deletion_on > ${slot('marked_for_deletion_on')}::date))`;
/**
 * The projects that are marked by themselves or by their group, where `is` applies to the date of either. As an array:
 * Postgres reads all projects for a condition that concerns either of two tables.
 */
const markedWhere = (is: RawBuilder<unknown>): RawBuilder<unknown> => sql`projects.id = any (array(
  select p.id from projects p where p.marked_for_deletion_on ${is}
  union all
  select p.id from namespaces n join projects p on p.namespace_id = n.id where n.deletion_marked_on ${is}))`;
const MARKED = sql`(projects.marked_for_deletion_on is not null
  or projects.namespace_id in (select n.id from namespaces n where n.deletion_marked_on is not null))`;

const starredBy = (userId: unknown): RawBuilder<unknown> =>
  sql`projects.id in (select t.project_id from project_stars t where t.user_id = ${userId}::bigint)`;

/** A common language has too many projects to gather when only a few rows are needed. */
const isWrittenIn = (lookup: LanguageLookup): RawBuilder<unknown> => {
  const isNamed = sql`lower(l.name) = lower(${slot('with_programming_language')}::text)`;
  // As an array: the planner assumes that every language is common, and would read all projects for a rare one.
  if (lookup === 'lead') {
    return sql`projects.id = any (array(select l.project_id from project_languages l where ${isNamed}))`;
  }
  return lookup === 'each'
    ? sql`exists (select 1 from project_languages l where l.project_id = projects.id and ${isNamed} offset 0)`
    : sql`projects.id in (select l.project_id from project_languages l where ${isNamed})`;
};

/** Requires that the caller can use the feature, by the same rules as policy.ts. */
const featureCondition = (actor: Actor, column: 'issues_access_level' | 'merge_requests_access_level') => {
  const level = sql.ref(`projects.${column}`);
  if (actor.isAdmin) return sql`${level} <> 'disabled'`;
  if (actor.userId === null) return sql`${level} = 'enabled'`;
  return sql`(${level} = 'enabled' or ${level} = 'private' and ${projectIsMine(actor, MEMBERS_ROLES[column])})`;
};

/** Requires that the caller can read the code, by the same rule as `read_code` in policy.ts. */
const codeCondition = (actor: Actor): RawBuilder<unknown> => {
  const level = sql.ref('projects.repository_access_level');
  if (actor.isAdmin) return sql`${level} <> 'disabled'`;
  // The list already restricts anonymous callers to open projects. Repeating it makes the planner read all open
  // projects.
  if (actor.userId === null) return sql`${level} = 'enabled'`;
  const open = projectIsOpen(actor);
  return sql`(${level} = 'enabled' and ${open} or ${level} <> 'disabled' and ${projectIsMine(actor, REPORTER)})`;
};
