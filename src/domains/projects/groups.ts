import { type RawBuilder, sql } from 'kysely';
import { DEVELOPER, MAINTAINER, OWNER } from '#domains/access/model.ts';
import { namespaceLevel, namespacesOf } from '#domains/access/policy.ts';
import { groupsInvitedTo } from '#domains/access/roles.ts';
import { BY_NAME, type GroupRow, NAME_KEY, namespaceQuery, namespacesContaining } from '#domains/groups/queries.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf, searchedListOf } from '#platform/db/list.ts';
import type { ProjectRow } from './model.ts';
import { requireAbility } from './policy.ts';

/** Whether the group was invited to the project itself or to a group above it. */
export const INVITATION_RELATIONS = ['direct', 'inherited'] as const;
type InvitationRelation = (typeof INVITATION_RELATIONS)[number];

interface GroupSearch {
  /** Part of a name or path. */
  readonly search?: string | undefined;
}

export interface ProjectGroupFilter extends GroupSearch {
  readonly skipIds?: readonly number[] | undefined;
  /** Also groups that the project is shared with. */
  readonly withShared?: boolean | undefined;
  /** Limits the shared groups to those whose members get at least this level. */
  readonly sharedMinLevel?: number | undefined;
}

export interface InvitedGroupFilter extends GroupSearch {
  readonly relations?: readonly InvitationRelation[] | undefined;
  /** The caller's minimum level in the group. */
  readonly minLevel?: number | undefined;
}

/** Lists the groups above a project and those it is shared with, if the caller can see them. Ordered by name. */
export const listProjectGroups = (ctx: Context, project: ProjectRow, filter: ProjectGroupFilter): List<GroupRow> => {
  // One set of ids: with `or` between the two, Postgres checks every namespace of the hub.
  const ids = sql.join(
    [
      sql`select unnest(${project.namespace.traversal_ids}::bigint[])`,
      ...(filter.withShared ? [groupsInvitedTo('project', [project.id], filter.sharedMinLevel)] : []),
    ],
    sql` union all `,
  );
  let found = groups(ctx).where(sql<boolean>`namespaces.id in (${ids})`);
  if (filter.skipIds?.length) found = found.where(sql<boolean>`namespaces.id <> all (${filter.skipIds}::bigint[])`);
  return byName(ctx, found, filter);
};

/** Lists the groups invited to a project or to a group above it, if the caller can see them. Ordered by name. */
export const listInvitedGroups = (ctx: Context, project: ProjectRow, filter: InvitedGroupFilter): List<GroupRow> => {
  const { relations = INVITATION_RELATIONS, minLevel } = filter;
  const ways: RawBuilder<unknown>[] = [];
  if (relations.includes('direct')) {
    ways.push(groupsInvitedTo('project', [project.id]));
  }
  if (relations.includes('inherited')) {
    ways.push(groupsInvitedTo('namespace', project.namespace.traversal_ids));
  }
  const invited =
    ways.length === 0 ? sql<boolean>`false` : sql<boolean>`namespaces.id in (${sql.join(ways, sql` union all `)})`;
  let found = groups(ctx).where(invited);
  if (minLevel !== undefined && !ctx.actor.isAdmin) {
    found = found.where(sql<boolean>`namespaces.id in ${namespacesOf(ctx.actor, minLevel)}`);
  }
  return byName(ctx, found, filter);
};

/** Lists the groups that the caller may move a project into, ordered by name. @throws DomainError `forbidden` */
export const listTransferLocations = (ctx: Context, project: ProjectRow, filter: GroupSearch): List<GroupRow> => {
  requireAbility(ctx, project, 'transfer_project');
  const level = namespaceLevel(ctx.actor, sql.ref('namespaces.id'));
  // The same rule as `create_projects` in groups/policy.ts.
  const least = sql`case namespaces.project_creation_level when 'owner' then ${sql.lit(OWNER)}
    when 'maintainer' then ${sql.lit(MAINTAINER)} when 'developer' then ${sql.lit(DEVELOPER)} end`;
  let found = groups(ctx)
    .where('namespaces.id', '<>', project.namespace_id)
    .where('namespaces.deletion_marked_on', 'is', null)
    .where('namespaces.visibility_level', '>=', project.visibility_level);
  if (!ctx.actor.isAdmin) {
    found = found
      .where(sql<boolean>`namespaces.id in ${namespacesOf(ctx.actor, DEVELOPER)}`)
      .where(sql<boolean>`${level} >= ${least}`);
  }
  return byName(ctx, found, filter);
};

const groups = (ctx: Context) =>
  namespaceQuery(ctx).select(NAME_KEY.as('name_key')).where('namespaces.kind', '=', sql.lit('group'));

const byName = (ctx: Context, found: ReturnType<typeof groups>, { search }: GroupSearch): List<GroupRow> => {
  const term = search?.trim();
  return term
    ? searchedListOf(ctx.db, found, BY_NAME, 'asc', namespacesContaining(term))
    : listOf(ctx.db, found, BY_NAME, 'asc');
};
