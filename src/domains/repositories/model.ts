import { projectWebUrl } from '#domains/projects/model.ts';
import { POLICY_COLUMNS } from '#domains/projects/policy.ts';
import type { ProjectWith } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { RefUpdate } from '#platform/git/http.ts';
import type { Commit } from '#platform/git/objects.ts';
import { encodePath } from '#platform/urls.ts';

export type { RefUpdate } from '#platform/git/http.ts';
export type { Commit } from '#platform/git/objects.ts';

/** The parts of a project that readers of its repository need. */
export const REPOSITORY_PARTS = [
  'id',
  ...POLICY_COLUMNS,
  'access_level',
  'disk_path',
  'default_branch',
  'empty_repo',
  'full_path',
] as const;
export type RepositoryProject = ProjectWith<typeof REPOSITORY_PARTS>;

export const BRANCHES = 'refs/heads/';
export const TAGS = 'refs/tags/';

export const branchRef = (name: string): string => BRANCHES + name;
export const tagRef = (name: string): string => TAGS + name;

/** Returns the name of the branch for a full ref, or null for other refs. */
export const branchName = (ref: string): string | null =>
  ref.startsWith(BRANCHES) ? ref.slice(BRANCHES.length) : null;
export const tagName = (ref: string): string | null => (ref.startsWith(TAGS) ? ref.slice(TAGS.length) : null);

/** A branch (specification 1 §2.4). */
export interface Branch {
  readonly name: string;
  readonly merged: boolean;
  readonly protected: boolean;
  readonly default: boolean;
  readonly developers_can_push: boolean;
  readonly developers_can_merge: boolean;
  readonly can_push: boolean;
  readonly commit: Commit;
}

export interface Tag {
  readonly name: string;
  /** The tag object of an annotated tag, else the commit. */
  readonly target: string;
  readonly message: string;
  /** The time of an annotated tag. Null for a lightweight tag. */
  readonly created_at: string | null;
  readonly protected: boolean;
  /** Null for a tag of an object that is not a commit. */
  readonly commit: Commit | null;
  readonly release: { readonly tag_name: string; readonly description: string | null } | null;
}

/** Returns whether the pattern matches the name. `*` matches any characters, including slashes. Linear in the name. */
export const matchesPattern = (pattern: string, name: string): boolean => {
  const parts = pattern.split('*');
  if (parts.length === 1) return pattern === name;
  const first = parts[0] ?? '';
  const last = parts.at(-1) ?? '';
  if (name.length < first.length + last.length || !name.startsWith(first) || !name.endsWith(last)) return false;
  let at = first.length;
  const end = name.length - last.length;
  for (const part of parts.slice(1, -1)) {
    const found = name.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
};

type Addressed = Pick<RepositoryProject, 'full_path'>;

export const branchWebUrl = (ctx: Pick<Context, 'services'>, project: Addressed, name: string): string =>
  `${projectWebUrl(ctx, project)}/-/tree/${encodePath(name)}`;

export const commitWebUrl = (ctx: Pick<Context, 'services'>, project: Addressed, id: string): string =>
  `${projectWebUrl(ctx, project)}/-/commit/${id}`;

/** Returns the page path of a file or folder (`kind`) at a revision. */
export const contentPath = (
  project: Addressed,
  kind: 'blob' | 'tree' | 'raw',
  revision: string,
  path: string,
): string => `/${project.full_path}/-/${kind}/${encodePath(path === '' ? revision : `${revision}/${path}`)}`;

/** Returns whether the update changes anything. A push may repeat a ref or send its current value. */
export const isChange = ({ oldOid, newOid }: RefUpdate): boolean => oldOid !== newOid;
