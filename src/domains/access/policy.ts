import { type RawBuilder, sql } from 'kysely';
import type { Actor } from '#platform/context.ts';
import { JOB_PROJECT_SLOT, USER_SLOT } from '#platform/db/compiled.ts';
import { GUEST, INTERNAL, OWNER, PRIVATE, PUBLIC } from './model.ts';
import {
  type Grants,
  granted,
  INVITED_ROLES,
  NAMESPACE_GRANTS,
  NAMESPACE_ROLES,
  PROJECT_ROLES,
  ROLES_BY_SHARE,
} from './roles.ts';

// The rights of a user, as SQL that list queries and single reads share: their roles (roles.ts), visibility, and the
// groups whose IP restrictions exclude them.

/**
 * Returns the lowest visibility level that is open to the actor without membership. To auditors everything is open for
 * reading, and what is open to other users for writing.
 */
export const openFrom = (actor: Actor, use: 'read' | 'write' = 'read'): number => {
  if (actor.isAdmin || (actor.isAuditor && use === 'read')) return PRIVATE;
  return actor.userId !== null && !actor.isExternal ? INTERNAL : PUBLIC;
};

/**
 * The actor for which a statement is compiled once. The id becomes a parameter, the other properties shape the SQL
 * text.
 */
export const actorTemplate = (actor: Actor): Actor => ({
  ...actor,
  userId: actor.userId === null ? null : USER_SLOT,
  ...(actor.job ? { job: { ...actor.job, projectId: JOB_PROJECT_SLOT } } : {}),
});

/** Returns a cache key of the actor's properties that shape the SQL text. */
export const actorShape = ({ userId, isAdmin, isAuditor, isExternal, closedGroups, openLabels, job }: Actor): string =>
  `${userId === null ? '-' : 'u'}${isAdmin ? 'a' : ''}${isAuditor ? 'r' : ''}${isExternal ? 'x' : ''}${job ? 'j' : ''}${closedGroups?.length ? `c${closedGroups.join()}` : ''}${openLabels ? `l${openLabels.join()}` : ''}`;

/** A user, what restrictions leave open to them, and their job if it acts for them. */
type Person = Pick<Actor, 'userId' | 'closedGroups' | 'openLabels' | 'job'>;

/**
 * The groups whose IP restrictions exclude the request, as an array, or null when there are none. Contains ids only,
 * never text.
 */
const closedTo = ({ closedGroups }: Person): RawBuilder<unknown> | null =>
  closedGroups?.length ? sql`${sql.lit(`{${closedGroups.join()}}`)}::bigint[]` : null;

/** Selects the ids of all namespaces in those groups. */
const closedNamespaces = (closed: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`(select c.id from namespaces c where c.traversal_ids && ${closed})`;

/** The digests as an array. They are hexadecimal. */
const digestsIn = (labels: readonly string[]): RawBuilder<unknown> => sql`${sql.lit(`{${labels.join()}}`)}::text[]`;

/** Whether the external service opens the project row `alias` to the person. Null if no service decides. */
const labelIsOpen = ({ openLabels }: Person, alias: string): RawBuilder<boolean> | null =>
  openLabels === undefined
    ? null
    : sql<boolean>`exists (select 1 from projects l where l.id = ${sql.ref(`${alias}.id`)}
        and md5(l.external_authorization_classification_label) = any (${digestsIn(openLabels)}))`;

/**
 * Whether the user's roles on the project row `alias` count for the request: no IP restriction excludes its address, the
 * external service opens the project, and if it carries a job's token, the project admits the project of the job. Null if
 * all roles count.
 */
const rolesCount = (person: Person, alias: string): RawBuilder<boolean> | null => {
  const closed = closedTo(person);
  const conditions: RawBuilder<boolean>[] = [];
  if (closed) conditions.push(sql`${sql.ref(`${alias}.namespace_id`)} not in ${closedNamespaces(closed)}`);
  const label = labelIsOpen(person, alias);
  if (label) conditions.push(label);
  if (person.job) conditions.push(jobReaches(person.job.projectId, alias));
  return conditions.length === 0 ? null : sql<boolean>`(${sql.join(conditions, sql` and `)})`;
};

/** Whether the project row `alias` admits jobs of the project: its own, and those on its allowlist (reference: ci §7). */
const jobReaches = (projectId: number, alias: string): RawBuilder<boolean> => {
  const id = sql.ref(`${alias}.id`);
  return sql<boolean>`(${id} = ${projectId}
    or exists (select 1 from projects a where a.id = ${id} and not a.ci_inbound_job_token_scope_enabled)
    or exists (select 1 from job_token_projects a where a.project_id = ${id} and a.target_project_id = ${projectId})
    or exists (select 1 from job_token_groups a join projects jp on jp.id = ${projectId}
      join namespaces jn on jn.id = jp.namespace_id
      where a.project_id = ${id} and a.target_group_id = any (jn.traversal_ids)))`;
};

/** Selects the ids of the namespaces where the user has at least the role `least`, in any way. */
export const namespacesOf = (person: Person, least: number | RawBuilder<number> = GUEST): RawBuilder<number> => {
  const closed = closedTo(person);
  const { place } = NAMESPACE_ROLES;
  return sql<number>`(
  ${granted(NAMESPACE_ROLES, place, { user: person.userId, least })}${
    closed ? sql` and ${place} not in ${closedNamespaces(closed)}` : sql``
  })`;
};

/** Selects the ids of the projects where the user has at least `least` directly, or through an invited group. */
const projectsOf = ({ userId }: Person, least: number | RawBuilder<number>): RawBuilder<number> => {
  const { membership, invitation } = PROJECT_ROLES;
  const which = { user: userId, least };
  return sql<number>`(
  ${granted(membership, membership.place, which)}
  union all
  ${granted(invitation, invitation.place, which)})`;
};

/**
 * Selects the ids of the groups where the user has a role, and of the ancestors of their groups and projects, which
 * they can see. A role is inherited downwards, so only ancestors of the place where it was given can lack one.
 */
const namespacesAbove = (person: Person): RawBuilder<number> => {
  const which = { user: person.userId };
  const { membership } = NAMESPACE_GRANTS;
  return sql<number>`(
  ${granted(NAMESPACE_ROLES, NAMESPACE_ROLES.place, which)}
  union all
  select unnest(n.traversal_ids) from namespaces n where n.id in (
    ${granted(membership, membership.place, which)}
    union all
    ${granted(INVITED_ROLES, INVITED_ROLES.place, which)}
    union all
    select p.namespace_id from projects p where p.id in ${projectsOf(person, GUEST)}))`;
};

/**
 * Whether the actor can see the namespace row `alias`. A group whose IP restrictions exclude the actor, and everything
 * in it, is treated as for non-members: visible only if public.
 */
export const namespaceIsVisible = (actor: Actor, alias = 'namespaces'): RawBuilder<boolean> => {
  const reach = namespaceReach(actor, alias);
  if (actor.isAdmin || actor.userId === null || actor.closedGroups?.length)
    return sql<boolean>`(${sql.join(reach, sql` or `)})`;
  // Checked first, because finding the ancestors of all memberships takes longer and is rarely needed.
  const [isShown, isMine] = reach;
  const role = granted(NAMESPACE_ROLES, sql`1`, { user: actor.userId, place: sql.ref(`${alias}.id`) });
  return sql<boolean>`(${isShown} or exists (${role} offset 0) or ${isMine})`;
};

/**
 * Returns the same test as separate conditions, at most one of which is true for a row. Sorted lists run them one after
 * the other, because no index returns the rows of all of them in order.
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
 * How to look memberships up. With `any` the planner may collect all memberships first, which suits many rows. `each`
 * checks row by row, for lists that read few rows of users with many memberships.
 */
export type MembershipLookup = 'any' | 'each';

/**
 * Whether the actor can see the project row `alias`. Only administrators see hidden projects and those being deleted.
 */
export const projectIsVisible = (
  actor: Actor,
  alias = 'projects',
  lookup: MembershipLookup = 'any',
): RawBuilder<boolean> => {
  const row = (column: string) => sql.ref(`${alias}.${column}`);
  if (actor.isAdmin) return sql<boolean>`true`;
  const there = sql<boolean>`not ${row('hidden')} and not ${row('pending_delete')}`;
  const open = projectIsOpen(actor, alias);
  if (actor.userId === null) return sql<boolean>`(${there} and ${open})`;
  return sql<boolean>`(${there} and (${open} or ${projectIsMine(actor, GUEST, alias, lookup)}))`;
};

/** Whether the actor can see the project row `alias` without membership. */
export const projectIsOpen = (actor: Actor, alias = 'projects'): RawBuilder<boolean> => {
  const visibility = sql.ref(`${alias}.visibility_level`);
  const label = actor.isAdmin ? null : labelIsOpen(actor, alias);
  const isShown = sql<boolean>`${visibility} >= ${sql.lit(openFrom(actor))}`;
  const open = label ? sql<boolean>`(${isShown} and ${label})` : isShown;
  const closed = actor.isAdmin ? null : closedTo(actor);
  if (!closed) return open;
  return sql<boolean>`(${open} and (${visibility} >= ${sql.lit(PUBLIC)}
    or ${sql.ref(`${alias}.namespace_id`)} not in ${closedNamespaces(closed)}))`;
};

/** Whether the user has at least `least` on the project row `alias`. */
export const projectIsMine = (
  person: Person,
  least: number | RawBuilder<number> = GUEST,
  alias = 'projects',
  lookup: MembershipLookup = 'any',
): RawBuilder<boolean> => {
  // `offset 0` keeps the planner from collecting the set first.
  const end = lookup === 'each' ? sql` offset 0` : sql``;
  const ways = Object.values(PROJECT_ROLES).map((grants) => {
    const place = sql.ref(`${alias}.${grants.comparedWith}`);
    return sql`exists (${granted(grants, sql`1`, { user: person.userId, place, least })}${end})`;
  });
  const mine = sql<boolean>`(${sql.join(ways, sql` or `)})`;
  const counting = rolesCount(person, alias);
  return counting ? sql<boolean>`(${mine} and ${counting})` : mine;
};

/**
 * Selects the projects on which the user has at least `least`, each once. Gives the same result as `projectIsMine`, but
 * starts from the memberships. It is a subselect with the columns of projects.
 */
export const projectsHeld = (person: Person, least: number | RawBuilder<number>): RawBuilder<unknown> => {
  const counting = rolesCount(person, 'p');
  const and = counting ? sql` and ${counting}` : sql``;
  return sql`(select p.* from projects p where p.namespace_id in ${namespacesOf(person, least)}${and}
    union all
    select p.* from projects p where p.id in ${projectsOf(person, least)}${and}
      and p.namespace_id not in ${namespacesOf(person, least)})`;
};

/**
 * The user's highest role on a namespace, 0 when they have none. `namespaceId` is a column or a value. Administrators
 * count as owners.
 */
export const namespaceLevel = (actor: Actor, namespaceId: RawBuilder<unknown>): RawBuilder<number> => {
  if (actor.isAdmin) return sql<number>`${sql.lit(OWNER)}`;
  if (actor.userId === null) return sql<number>`0`;
  const closed = closedTo(actor);
  const role = highest(NAMESPACE_ROLES, actor.userId, namespaceId);
  const level = sql<number>`coalesce(${role}, 0)`;
  return closed ? sql<number>`case when ${namespaceId} in ${closedNamespaces(closed)} then 0 else ${level} end` : level;
};

/** The highest role by one kind of grants, null when there is none. */
const highest = (grants: Grants, userId: number | null, place: RawBuilder<unknown>): RawBuilder<number | null> =>
  sql<number | null>`(${granted(grants, sql`max(${grants.level})`, { user: userId, place })})`;

/**
 * The user's highest roles on the project row `alias`, each null when they have none. `byShare` reads only the share
 * `s` of an outer query. The highest of the others is their role on the project.
 */
export const projectLevels = (person: Person, alias = 'projects') => {
  const counting = rolesCount(person, alias);
  const namespace = sql.ref(`${alias}.namespace_id`);
  const level = (grants: Grants, place: RawBuilder<unknown>) => {
    const role = highest(grants, person.userId, place);
    return counting ? sql<number | null>`case when ${counting} then ${role} end` : role;
  };
  const id = sql.ref(`${alias}.id`);
  return {
    byNamespace: level(PROJECT_ROLES.namespace, namespace),
    byMembership: level(PROJECT_ROLES.membership, id),
    byInvitation: level(PROJECT_ROLES.invitation, id),
    byShare: level(ROLES_BY_SHARE, id),
  };
};

/** The user's highest role on the project row `alias`, 0 when they have none. Administrators count as owners. */
export const projectLevel = (actor: Actor, alias = 'projects'): RawBuilder<number> => {
  if (actor.isAdmin) return sql<number>`${sql.lit(OWNER)}`;
  if (actor.userId === null) return sql<number>`0`;
  const { byNamespace, byMembership, byInvitation } = projectLevels(actor, alias);
  return sql<number>`greatest(${byNamespace}, ${byMembership}, ${byInvitation}, 0)`;
};
