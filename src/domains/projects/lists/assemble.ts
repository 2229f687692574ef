import { OWNER } from '#domains/access/model.ts';
import type { Actor } from '#platform/context.ts';
import type { RowVersion } from '#platform/db/row-cache.ts';
import type { EveryProjectPart, ProjectNamespace } from '../model.ts';
import { namespaceParts, type ProjectPart } from './parts.ts';

/**
 * A result row of the statement, before it is assembled. Only the requested parts are present, so callers get it as
 * `ProjectWith` those parts.
 */
export interface RawProject extends EveryProjectPart, RowVersion {
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
export type SharedGroup = EveryProjectPart['shared_with_groups'][number] & {
  readonly visibility_level: number;
  readonly level: number | null;
};

type ImportState = readonly [EveryProjectPart['import_status'], string | null];
const NOT_IMPORTED: ImportState = ['none', null];

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/**
 * Moves the joined columns to their places in the row. Changes the row itself, because spreading a hundred columns
 * costs as much as reading them. Keeps only the shared groups among `visibleGroups`; null keeps all.
 */
export const assemble = (
  actor: Actor,
  raw: Mutable<RawProject>,
  wanted: ReadonlySet<ProjectPart>,
  visibleGroups: ReadonlySet<number> | null = null,
): void => {
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
  if (wanted.has('statistics')) raw.statistics = statisticsOf(raw);
};

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

const statisticsOf = (raw: RawProject): EveryProjectPart['statistics'] =>
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
