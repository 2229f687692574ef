import { type RawBuilder, sql } from 'kysely';
import type { Actor } from '#platform/context.ts';
import { USER_SLOT } from '#platform/db/compiled.ts';
import { GUEST, INTERNAL, OWNER, PUBLIC } from './model.ts';

// The effective access of a person, as SQL that list queries and single reads share. Expiry is compared with the
// database's day (sessions run in UTC): a role counts up to, not including, the day it expires.

/** Everything this visibility or above is open to the actor without membership. */
export const openFrom = (actor: Actor): number => {
  if (actor.isAdmin) return 0;
  return actor.userId !== null && !actor.isExternal ? INTERNAL : PUBLIC;
};

/** The actor whom a statement is compiled for once: his id becomes a slot, what else he is shapes the text. */
export const actorTemplate = (actor: Actor): Actor => ({
  ...actor,
  userId: actor.userId === null ? null : USER_SLOT,
});

/** What of an actor decides the text of such a statement. */
export const actorShape = ({ userId, isAdmin, isExternal, closedGroups }: Actor): string =>
  `${userId === null ? '-' : 'u'}${isAdmin ? 'a' : ''}${isExternal ? 'x' : ''}${closedGroups?.length ? `c${closedGroups.join()}` : ''}`;

/** A person, and where he cannot go from where he is. */
type Person = Pick<Actor, 'userId' | 'closedGroups'>;

/** Groups that keep out the network a request comes from, as an array; null when there are none. Ids, never text. */
const closedTo = ({ closedGroups }: Person): RawBuilder<unknown> | null =>
  closedGroups?.length ? sql`${sql.lit(`{${closedGroups.join()}}`)}::bigint[]` : null;

/** Ids of all namespaces in those groups. */
const closedNamespaces = (closed: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`(select c.id from namespaces c where c.traversal_ids && ${closed})`;

/** Ids of the namespaces where the user holds at least `least`, by whatever way. */
export const namespacesOf = (person: Person, least: number | RawBuilder<number> = GUEST): RawBuilder<number> => {
  const closed = closedTo(person);
  return sql<number>`(
  select a.namespace_id from namespace_access a
  where a.user_id = ${person.userId} and a.access_level >= ${least} and a.expires_at > current_date${
    closed ? sql` and a.namespace_id not in ${closedNamespaces(closed)}` : sql``
  })`;
};

/** Ids of the projects where the user is a member himself, or a group of his is invited, with at least `least`. */
const projectsOf = ({ userId }: Person, least: number | RawBuilder<number>): RawBuilder<number> => sql<number>`(
  select m.project_id from members m
  where m.user_id = ${userId} and m.project_id is not null and m.access_level >= ${least}
    and (m.expires_at is null or m.expires_at > current_date)
  union all
  select s.project_id from project_shares s
  join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = ${userId} and not a.via_share
  where least(s.access_level, a.access_level) >= ${least} and a.expires_at > current_date
    and (s.expires_at is null or s.expires_at > current_date))`;

/**
 * Ids of the groups where the user holds a role, and of those around anything he is a member of: he may know of them. A role
 * holds for all below, so that only above where it was given something can be found that holds none.
 */
const namespacesAbove = (person: Person): RawBuilder<number> => sql<number>`(
  select a.namespace_id from namespace_access a where a.user_id = ${person.userId} and a.expires_at > current_date
  union all
  select unnest(n.traversal_ids) from namespaces n where n.id in (
    select m.namespace_id from members m
    where m.user_id = ${person.userId} and m.namespace_id is not null and m.access_level >= ${sql.lit(GUEST)}
      and (m.expires_at is null or m.expires_at > current_date)
    union all
    select a.namespace_id from namespace_access a
    where a.user_id = ${person.userId} and a.via_share and a.expires_at > current_date
    union all
    select p.namespace_id from projects p where p.id in ${projectsOf(person, GUEST)}))`;

/**
 * Whether the actor may know of the namespace row `alias`. From networks that a group keeps out it and all in it are as
 * they are to strangers: public or not there.
 */
export const namespaceIsVisible = (actor: Actor, alias = 'namespaces'): RawBuilder<boolean> => {
  const reach = namespaceReach(actor, alias);
  if (actor.isAdmin || actor.userId === null || actor.closedGroups?.length)
    return sql<boolean>`(${sql.join(reach, sql` or `)})`;
  // Looked up first: what lies above all that he belongs to takes longer to find out, and is rarely asked for.
  const [isShown, isMine] = reach;
  return sql<boolean>`(${isShown} or exists (select 1 from namespace_access a
    where a.user_id = ${actor.userId} and a.namespace_id = ${sql.ref(`${alias}.id`)} and a.expires_at > current_date offset 0)
    or ${isMine})`;
};

/**
 * The same as conditions of which one at most holds for each row: lists that are sorted read one after the other, as no
 * index gives rows in order for all of them at once.
 */
export const namespaceReach = (actor: Actor, alias = 'namespaces'): readonly RawBuilder<boolean>[] => {
  const row = (column: string) => sql.ref(`${alias}.${column}`);
  if (actor.isAdmin) return [sql<boolean>`true`];
  const closed = closedTo(actor);
  const least = openFrom(actor);
  const isOpen = sql<boolean>`${row('visibility_level')} >= ${sql.lit(least)}`;
  const isShown = closed
    ? sql<boolean>`(${isOpen} and (${row('visibility_level')} >= ${sql.lit(PUBLIC)} or not ${row('traversal_ids')} && ${closed}))`
    : isOpen;
  if (actor.userId === null) return [isShown];
  const isMine = sql<boolean>`(${row('visibility_level')} < ${sql.lit(least)} and ${row('id')} in ${namespacesAbove(actor)})`;
  return [isShown, closed ? sql<boolean>`(${isMine} and not ${row('traversal_ids')} && ${closed})` : isMine];
};

/**
 * How memberships are looked up: for many rows the planner may gather all that the user holds first; `each` looks up one
 * row after the other, where a list reads few rows of people who may hold a lot.
 */
type Lookup = 'any' | 'each';

/** Whether the actor may know of the project row `alias`. Hidden projects and those being deleted show to administrators alone. */
export const projectIsVisible = (actor: Actor, alias = 'projects', lookup: Lookup = 'any'): RawBuilder<boolean> => {
  const row = (column: string) => sql.ref(`${alias}.${column}`);
  if (actor.isAdmin) return sql<boolean>`true`;
  const there = sql<boolean>`not ${row('hidden')} and not ${row('pending_delete')}`;
  const open = projectIsOpen(actor, alias);
  if (actor.userId === null) return sql<boolean>`(${there} and ${open})`;
  return sql<boolean>`(${there} and (${open} or ${projectIsMine(actor, GUEST, alias, lookup)}))`;
};

/** Whether the project row `alias` is open to the actor without membership. */
export const projectIsOpen = (actor: Actor, alias = 'projects'): RawBuilder<boolean> => {
  const visibility = sql.ref(`${alias}.visibility_level`);
  const open = sql<boolean>`${visibility} >= ${sql.lit(openFrom(actor))}`;
  const closed = actor.isAdmin ? null : closedTo(actor);
  if (!closed) return open;
  return sql<boolean>`(${open} and (${visibility} >= ${sql.lit(PUBLIC)}
    or ${sql.ref(`${alias}.namespace_id`)} not in ${closedNamespaces(closed)}))`;
};

/** Whether the user holds at least `least` on the project row `alias`. */
export const projectIsMine = (
  person: Person,
  least: number | RawBuilder<number> = GUEST,
  alias = 'projects',
  lookup: Lookup = 'any',
): RawBuilder<boolean> => {
  const { userId } = person;
  const id = sql.ref(`${alias}.id`);
  const namespace = sql.ref(`${alias}.namespace_id`);
  // What the planner cannot turn into a set that is gathered first.
  const end = lookup === 'each' ? sql` offset 0` : sql``;
  const mine = sql<boolean>`(
  exists (select 1 from namespace_access a
    where a.user_id = ${userId} and a.namespace_id = ${namespace} and a.access_level >= ${least}
      and a.expires_at > current_date${end})
  or exists (select 1 from members m
    where m.project_id = ${id} and m.user_id = ${userId} and m.access_level >= ${least}
      and (m.expires_at is null or m.expires_at > current_date)${end})
  or exists (select 1 from project_shares s
    join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = ${userId} and not a.via_share
    where s.project_id = ${id} and least(s.access_level, a.access_level) >= ${least} and a.expires_at > current_date
      and (s.expires_at is null or s.expires_at > current_date)${end}))`;
  const closed = closedTo(person);
  return closed ? sql<boolean>`(${mine} and ${namespace} not in ${closedNamespaces(closed)})` : mine;
};

/**
 * The rows of projects on which the user holds at least `least`, each once: what `projectIsMine` says, found from what he
 * belongs to. As a subselect, whose columns are those of projects.
 */
export const projectsHeld = (person: Person, least: number | RawBuilder<number>): RawBuilder<unknown> => {
  const closed = closedTo(person);
  const outside = closed ? sql` and p.namespace_id not in ${closedNamespaces(closed)}` : sql``;
  return sql`(select p.* from projects p where p.namespace_id in ${namespacesOf(person, least)}
    union all
    select p.* from projects p where p.id in ${projectsOf(person, least)}${outside}
      and p.namespace_id not in ${namespacesOf(person, least)})`;
};

/** The user's highest level on a namespace, 0 when none; `namespaceId` is a column or a value. Administrators count as owners. */
export const namespaceLevel = (actor: Actor, namespaceId: RawBuilder<unknown>): RawBuilder<number> => {
  if (actor.isAdmin) return sql<number>`${sql.lit(OWNER)}`;
  if (actor.userId === null) return sql<number>`0`;
  const closed = closedTo(actor);
  return sql<number>`coalesce((select max(a.access_level) from namespace_access a
    where a.user_id = ${actor.userId} and a.namespace_id = ${namespaceId} and a.expires_at > current_date${
      closed ? sql` and a.namespace_id not in ${closedNamespaces(closed)}` : sql``
    }), 0)`;
};

/** The user's highest level on the project row `alias`, 0 when none. */
export const projectLevel = (actor: Actor, alias = 'projects'): RawBuilder<number> => {
  if (actor.isAdmin) return sql<number>`${sql.lit(OWNER)}`;
  if (actor.userId === null) return sql<number>`0`;
  const projectId = sql.ref(`${alias}.id`);
  const namespace = sql.ref(`${alias}.namespace_id`);
  const closed = closedTo(actor);
  const level = sql<number>`greatest(
    ${namespaceLevel({ ...actor, closedGroups: [] }, namespace)},
    (select max(m.access_level) from members m
      where m.project_id = ${projectId} and m.user_id = ${actor.userId} and m.access_level >= ${sql.lit(GUEST)}
        and (m.expires_at is null or m.expires_at > current_date)),
    (select max(least(s.access_level, a.access_level)) from project_shares s
      join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = ${actor.userId} and not a.via_share
      where s.project_id = ${projectId} and a.expires_at > current_date
        and (s.expires_at is null or s.expires_at > current_date)),
    0)`;
  return closed ? sql<number>`case when ${namespace} in ${closedNamespaces(closed)} then 0 else ${level} end` : level;
};
