import { requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import type { CursorValues } from '#platform/cursor.ts';
import type { List, Window } from '#platform/db/list.ts';
import { badParameters, notFound } from '#platform/errors.ts';
import type { TreeEntry } from '#platform/git/objects.ts';
import type { Commit, RepositoryProject } from '../model.ts';
import { requireRevision } from './revisions.ts';

export type { TreeEntry } from '#platform/git/objects.ts';

export interface TreePlace {
  /** Defaults to the root. */
  readonly path?: string | undefined;
  /** A branch, tag or commit id. Defaults to the default branch. */
  readonly ref?: string | undefined;
  readonly recursive?: boolean | undefined;
}

/** A folder at one commit, or a file in place of it. */
export interface Folder {
  readonly commit_id: string;
  /** Null for a file, which has no entries. */
  readonly tree_id: string | null;
  /** Without a trailing slash. Empty for the root. */
  readonly path: string;
}

/**
 * Returns the folder or the file at the path.
 *
 * @throws DomainError `not_found` (Tree) without such a revision, (invalid revision or path) with nothing at the path
 */
export const getTree = async (ctx: Context, project: RepositoryProject, { path, ref }: TreePlace): Promise<Folder> => {
  requireAbility(ctx, project, 'read_code');
  const { git } = ctx.services;
  const commit_id = await requireRevision(ctx, project, ref, 'Tree');
  const name = (path ?? '').replace(/^\/|\/+$/g, '');
  if (name === '') {
    const tree_id = await git.treeOf(project.disk_path, commit_id);
    if (tree_id === null) throw notFound('Tree');
    return { commit_id, tree_id, path: '' };
  }
  const entry = await git.findFile(project.disk_path, commit_id, name);
  if (entry?.type !== 'tree' && entry?.type !== 'blob') throw notFound('invalid revision or path');
  return { commit_id, tree_id: entry.type === 'tree' ? entry.oid : null, path: name };
};

/**
 * @throws DomainError `not_found` (Tree) without such a revision, (invalid revision or path) without a folder at the
 * path
 */
export const getFolder = async (ctx: Context, project: RepositoryProject, place: TreePlace): Promise<Folder> => {
  const tree = await getTree(ctx, project, place);
  if (tree.tree_id === null) throw notFound('invalid revision or path');
  return tree;
};

/**
 * Returns the content of the folder: folders first, then files, then submodules. The cursor is the path. Reads git only
 * as far as the page needs.
 */
export const listEntries = (
  ctx: Context,
  project: RepositoryProject,
  folder: Folder,
  { recursive = false, type }: { readonly recursive?: boolean; readonly type?: TreeEntry['type'] } = {},
): List<TreeEntry> => {
  const walkAll = () =>
    folder.tree_id === null
      ? nothing()
      : ctx.services.git.walkTree(project.disk_path, folder.tree_id, {
          recursive,
          prefix: folder.path === '' ? '' : `${folder.path}/`,
          signal: ctx.signal,
        });
  const walk = () => (type === undefined ? walkAll() : ofType(walkAll(), type));
  return {
    rows: (window) => readWindow(walk(), window),
    count: async (atMost) => {
      let count = 0;
      for await (const _entry of walk()) {
        count += 1;
        if (count > atMost) break;
      }
      return count;
    },
    cursorOf: ({ path }) => [path],
  };
};

async function* nothing(): AsyncGenerator<never> {}

async function* ofType(entries: AsyncIterable<TreeEntry>, type: TreeEntry['type']): AsyncGenerator<TreeEntry> {
  for await (const entry of entries) {
    if (entry.type === type) yield entry;
    else if (type === 'tree') return; // folders come first
  }
}

const readWindow = async (entries: AsyncIterable<TreeEntry>, window: Window): Promise<TreeEntry[]> => {
  const { limit, offset = 0 } = window;
  const after = pathIn(window.after);
  const before = pathIn(window.before);
  const rows: TreeEntry[] = [];
  let begun = after === null;
  let skipped = 0;
  for await (const entry of entries) {
    if (!begun) begun = entry.path === after;
    else if (entry.path === before) break;
    else if (skipped < offset) skipped += 1;
    else rows.push(entry);
    // Backwards, keep the last rows.
    if (window.backwards && rows.length > limit) rows.shift();
    else if (!window.backwards && rows.length >= limit) break;
  }
  if (!begun) throw badParameters('page_token is invalid');
  return window.backwards ? rows.toReversed() : rows;
};

const pathIn = (cursor: CursorValues | null | undefined): string | null =>
  typeof cursor?.[0] === 'string' ? cursor[0] : null;

/** Returns the last commit that changed the folder or file. */
export const lastCommitOfFolder = async (
  ctx: Context,
  project: RepositoryProject,
  folder: Folder,
): Promise<Commit | null> => {
  const { git } = ctx.services;
  const oid =
    folder.path === ''
      ? folder.commit_id
      : await git.lastCommitOf(project.disk_path, folder.commit_id, folder.path, { signal: ctx.signal });
  const [commit = null] = oid === null ? [] : await git.readCommits(project.disk_path, [oid]);
  return commit;
};
