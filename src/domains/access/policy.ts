import { type RawBuilder, sql } from 'kysely';
import type { Actor } from '#platform/context.ts';
import { GUEST, INTERNAL, OWNER, PUBLIC } from './model.ts';

// The effective access of a person, as SQL that list queries and single reads share. Expiry is compared with the
// database's day (sessions run in UTC): a role counts up to, not including, the day it expires.

/** Everything this visibility or above is open to the actor without membership. */
export const openFrom = (actor: Actor): number => {
  if (actor.isAdmin) return 0;
  return actor.userId !== null && !actor.isExternal ? INTERNAL : PUBLIC;
};

/** Ids of the namespaces where the user holds at least `least`, by whatever way. */
export const namespacesOf = (userId: number, least: number = GUEST): RawBuilder<number> => sql<number>`(
  select a.namespace_id from namespace_access a
  where a.user_id = ${userId} and a.access_level >= ${least} and a.expires_at > current_date)`;

/** Ids of the projects where the user is a member himself, or a group of his is invited, with at least `least`. */
const projectsOf = (userId: number, least: number = GUEST): RawBuilder<number> => sql<number>`(
  select m.project_id from members m
  where m.user_id = ${userId} and m.project_id is not null and m.access_level >= ${least}
    and (m.expires_at is null or m.expires_at > current_date)
  union all
  select s.project_id from project_shares s
  join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = ${userId} and not a.via_share
  where least(s.access_level, a.access_level) >= ${least} and a.expires_at > current_date
    and (s.expires_at is null or s.expires_at > current_date))`;

/** Ids of the groups that contain, at any depth, something the user is a member of: he may know of them. */
const namespacesAbove = (userId: number): RawBuilder<number> => sql<number>`(
  select unnest(n.traversal_ids) from namespaces n where n.id in (
    select namespace_id from namespace_access where user_id = ${userId} and expires_at > current_date
    union all
    select p.namespace_id from projects p where p.id in ${projectsOf(userId)}))`;

/** Whether the actor may know of the namespace row `alias`. */
export const namespaceIsVisible = (actor: Actor, alias = 'namespaces'): RawBuilder<boolean> => {
  const row = (column: string) => sql.ref(`${alias}.${column}`);
  if (actor.isAdmin) return sql<boolean>`true`;
  const open = sql<boolean>`${row('visibility_level')} >= ${sql.lit(openFrom(actor))}`;
  if (actor.userId === null) return open;
  return sql<boolean>`(${open} or ${row('id')} in ${namespacesOf(actor.userId)} or ${row('id')} in ${namespacesAbove(actor.userId)})`;
};

/** Whether the actor may know of the project row `alias`. Hidden projects and those being deleted show to administrators alone. */
export const projectIsVisible = (actor: Actor, alias = 'projects'): RawBuilder<boolean> => {
  const row = (column: string) => sql.ref(`${alias}.${column}`);
  if (actor.isAdmin) return sql<boolean>`true`;
  const there = sql<boolean>`not ${row('hidden')} and not ${row('pending_delete')}`;
  const open = sql<boolean>`${row('visibility_level')} >= ${sql.lit(openFrom(actor))}`;
  if (actor.userId === null) return sql<boolean>`(${there} and ${open})`;
  return sql<boolean>`(${there} and (${open} or ${projectIsMine(actor.userId, GUEST, alias)}))`;
};

/** Whether the user holds at least `least` on the project row `alias`. */
export const projectIsMine = (
  userId: number,
  least: number = GUEST,
  alias = 'projects',
): RawBuilder<boolean> => sql<boolean>`(
  ${sql.ref(`${alias}.namespace_id`)} in ${namespacesOf(userId, least)} or ${sql.ref(`${alias}.id`)} in ${projectsOf(userId, least)})`;

/** The user's highest level on a namespace, 0 when none; `namespaceId` is a column or a value. Administrators count as owners. */
export const namespaceLevel = (actor: Actor, namespaceId: RawBuilder<unknown>): RawBuilder<number> => {
  if (actor.isAdmin) return sql<number>`${sql.lit(OWNER)}`;
  if (actor.userId === null) return sql<number>`0`;
  return sql<number>`coalesce((select max(a.access_level) from namespace_access a
    where a.user_id = ${actor.userId} and a.namespace_id = ${namespaceId} and a.expires_at > current_date), 0)`;
};

/** The user's highest level on the project row `alias`, 0 when none. */
export const projectLevel = (actor: Actor, alias = 'projects'): RawBuilder<number> => {
  if (actor.isAdmin) return sql<number>`${sql.lit(OWNER)}`;
  if (actor.userId === null) return sql<number>`0`;
  const projectId = sql.ref(`${alias}.id`);
  return sql<number>`greatest(
    ${namespaceLevel(actor, sql.ref(`${alias}.namespace_id`))},
    (select max(m.access_level) from members m
      where m.project_id = ${projectId} and m.user_id = ${actor.userId} and m.access_level >= ${sql.lit(GUEST)}
        and (m.expires_at is null or m.expires_at > current_date)),
    (select max(least(s.access_level, a.access_level)) from project_shares s
      join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = ${actor.userId} and not a.via_share
      where s.project_id = ${projectId} and a.expires_at > current_date
        and (s.expires_at is null or s.expires_at > current_date)),
    0)`;
};
