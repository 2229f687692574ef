import type { Selectable } from 'kysely';
import type { UserSummary } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import type { ProjectStatistics, Projects } from '#platform/db/tables.ts';
import { encodePath, webUrl } from '#platform/urls.ts';
import type { ContainerExpirationPolicy } from './attributes.ts';

/** All columns except the registration token, which few may see, and the user who marked the project. */
export interface ProjectColumns
  extends Omit<
    Selectable<Projects>,
    | 'runners_token'
    | 'runners_token_digest'
    | 'container_expiration_policy'
    | 'marked_for_deletion_by_id'
    | 'visibility_ceiling'
  > {
  readonly container_expiration_policy: ContainerExpirationPolicy;
}

export interface ProjectNamespace {
  readonly id: number;
  readonly name: string;
  readonly path: string;
  readonly kind: string;
  readonly full_path: string;
  readonly full_name: string;
  readonly parent_id: number | null;
  readonly owner_id: number | null;
  readonly visibility_level: number;
  readonly traversal_ids: readonly number[];
  /**
   * The day on which it, or the first of the groups above it, was marked for deletion. Everything in it is deleted with
   * it.
   */
  readonly deletion_marked_on: string | null;
  /** The group's own avatar, or its owner's for a personal namespace. */
  readonly avatar_key: string | null;
}

export const IMPORT_STATUSES = ['none', 'scheduled', 'started', 'finished', 'failed'] as const;
type ImportStatus = (typeof IMPORT_STATUSES)[number];
/** The type of an import of an archive. */
export const IMPORT_TYPE = 'gitlab_project';
/** The statuses of an import that is not finished. */
export const RUNNING_IMPORT = ['scheduled', 'started'] as const satisfies readonly ImportStatus[];

/** A whole project as the caller sees it. Code that reads less takes `ProjectWith` its parts (queries.ts). */
export interface ProjectRow extends ProjectColumns {
  /** The caller's highest level; 0 if none. */
  readonly access_level: number;
  readonly namespace: ProjectNamespace;
  readonly import_status: ImportStatus;
  readonly import_error: string | null;
  /** In lists: identifies this version of the row (platform/db/row-cache.ts). */
  readonly remembered?: object;
}

interface SharedGroup {
  readonly group_id: number;
  readonly group_name: string;
  readonly group_full_path: string;
  readonly group_access_level: number;
  readonly expires_at: string | null;
}

/** All that can be read of a project. No query reads all of it (`ProjectWith` in queries.ts). */
export interface EveryProjectPart extends ProjectRow {
  /** The caller's level as a member of the project itself, and through its groups. */
  readonly project_access: number | null;
  readonly group_access: number | null;
  readonly shared_with_groups: readonly SharedGroup[];
  /** The source of the fork, if the caller can see it. */
  readonly forked_from: (ProjectColumns & Pick<ProjectRow, 'access_level' | 'namespace'>) | null;
  readonly owner: (UserSummary & { readonly created_at: string }) | null;
  readonly runners_token: Buffer | null;
  readonly statistics: StatisticsRow | null;
}

export type StatisticsRow = Omit<Selectable<ProjectStatistics>, 'project_id'>;

/** Returns the scope of a project's events: `tx.emit(kind, { ...projectScope(project), subject, payload })`. */
export const projectScope = (project: Pick<ProjectRow, 'id' | 'namespace' | 'visibility_level'>) => ({
  project_id: project.id,
  namespace_ids: project.namespace.traversal_ids,
  visibility_level: project.visibility_level,
});

/** Returns the first day on which the project or a group above it was marked for deletion. */
export const markedForDeletionOn = (
  project: Pick<ProjectRow, 'marked_for_deletion_on' | 'namespace'>,
): string | null => {
  const [own, groups] = [project.marked_for_deletion_on, project.namespace.deletion_marked_on];
  return own === null || (groups !== null && groups < own) ? groups : own;
};

/** `Group / Subgroup / Project`. */
export const nameWithNamespace = (project: Pick<ProjectRow, 'name' | 'namespace'>): string =>
  `${project.namespace.full_name} / ${project.name}`;

export const projectWebUrl = (ctx: Pick<Context, 'services'>, project: Pick<ProjectRow, 'full_path'>): string =>
  webUrl(ctx, project.full_path);

export const httpUrlToRepo = (ctx: Pick<Context, 'services'>, project: Pick<ProjectRow, 'full_path'>): string =>
  webUrl(ctx, `${project.full_path}.git`);

/** Returns the address that an SSH server beside the hub would have. The hub itself serves git over HTTP only. */
export const sshUrlToRepo = ({ services }: Pick<Context, 'services'>, project: Pick<ProjectRow, 'full_path'>): string =>
  `git@${hostOf(services.urls.base)}:${project.full_path}.git`;

/** Returns the avatar's URL, or null if there is none. */
export const projectAvatarUrl = (
  ctx: Pick<Context, 'services'>,
  { id, avatar_key }: Pick<ProjectRow, 'id' | 'avatar_key'>,
): string | null =>
  avatar_key === null
    ? null
    : webUrl(ctx, `uploads/-/system/project/avatar/${id}/${avatar_key.slice(avatar_key.lastIndexOf('/') + 1)}`);

export const readmeUrl = (
  ctx: Pick<Context, 'services'>,
  project: Pick<ProjectRow, 'full_path' | 'readme_path' | 'default_branch'>,
): string | null => (project.readme_path === null ? null : blobUrl(ctx, project, project.readme_path));

/** Returns the web URL of a file in the default branch; null if there is no such branch. */
export const blobUrl = (
  ctx: Pick<Context, 'services'>,
  project: Pick<ProjectRow, 'full_path' | 'default_branch'>,
  path: string,
): string | null =>
  project.default_branch === null
    ? null
    : webUrl(ctx, `${project.full_path}/-/blob/${inUrl(project.default_branch)}/${inUrl(path)}`);

/** Encodes a path for a URL, if it has characters that would change the URL's meaning. */
const inUrl = (path: string): string => (/^[\w./-]*$/.test(path) ? path : encodePath(path));

/** Returns the prefix of the project's image names in a registry on this host. */
export const registryPrefix = (
  { services }: Pick<Context, 'services'>,
  project: Pick<ProjectRow, 'full_path'>,
): string => `${hostOf(services.urls.base)}/${project.full_path.toLowerCase()}`;

/** Returns the sum of all sizes, for `storage_size`. */
export const storageSize = (sizes: StatisticsRow): number =>
  sizes.repository_size +
  sizes.wiki_size +
  sizes.lfs_objects_size +
  sizes.job_artifacts_size +
  sizes.pipeline_artifacts_size +
  sizes.packages_size +
  sizes.snippets_size +
  sizes.uploads_size;

const hostOf = (base: string): string => new URL(base).hostname;
