import type { Selectable } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { ProjectStatistics, Projects } from '#platform/db/tables.ts';
import { webUrl } from '#platform/urls.ts';
import type { ContainerExpirationPolicy } from './attributes.ts';

/** All columns but the runners' token, which few may see, and who marked it. */
export interface ProjectColumns
  extends Omit<Selectable<Projects>, 'runners_token' | 'container_expiration_policy' | 'marked_for_deletion_by_id'> {
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
  /** The day that it, or the first of the groups above it, was marked for deletion: all in it goes with it. */
  readonly deletion_marked_on: string | null;
  /** Its own, or for a personal namespace its owner's. */
  readonly avatar_key: string | null;
}

type ImportStatus = 'none' | 'scheduled' | 'started' | 'finished' | 'failed';

/** A project as the caller meets it. */
export interface ProjectRow extends ProjectColumns {
  /** The caller's highest level, 0 when none. */
  readonly access_level: number;
  readonly namespace: ProjectNamespace;
  readonly import_status: ImportStatus;
  readonly import_error: string | null;
  /** In lists: what stands for this version of the row (platform/db/row-cache.ts). */
  readonly remembered?: object;
}

interface SharedGroup {
  readonly group_id: number;
  readonly group_name: string;
  readonly group_full_path: string;
  readonly group_access_level: number;
  readonly expires_at: string | null;
}

/** What the full REST record tells beyond the row. */
export interface ProjectDetails extends ProjectRow {
  /** The caller's level as a member of the project itself, and through its groups. */
  readonly project_access: number | null;
  readonly group_access: number | null;
  readonly shared_with_groups: readonly SharedGroup[];
  /** What it was forked from, if the caller may see that. */
  readonly forked_from: ProjectRow | null;
  readonly owner: { readonly id: number; readonly name: string; readonly created_at: string } | null;
  readonly runners_token: Buffer | null;
  readonly statistics: StatisticsRow | null;
}

export type StatisticsRow = Omit<Selectable<ProjectStatistics>, 'project_id'>;

/** Where events of a project belong: `tx.emit(kind, { ...projectScope(project), subject, payload })`. */
export const projectScope = (project: Pick<ProjectRow, 'id' | 'namespace'>) => ({
  project_id: project.id,
  namespace_ids: project.namespace.traversal_ids,
});

/** The day from which on the project is about to go: it was marked itself, or a group that it lies in. */
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

/** The address an SSH server beside the hub would have; the hub itself speaks git over HTTP alone. */
export const sshUrlToRepo = ({ services }: Pick<Context, 'services'>, project: Pick<ProjectRow, 'full_path'>): string =>
  `git@${hostOf(services.urls.base)}:${project.full_path}.git`;

/** Where the avatar can be fetched, or null when there is none. */
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

/** Where a file of the default branch is shown; null where there is no such branch. */
export const blobUrl = (
  ctx: Pick<Context, 'services'>,
  project: Pick<ProjectRow, 'full_path' | 'default_branch'>,
  path: string,
): string | null =>
  project.default_branch === null
    ? null
    : webUrl(ctx, `${project.full_path}/-/blob/${inUrl(project.default_branch)}/${inUrl(path)}`);

/** A path as URLs hold it: what would end it, or be read as something else, is encoded. */
const inUrl = (path: string): string =>
  /^[\w./-]*$/.test(path) ? path : path.split('/').map(encodeURIComponent).join('/');

/** What image names of the project would begin with in a registry on this host. */
export const registryPrefix = (
  { services }: Pick<Context, 'services'>,
  project: Pick<ProjectRow, 'full_path'>,
): string => `${hostOf(services.urls.base)}/${project.full_path.toLowerCase()}`;

/** All sizes together, as `storage_size` tells. */
export const storageSize = (sizes: StatisticsRow): number =>
  sizes.repository_size +
  sizes.wiki_size +
  sizes.lfs_objects_size +
  sizes.job_artifacts_size +
  sizes.pipeline_artifacts_size +
  sizes.packages_size +
  sizes.snippets_size +
  sizes.uploads_size;

let known: { base: string; host: string } | null = null;
/** Asked for on every row of a list: remembered. */
const hostOf = (base: string): string => {
  if (known?.base !== base) known = { base, host: new URL(base).hostname };
  return known.host;
};
