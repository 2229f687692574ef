import { type RawBuilder, sql } from 'kysely';
import { projectLevels } from '#domains/access/policy.ts';
import { granted, PROJECT_ROLES } from '#domains/access/roles.ts';
import type { Actor } from '#platform/context.ts';
import { versionOf } from '#platform/db/row-cache.ts';
import { columnsOf, type NamespacePart, namespaceParts, type ProjectPart, wantsNamespace } from './parts.ts';

const NAMESPACE_PARTS = {
  ns_name: sql`n.name as ns_name`,
  ns_path: sql`n.path as ns_path`,
  ns_kind: sql`n.kind as ns_kind`,
  ns_full_path: sql`n.full_path as ns_full_path`,
  ns_full_name: sql`n.full_name as ns_full_name`,
  ns_visibility_level: sql`n.visibility_level as ns_visibility_level`,
} as const satisfies Record<NamespacePart, RawBuilder<unknown>>;
// The columns come from the row cache by version (cached-rows.ts), except a user's avatar, whose row has its own version.
const NAMESPACE_VERSION = sql`n.xmin as ns_xmin, n.ctid as ns_ctid,
  case n.kind when 'user' then (select u.avatar_key from users u where u.id = n.owner_id) end as ns_owner_avatar_key`;

const STATISTICS_COLUMNS = sql`s.commit_count as st_commit_count, s.repository_size as st_repository_size,
  s.wiki_size as st_wiki_size, s.lfs_objects_size as st_lfs_objects_size, s.job_artifacts_size as st_job_artifacts_size,
  s.pipeline_artifacts_size as st_pipeline_artifacts_size, s.packages_size as st_packages_size,
  s.snippets_size as st_snippets_size, s.uploads_size as st_uploads_size,
  s.container_registry_size as st_container_registry_size`;

// Few projects are imported, so a subselect is cheaper than the join that the planner would choose.
const IMPORT = sql`
  (select array[i.status, i.import_error] from project_imports i where i.project_id = projects.id) as import_state`;

const OWNER_SUMMARY = sql`
  case when o.id is not null then json_build_object('id', o.id, 'username', o.username, 'name', o.name,
    'state', o.state, 'locked_until', o.locked_until::text, 'avatar_key', o.avatar_key,
    'public_email', o.public_email, 'created_at', o.created_at::text) end as owner`;

/** Returns the select list for the parts. `sqlFrom` joins the tables that it refers to. */
export const selectList = (actor: Actor, parts: readonly ProjectPart[]): RawBuilder<unknown> => {
  const wanted = new Set(parts);
  // All columns come from the row cache by version (cached-rows.ts).
  const list: RawBuilder<unknown>[] = wanted.has('columns')
    ? [sql`projects.id, projects.namespace_id, ${versionOf('projects')}`]
    : columnsOf(parts).map((part) => sql.ref(`projects.${part}`));
  if (wanted.has('namespace')) {
    if (!wanted.has('columns') && !wanted.has('namespace_id')) list.push(sql`projects.namespace_id`);
    list.push(NAMESPACE_VERSION);
  } else for (const part of namespaceParts) if (wanted.has(part)) list.push(NAMESPACE_PARTS[part]);
  if (wanted.has('access_level') || wanted.has('permissions')) {
    // Administrators have Owner access everywhere. Their own memberships appear only in `permissions`.
    if (actor.userId !== null && (!actor.isAdmin || wanted.has('permissions'))) {
      list.push(levels(actor));
      if (!wanted.has('shared_with_groups')) list.push(sql`${projectLevels(actor).byInvitation} as level_by_share`);
    }
  }
  if (wanted.has('import')) list.push(IMPORT);
  if (wanted.has('shared_with_groups')) list.push(sharedWithGroups(actor));
  if (wanted.has('owner')) list.push(OWNER_SUMMARY);
  if (wanted.has('runners_token')) list.push(sql`projects.runners_token`);
  if (wanted.has('statistics')) list.push(STATISTICS_COLUMNS);
  return sql.join(list);
};

/**
 * Returns the columns of `projects` that the select list reads, for a subselect. Postgres carries every column of a
 * subselect along, also those that nothing reads. Not for the part `columns`.
 */
export const columnsRead = (parts: readonly ProjectPart[]): RawBuilder<unknown> => {
  const others = parts.includes('runners_token') ? ['runners_token'] : [];
  const names = new Set(['id', 'namespace_id', ...columnsOf(parts), ...others]);
  return sql.join(Array.from(names, (name) => sql.ref(`projects.${name}`)));
};

/** Returns `projects`, or joins that end with it, with everything that the parts need. */
export const sqlFrom = (
  parts: readonly ProjectPart[],
  projects: RawBuilder<unknown> = sql`projects`,
): RawBuilder<unknown> => {
  const wanted = new Set(parts);
  const joins: RawBuilder<unknown>[] = [projects];
  if (wantsNamespace(wanted) || wanted.has('owner')) {
    joins.push(sql`join namespaces n on n.id = projects.namespace_id`);
  }
  if (wanted.has('owner')) joins.push(sql`left join users o on o.id = n.owner_id`);
  if (wanted.has('statistics')) joins.push(sql`left join project_statistics s on s.project_id = projects.id`);
  return sql.join(joins, sql` `);
};

// Separate columns, because the record shows them separately. The highest of them is the caller's role
// (access/policy.ts).
const levels = (actor: Actor): RawBuilder<unknown> => {
  const { byNamespace, byMembership } = projectLevels(actor);
  const { membership } = PROJECT_ROLES;
  // Most people are members of groups alone. This is looked up once for all rows.
  const hasAny = sql`exists (${granted(membership, sql`1`, { user: actor.userId })})`;
  return sql`${byNamespace} as level_by_namespace, case when ${hasAny} then ${byMembership} end as level_by_membership`;
};

// Includes the level that each share gives the user, so that shares are looked up once. Groups whose visibility cannot
// be decided from that are checked afterwards: the condition would cost more than the rest of the page.
const sharedWithGroups = (actor: Actor): RawBuilder<unknown> => sql`
  (select json_agg(json_build_object('group_id', g.id, 'group_name', g.name, 'group_full_path', g.full_path,
      'group_access_level', s.access_level, 'expires_at', s.expires_at, 'visibility_level', g.visibility_level, 'level',
      ${projectLevels(actor).byShare}) order by s.id)
    from project_shares s join namespaces g on g.id = s.shared_with_id
    where s.project_id = projects.id) as shares`;
