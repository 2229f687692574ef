import { type RawBuilder, sql } from 'kysely';
import { GUEST, OWNER, REPORTER, type Visibility, visibilityLevel } from '#domains/access/model.ts';
import { projectIsMine, projectIsOpen, projectIsVisible } from '#domains/access/policy.ts';
import { placesSharedWith } from '#domains/access/roles.ts';
import { hasCustomAttributes } from '#domains/custom-attributes/queries.ts';
import type { Actor } from '#platform/context.ts';
import { type SlotValues, slot } from '#platform/db/compiled.ts';
import type { SortDirection } from '#platform/paging.ts';
import { MEMBERS_ROLES } from '../policy.ts';
import { lacksTrigrams, searchCondition, searchPattern } from '../search.ts';

export const PROJECT_ORDERS = [
  'id',
  'name',
  'path',
  'created_at',
  'updated_at',
  'last_activity_at',
  'star_count',
  'similarity',
  'repository_size',
  'storage_size',
  'packages_size',
  'wiki_size',
] as const;
export type ProjectOrder = (typeof PROJECT_ORDERS)[number];

/** Selects and orders projects (specification 1 §4.5). Null and absent mean the same. Access rights always apply. */
export interface ProjectFilter {
  readonly ids?: readonly number[] | null | undefined;
  /** The direct forks of this project. */
  readonly forked_from_id?: number | null | undefined;
  readonly full_paths?: readonly string[] | null | undefined;
  /** Projects of this namespace only; with `include_subgroups`, also of all namespaces below it. */
  readonly namespace_id?: number | null | undefined;
  readonly include_subgroups?: boolean | null | undefined;
  /** Also projects shared with the namespace; with `only`, nothing but those. */
  readonly with_shared?: boolean | 'only' | null | undefined;
  readonly archived?: boolean | null | undefined;
  /** Imported by the caller. */
  readonly imported?: boolean | null | undefined;
  readonly include_hidden?: boolean | null | undefined;
  readonly include_pending_delete?: boolean | null | undefined;
  readonly id_after?: number | null | undefined;
  readonly id_before?: number | null | undefined;
  readonly last_activity_after?: string | null | undefined;
  readonly last_activity_before?: string | null | undefined;
  /** Only applies when the order is `updated_at`. */
  readonly updated_after?: string | null | undefined;
  readonly updated_before?: string | null | undefined;
  readonly membership?: boolean | null | undefined;
  readonly owned?: boolean | null | undefined;
  readonly min_access_level?: number | null | undefined;
  readonly starred?: boolean | null | undefined;
  /** Starred by this user, regardless of the caller. */
  readonly starred_by?: number | null | undefined;
  /** Projects to which this user has contributed within the last year. */
  readonly contributed_by?: number | null | undefined;
  /** Only projects in the caller's personal namespace. */
  readonly personal?: boolean | null | undefined;
  readonly search?: string | null | undefined;
  readonly search_namespaces?: boolean | null | undefined;
  /** The project has all of these topics, case-insensitive. */
  readonly topics?: readonly string[] | null | undefined;
  readonly topic_id?: number | null | undefined;
  /** Replaces both: for each topic, the project has one of its spellings (topic-spellings.ts). */
  readonly topic_spellings?: readonly (readonly (string | null)[])[] | null | undefined;
  /** The exact name of a language, case-insensitive, in code that the caller can read. */
  readonly with_programming_language?: string | null | undefined;
  readonly visibility?: Visibility | null | undefined;
  readonly repository_storage?: string | null | undefined;
  readonly with_issues_enabled?: boolean | null | undefined;
  readonly with_merge_requests_enabled?: boolean | null | undefined;
  /** Only projects with security scan reports. Always none, as pipelines do not produce such reports yet. */
  readonly with_security_reports?: boolean | null | undefined;
  /** Only projects whose repository or wiki failed its checksum. Always none, as no copies exist to compare. */
  readonly repository_checksum_failed?: boolean | null | undefined;
  readonly wiki_checksum_failed?: boolean | null | undefined;
  /** Administrators only. The project has all of these attributes with these values. */
  readonly custom_attributes?: Readonly<Record<string, string>> | null | undefined;
  /** The date that the record shows: when the project, or a group above it, was marked. */
  readonly marked_for_deletion_on?: string | null | undefined;
  /** Whether it is marked for deletion, on any day. */
  readonly marked_for_deletion?: boolean | null | undefined;
  /** True: neither archived nor marked for deletion. False: at least one of the two. */
  readonly active?: boolean | null | undefined;
  readonly order_by?: ProjectOrder | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

/** Only the presence of these filters shapes the statement. Their values go into slots. */
const SLOTS: ReadonlySet<string> = new Set<keyof ProjectFilter>([
  'ids',
  'forked_from_id',
  'full_paths',
  'namespace_id',
  'id_after',
  'id_before',
  'last_activity_after',
  'last_activity_before',
  'updated_after',
  'updated_before',
  'min_access_level',
  'starred_by',
  'contributed_by',
  'search',
  'topics',
  'topic_id',
  'with_programming_language',
  'repository_storage',
  'marked_for_deletion_on',
  'custom_attributes',
]);

/** Drops blank texts from the filter. They select nothing, and must not share a cached statement with other filters. */
export const withoutBlanks = <F extends ProjectFilter>(filter: F): F => {
  const { search, repository_storage, with_programming_language } = filter;
  return {
    ...filter,
    search: search?.trim() || null,
    repository_storage: repository_storage || null,
    with_programming_language: with_programming_language?.trim() || null,
  };
};

/** Returns a key for the parts of the filter that determine the statement's text. */
export const filterShape = (filter: ProjectFilter): string => {
  // A role below Guest grants no access.
  let shape = `${rolesOpen(filter) ? 'held;' : ''}${lacksTrigrams(filter) ? 'pairs;' : ''}`;
  for (const [name, value] of Object.entries(filter)) {
    if (value === null || value === undefined) continue;
    if (name === 'topic_spellings') shape += `${name}=${value.length};`;
    else shape += SLOTS.has(name) ? `${name};` : `${name}=${value};`;
  }
  return shape;
};

/** Returns the values for the slots that `conditions` uses. */
export const filterValues = (filter: ProjectFilter): SlotValues => ({
  ...filter,
  ...Object.fromEntries((filter.topic_spellings ?? []).map((names, index) => [spellingsSlot(index), names])),
  least: leastHeld(filter),
  full_paths: filter.full_paths?.map((path) => path.toLowerCase()),
  custom_attributes: filter.custom_attributes ? JSON.stringify(filter.custom_attributes) : null,
  search_pattern: searchPattern(filter),
});

/** How the caller's memberships are looked up: for any number of rows, or row by row (access/policy.ts). */
type Lookup = 'any' | 'each';
/** How languages are looked up: the same, or so that the language leads to the projects. */
type LanguageLookup = Lookup | 'lead';

/** Returns the conditions of the filter and of the caller's rights on the row `projects`. */
export const conditions = (actor: Actor, filter: ProjectFilter, lookup: Lookup = 'any', of?: Parent) =>
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

/** Returns the lowest role that the caller must hold, as a value for the slot `least`; 0 if none is required. */
export const leastHeld = ({ membership, owned, min_access_level }: ProjectFilter): number =>
  Math.max(
    membership ? GUEST : 0,
    owned ? OWNER : 0,
    isGiven(min_access_level) ? Math.max(Number(min_access_level), GUEST) : 0,
  );
/** Returns true if the required role alone lets the caller see the project. */
export const rolesOpen = (filter: ProjectFilter): boolean => leastHeld(filter) >= GUEST;
export const LEAST = sql<number>`${slot('least')}::int`;

/** Requires a role of the caller in the project, if the filter asks for one. */
export const belonging = (actor: Actor, filter: ProjectFilter, lookup: Lookup): RawBuilder<unknown>[] => {
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

const isGiven = (value: unknown): boolean => value !== null && value !== undefined;

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
  if (filter.visibility) add(sql`projects.visibility_level = ${sql.lit(visibilityLevel(filter.visibility))}`);
  if (given('repository_storage')) add(sql`projects.repository_storage = ${slot('repository_storage')}`);
  if (filter.with_issues_enabled) add(featureCondition(actor, 'issues_access_level'));
  if (filter.with_security_reports || filter.repository_checksum_failed || filter.wiki_checksum_failed) add(nobody);
  if (filter.with_merge_requests_enabled) add(featureCondition(actor, 'merge_requests_access_level'));
  if (actor.isAdmin && given('custom_attributes')) {
    add(hasCustomAttributes('projects', sql.ref('projects.id'), slot('custom_attributes')));
  }
  if (given('marked_for_deletion_on')) add(MARKED_ON);
  if (given('marked_for_deletion')) add(filter.marked_for_deletion ? MARKED : sql`not ${MARKED}`);
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
  add('last_activity_at', 'last_activity_after', sql`${active} > ${slot('last_activity_after')}::timestamptz`);
  add('last_activity_at', 'last_activity_before', sql`${active} < ${slot('last_activity_before')}::timestamptz`);
  if (filter.order_by === 'updated_at') {
    add('updated_at', 'updated_after', sql`projects.updated_at > ${slot('updated_after')}::timestamptz`);
    add('updated_at', 'updated_before', sql`projects.updated_at < ${slot('updated_before')}::timestamptz`);
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

const spellingsSlot = (index: number): string => `topic_spellings_${index}`;

/** Projects store topics in their first spelling. */
const TOPICS_AS_SPELT = sql`(select coalesce(array_agg(coalesce(t.name, wanted.name)), '{}')
  from unnest(${slot('topics')}::text[]) as wanted (name) left join topics t on lower(t.name) = lower(wanted.name))`;

// The earlier date counts, of the project's own mark and those of the groups above it (model.ts: markedForDeletionOn).
const MARKED_ON = sql`(projects.marked_for_deletion_on = ${slot('marked_for_deletion_on')}::date
    and projects.namespace_id not in (select n.id from namespaces n where n.deletion_marked_on < ${slot('marked_for_deletion_on')}::date)
  or projects.namespace_id in (select n.id from namespaces n where n.deletion_marked_on = ${slot('marked_for_deletion_on')}::date)
    and (projects.marked_for_deletion_on is null or projects.marked_for_deletion_on > ${slot('marked_for_deletion_on')}::date))`;
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
