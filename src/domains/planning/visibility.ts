import { type RawBuilder, sql } from 'kysely';
import { GUEST, PLANNER, REPORTER } from '#domains/access/model.ts';
import { namespaceIsVisible, projectIsMine, projectIsOpen, projectIsVisible } from '#domains/access/policy.ts';
import { can, type JudgedProject } from '#domains/projects/policy.ts';
import type { Actor, Context } from '#platform/context.ts';

// Access rights over many projects at once, as SQL over the rows `issues`, `merge_requests` and the joined `projects`.
// They must match the table in projects/policy.ts.

/** Requires that the actor can see the row `issues` in any project. */
export const issueIsVisible = (actor: Actor): RawBuilder<boolean> => {
  const { project, row } = issueVisibility(actor);
  return row ? sql<boolean>`(${project} and ${row})` : project;
};

/** The same in two parts: what the row `projects` must meet, and what both rows must. */
export const issueVisibility = (
  actor: Actor,
): { readonly project: RawBuilder<boolean>; readonly row?: RawBuilder<boolean> } => {
  if (actor.isAdmin) return { project: sql<boolean>`projects.issues_access_level <> 'disabled'` };
  const { userId } = actor;
  if (userId === null) {
    return {
      project: sql<boolean>`(${projectIsVisible(actor)} and projects.issues_access_level = 'enabled')`,
      row: sql<boolean>`not issues.confidential`,
    };
  }
  return {
    project: sql<boolean>`(${projectIsVisible(actor)}
      and (projects.issues_access_level = 'enabled'
        or (projects.issues_access_level = 'private' and ${projectIsMine(actor, GUEST)})))`,
    row: sql<boolean>`(not issues.confidential or ${concerns(userId)} or ${projectIsMine(actor, PLANNER)})`,
  };
};

/**
 * The same within a project whose issues the caller can read. Confidential issues require a Planner, author or
 * assignee.
 */
export const issueIsVisibleIn = (ctx: Pick<Context, 'actor'>, project: JudgedProject): RawBuilder<boolean> => {
  if (can(ctx, project, 'read_confidential_issue')) return sql<boolean>`true`;
  const { userId } = ctx.actor;
  if (userId === null) return sql<boolean>`not issues.confidential`;
  return sql<boolean>`(not issues.confidential or ${concerns(userId)})`;
};

/** Requires that the actor can see the row `merge_requests` in any project. */
export const mergeRequestIsVisible = (actor: Actor): RawBuilder<boolean> => {
  const parts = [sql.ref('projects.merge_requests_access_level'), sql.ref('projects.repository_access_level')];
  const areThere = sql<boolean>`(${parts[0]} <> 'disabled' and ${parts[1]} <> 'disabled')`;
  if (actor.isAdmin) return areThere;
  const areOpen = sql<boolean>`(${parts[0]} = 'enabled' and ${parts[1]} = 'enabled')`;
  const isOpen = sql<boolean>`(${projectIsOpen(actor)} and not projects.hidden and not projects.pending_delete)`;
  const { userId } = actor;
  if (userId === null) return sql<boolean>`(${isOpen} and ${areOpen})`;
  return sql<boolean>`(${areThere} and ((${isOpen} and ${areOpen})
    or (${projectIsVisible(actor)} and ${projectIsMine(actor, REPORTER)})))`;
};

/** Selects the ids of the group and of the groups below it that the actor can see. */
export const visibleGroupsFrom = (
  actor: Actor,
  groupId: number | RawBuilder<number>,
): RawBuilder<number> => sql<number>`(
  select n.id from namespaces n
  where n.traversal_ids @> array[${groupId}::bigint] and ${namespaceIsVisible(actor, 'n')})`;

const concerns = (userId: number): RawBuilder<boolean> => sql<boolean>`(issues.author_id = ${userId} or exists (
  select 1 from issue_assignees a where a.issue_id = issues.id and a.user_id = ${userId}))`;

/**
 * Requires that a label or milestone belongs to the project or group with this id. With `ancestors` it may also belong to
 * a group above, with `descendants` to a group below a group, as far as the caller can see it.
 */
export const isOwnedAround = (
  { actor }: Pick<Context, 'actor'>,
  table: 'labels' | 'milestones',
  { kind, id }: { readonly kind: 'group' | 'project'; readonly id: RawBuilder<number> },
  { ancestors, descendants }: { readonly [K in 'ancestors' | 'descendants']: boolean | null | undefined },
): RawBuilder<boolean> => {
  const owners = sql.raw(`${table}.namespace_id`);
  const parts = [kind === 'project' ? sql`${sql.raw(table)}.project_id = ${id}` : sql`${owners} = ${id}`];
  if (ancestors) {
    parts.push(
      kind === 'project'
        ? sql`${owners} = any (array(select unnest(n.traversal_ids) from projects p
            join namespaces n on n.id = p.namespace_id where p.id = ${id}))`
        : sql`${owners} = any (array(select unnest(n.traversal_ids) from namespaces n where n.id = ${id}))`,
    );
  }
  if (kind === 'group' && descendants) parts.push(sql`${owners} = any (array${visibleGroupsFrom(actor, id)})`);
  return sql<boolean>`(${sql.join(parts, sql` or `)})`;
};

/**
 * Requires that the actor can read the row `alias`, which is in `project`. The actor can see the issue, merge request or
 * commit.
 */
export const noteIsVisible = (
  actor: Actor,
  alias = 'notes',
  project: RawBuilder<unknown> = sql.ref(`${alias}.project_id`),
): RawBuilder<boolean> => {
  if (actor.isAdmin) return sql<boolean>`true`;
  const isOpen = sql<boolean>`not ${sql.ref(`${alias}.confidential`)}`;
  if (actor.userId === null) return isOpen;
  return sql<boolean>`(${isOpen} or exists (
    select 1 from projects where projects.id = ${project} and ${projectIsMine(actor, REPORTER)}))`;
};
