import { type RawBuilder, sql } from 'kysely';
import { GUEST, OWNER } from '#domains/access/model.ts';
import type { Actor } from '#platform/context.ts';
import { type RowVersion, versionOf } from '#platform/db/row-cache.ts';
import type { Projects } from '#platform/db/tables.ts';
import { attributeNames } from './attributes.ts';
import type { ProjectColumns, ProjectDetails, ProjectNamespace } from './model.ts';

/** Columns that the hub itself writes. The settings follow from attributes.ts. */
const ownColumns = [
  'id',
  'namespace_id',
  'creator_id',
  'name',
  'path',
  'full_path',
  'visibility_level',
  'disk_path',
  'default_branch',
  'avatar_key',
  'archived',
  'star_count',
  'forks_count',
  'forked_from_id',
  'fork_network_id',
  'open_issues_count',
  'empty_repo',
  'readme_path',
  'repository_storage',
  'hidden',
  'pending_delete',
  'marked_for_deletion_on',
  'imported',
  'import_type',
  'import_url',
  'compliance_frameworks',
  'last_activity_at',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof Projects)[];

export type ProjectColumn = keyof ProjectColumns;
export const projectColumns: readonly ProjectColumn[] = [...ownColumns, ...attributeNames];

/** A column, all columns, or a joined or computed part. */
export type ProjectPart =
  | ProjectColumn
  | 'columns'
  | 'access_level'
  | 'namespace'
  | NamespacePart
  | 'import'
  | DetailPart;
/** One column of the namespace, for callers who do not need the others. */
export type NamespacePart = keyof typeof NAMESPACE_PARTS;
export type DetailPart =
  | 'permissions'
  | 'shared_with_groups'
  | 'forked_from'
  | 'owner'
  | 'runners_token'
  | 'statistics';

/** The parts of a whole `ProjectRow`. */
export const ROW: readonly ProjectPart[] = ['columns', 'access_level', 'namespace', 'import'];
export const DETAILS: readonly ProjectPart[] = [...ROW, 'permissions', 'shared_with_groups', 'forked_from'];

const NAMESPACE_PARTS = {
  ns_name: sql`n.name as ns_name`,
  ns_path: sql`n.path as ns_path`,
  ns_kind: sql`n.kind as ns_kind`,
  ns_full_path: sql`n.full_path as ns_full_path`,
  ns_full_name: sql`n.full_name as ns_full_name`,
  ns_visibility_level: sql`n.visibility_level as ns_visibility_level`,
} as const;
export const namespaceParts: readonly NamespacePart[] = [
  'ns_name',
  'ns_path',
  'ns_kind',
  'ns_full_path',
  'ns_full_name',
  'ns_visibility_level',
];

const PARTS: ReadonlySet<string> = new Set<ProjectPart>([
  ...namespaceParts,
  'columns',
  'access_level',
  'namespace',
  'import',
  'permissions',
  'shared_with_groups',
  'forked_from',
  'owner',
  'runners_token',
  'statistics',
]);

// The columns come from the row cache by version (row-cache.ts), except a user's avatar, whose row has its own version.
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

/** Returns the select list for the parts. `sqlFrom` joins the tables that it refers to. */
export const selectList = (actor: Actor, parts: readonly ProjectPart[]): RawBuilder<unknown> => {
  const wanted = new Set(parts);
  // All columns come from the row cache by version (row-cache.ts).
  const list: RawBuilder<unknown>[] = wanted.has('columns')
    ? [sql`projects.id, projects.namespace_id, ${versionOf('projects')}`]
    : parts.filter((part) => !PARTS.has(part)).map((part) => sql.ref(`projects.${part}`));
  if (wanted.has('namespace')) {
    if (!wanted.has('columns') && !wanted.has('namespace_id')) list.push(sql`projects.namespace_id`);
    list.push(NAMESPACE_VERSION);
  } else for (const part of namespaceParts) if (wanted.has(part)) list.push(NAMESPACE_PARTS[part]);
  if (wanted.has('access_level') || wanted.has('permissions')) {
    // Administrators have Owner access everywhere. Their own memberships appear only in `permissions`.
    if (actor.userId !== null && (!actor.isAdmin || wanted.has('permissions'))) {
      list.push(levels(actor.userId));
      if (!wanted.has('shared_with_groups')) list.push(levelByShare(actor.userId));
    }
  }
  if (wanted.has('import')) list.push(IMPORT);
  if (wanted.has('shared_with_groups')) list.push(sharedWithGroups(actor.userId));
  if (wanted.has('owner')) list.push(sql`o.id as owner_id, o.name as owner_name, o.created_at as owner_created_at`);
  if (wanted.has('runners_token')) list.push(sql`projects.runners_token`);
  if (wanted.has('statistics')) list.push(STATISTICS_COLUMNS);
  return sql.join(list);
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

const shapes = new WeakMap<readonly ProjectPart[], string>();
/** Returns a key for the parts that determine the text of a statement. */
export const partsShape = (parts: readonly ProjectPart[]): string => {
  const shape = shapes.get(parts) ?? parts.join();
  shapes.set(parts, shape);
  return shape;
};

// Separate columns, because the record shows them separately. The highest is the level (access/policy.ts:
// projectLevel).
const levels = (userId: number): RawBuilder<unknown> => sql`
  (select max(a.access_level) from namespace_access a
    where a.user_id = ${userId} and a.namespace_id = projects.namespace_id and a.expires_at > current_date) as level_by_namespace,
  (select m.access_level from members m
    where m.project_id = projects.id and m.user_id = ${userId} and m.access_level >= ${sql.lit(GUEST)}
      and (m.expires_at is null or m.expires_at > current_date)) as level_by_membership`;

const levelByShare = (userId: number): RawBuilder<unknown> => sql`
  (select max(least(s.access_level, a.access_level)) from project_shares s
    join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = ${userId} and not a.via_share
    where s.project_id = projects.id and a.expires_at > current_date
      and (s.expires_at is null or s.expires_at > current_date)) as level_by_share`;

// Includes the level that each share gives the user, so that shares are looked up once. Groups whose visibility cannot
// be decided from that are checked afterwards: the condition would cost more than the rest of the page.
const sharedWithGroups = (userId: number | null): RawBuilder<unknown> => sql`
  (select json_agg(json_build_object('group_id', g.id, 'group_name', g.name, 'group_full_path', g.full_path,
      'group_access_level', s.access_level, 'expires_at', s.expires_at, 'visibility_level', g.visibility_level, 'level',
      (select max(least(s.access_level, a.access_level)) from namespace_access a
        where a.namespace_id = s.shared_with_id and a.user_id = ${userId} and not a.via_share
          and a.expires_at > current_date and (s.expires_at is null or s.expires_at > current_date))) order by s.id)
    from project_shares s join namespaces g on g.id = s.shared_with_id
    where s.project_id = projects.id) as shares`;

/** A result row of the statement: an unfinished `ProjectDetails`, limited to the requested parts. */
export interface RawProject extends ProjectDetails, RowVersion {
  readonly ns_name: string;
  readonly ns_path: string;
  readonly ns_kind: string;
  readonly ns_full_path: string;
  readonly ns_full_name: string;
  readonly ns_visibility_level: number;
  readonly ns_xmin: RowVersion['row_xmin'];
  readonly ns_ctid: RowVersion['row_ctid'];
  readonly ns_owner_avatar_key: string | null;
  readonly level_by_namespace: number | null;
  readonly level_by_membership: number | null;
  readonly level_by_share: number | null;
  /** Replaces it and `shared_with_groups`, if both are requested. */
  readonly shares?: readonly SharedGroup[] | null;
  readonly import_state?: ImportState | null;
  readonly owner_id: number | null;
  readonly owner_name: string | null;
  readonly owner_created_at: string | null;
  readonly st_commit_count: number | null;
  readonly st_repository_size: number;
  readonly st_wiki_size: number;
  readonly st_lfs_objects_size: number;
  readonly st_job_artifacts_size: number;
  readonly st_pipeline_artifacts_size: number;
  readonly st_packages_size: number;
  readonly st_snippets_size: number;
  readonly st_uploads_size: number;
  readonly st_container_registry_size: number;
  /** The number of all matches, if the page was cut out of them. */
  readonly total?: number | null;
  /** The snapshot that the page was read from, if it may be counted. */
  readonly seen?: string;
  readonly sort_key?: string | number | boolean | null;
}

/** A group that the project is shared with, and the caller's level on the project through that group. */
export type SharedGroup = ProjectDetails['shared_with_groups'][number] & {
  readonly visibility_level: number;
  readonly level: number | null;
};

type ImportState = readonly [ProjectDetails['import_status'], string | null];
const NOT_IMPORTED: ImportState = ['none', null];

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Moves the joined columns to their places in the row. Changes the row itself, because spreading a hundred columns
 * costs as much as reading them. Keeps only the shared groups among `visibleGroups`; null keeps all. Parts that were
 * not requested stay absent, despite the type: callers who limit the parts read only those.
 */
export const assemble = (
  actor: Actor,
  raw: Mutable<RawProject>,
  wanted: ReadonlySet<ProjectPart>,
  visibleGroups: ReadonlySet<number> | null = null,
): ProjectDetails => {
  if (namespaceParts.some((part) => wanted.has(part)) && !wanted.has('namespace')) raw.namespace = partOfNamespace(raw);
  const byShare = raw.shares?.reduce((most, { level }) => Math.max(most, level ?? 0), 0) ?? raw.level_by_share ?? 0;
  const groups = Math.max(raw.level_by_namespace ?? 0, byShare);
  const member = raw.level_by_membership ?? 0;
  if (wanted.has('access_level')) raw.access_level = actor.isAdmin ? OWNER : Math.max(groups, member);
  if (wanted.has('permissions')) {
    // Clients expect the owner of a personal namespace to be a member of the project itself.
    const personal = raw.namespace.kind === 'user';
    raw.project_access = (personal ? Math.max(groups, member) : member) || null;
    raw.group_access = (personal ? 0 : groups) || null;
  }
  if (wanted.has('import')) [raw.import_status, raw.import_error] = raw.import_state ?? NOT_IMPORTED;
  if (wanted.has('shared_with_groups')) {
    raw.shared_with_groups = (raw.shares ?? [])
      .filter(({ group_id }) => visibleGroups === null || visibleGroups.has(group_id))
      .map(({ level: _, visibility_level: __, ...group }) => group);
  }
  if (wanted.has('owner')) {
    raw.owner =
      raw.owner_id === null || raw.owner_name === null || raw.owner_created_at === null
        ? null
        : { id: raw.owner_id, name: raw.owner_name, created_at: raw.owner_created_at };
  }
  if (wanted.has('statistics')) raw.statistics = statisticsOf(raw);
  return raw;
};

const wantsNamespace = (wanted: ReadonlySet<ProjectPart>): boolean =>
  wanted.has('namespace') || namespaceParts.some((part) => wanted.has(part));

/** Returns the requested columns of the namespace. Nothing reads the others. */
const partOfNamespace = (raw: RawProject): ProjectNamespace => ({
  id: raw.namespace_id,
  name: raw.ns_name,
  path: raw.ns_path,
  kind: raw.ns_kind,
  full_path: raw.ns_full_path,
  full_name: raw.ns_full_name,
  parent_id: null,
  owner_id: null,
  visibility_level: raw.ns_visibility_level,
  traversal_ids: [],
  deletion_marked_on: null,
  avatar_key: null,
});

const statisticsOf = (raw: RawProject): ProjectDetails['statistics'] =>
  raw.st_commit_count === null
    ? null
    : {
        commit_count: raw.st_commit_count,
        repository_size: raw.st_repository_size,
        wiki_size: raw.st_wiki_size,
        lfs_objects_size: raw.st_lfs_objects_size,
        job_artifacts_size: raw.st_job_artifacts_size,
        pipeline_artifacts_size: raw.st_pipeline_artifacts_size,
        packages_size: raw.st_packages_size,
        snippets_size: raw.st_snippets_size,
        uploads_size: raw.st_uploads_size,
        container_registry_size: raw.st_container_registry_size,
      };
