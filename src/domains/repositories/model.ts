import { type ProjectRow, projectWebUrl } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import type { Commit, RefUpdate } from '#platform/git/types.ts';

export type { Commit, RefUpdate } from '#platform/git/types.ts';

export const BRANCHES = 'refs/heads/';
export const TAGS = 'refs/tags/';

/** How webhook bodies write "does not exist". */
export const ZERO_OID = '0'.repeat(40);

export const branchRef = (name: string): string => BRANCHES + name;
export const tagRef = (name: string): string => TAGS + name;

/** The branch's name in a full ref; null for any other ref. */
export const branchName = (ref: string): string | null =>
  ref.startsWith(BRANCHES) ? ref.slice(BRANCHES.length) : null;
export const tagName = (ref: string): string | null => (ref.startsWith(TAGS) ? ref.slice(TAGS.length) : null);

/** A branch as spec 1 §2.4 tells of it. */
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
  /** Of an annotated tag. */
  readonly created_at: string | null;
  readonly protected: boolean;
  /** Null for a tag of something that is no commit. */
  readonly commit: Commit | null;
  readonly release: { readonly tag_name: string; readonly description: string | null } | null;
}

/** Whether the name is meant by a rule: `*` stands for any run of characters, slashes too. Linear in the name. */
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

type Addressed = Pick<ProjectRow, 'full_path'>;

export const branchWebUrl = (ctx: Pick<Context, 'services'>, project: Addressed, name: string): string =>
  `${projectWebUrl(ctx, project)}/-/tree/${encodePath(name)}`;

export const commitWebUrl = (ctx: Pick<Context, 'services'>, project: Addressed, id: string): string =>
  `${projectWebUrl(ctx, project)}/-/commit/${id}`;

/** Where pages show a file or folder (`kind`) of a revision. */
export const contentPath = (
  project: Addressed,
  kind: 'blob' | 'tree' | 'raw',
  revision: string,
  path: string,
): string => `/${project.full_path}/-/${kind}/${encodePath(path === '' ? revision : `${revision}/${path}`)}`;

const GENERATED =
  /(?:^|\/)(?:package-lock\.json|npm-shrinkwrap\.json|pnpm-lock\.yaml|yarn\.lock|Cargo\.lock|Gemfile\.lock|Pipfile\.lock|poetry\.lock|composer\.lock|go\.sum)$|\.min\.(?:js|css)$|\.(?:js|css)\.map$|\.pb\.go$|_pb2\.py$/;

/** Whether a tool writes files of this name, so that their changes are of little interest. */
export const isGenerated = (path: string): boolean => GENERATED.test(path);

const encodePath = (path: string): string => path.split('/').map(encodeURIComponent).join('/');

/** Whether anything of this would change: a push may name a ref twice over, or what is so already. */
export const isChange = ({ oldOid, newOid }: RefUpdate): boolean => oldOid !== newOid;
