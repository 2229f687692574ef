import { GitError } from '../git-error.ts';
import type { FileChange } from '../writing.ts';

const MAX_PATH_BYTES = 4_096;
/** Limits all paths with their parent folders, in characters: deep paths could otherwise reach gigabytes. */
const MAX_CHARACTERS = 16 * 1024 * 1024;

/** The entry at a path of the tree that the changes start from. */
export interface Standing {
  readonly mode: string;
  readonly type: string;
  readonly oid: string;
}

/** A file after the changes. Its source is an existing object, or the content of the change at this index. */
export interface PlannedFile {
  readonly path: string;
  readonly mode: string;
  readonly source: { readonly oid: string } | { readonly change: number };
}

export interface FilePlan {
  readonly files: readonly PlannedFile[];
  readonly removed: readonly string[];
}

/**
 * Returns the paths whose entries decide whether the changes are possible: their own paths and all parent folders.
 *
 * @throws GitError `invalid` for an invalid path, or if there are too many folders in total
 */
export const pathsOf = (changes: readonly FileChange[]): string[] => {
  const paths = new Set<string>();
  let characters = 0;
  for (const { path, previousPath } of changes) {
    for (const name of previousPath === undefined ? [path] : [path, previousPath]) {
      if (!validFilePath(name)) throw invalid('The file path is not valid');
      for (const each of [...foldersOf(name), name]) {
        characters += each.length;
        if (characters > MAX_CHARACTERS) throw invalid('The file paths contain too many folders');
        paths.add(each);
      }
    }
  }
  return [...paths];
};

/**
 * Applies the changes one after the other. @throws GitError `invalid` for a change that is not possible at its position
 */
export const planFiles = (changes: readonly FileChange[], standing: ReadonlyMap<string, Standing>): FilePlan => {
  const placed = new Map<string, PlannedFile | null>();
  /** The number of files that the changes have put below each folder. */
  const below = new Map<string, number>();

  const find = (path: string): PlannedFile | null => {
    const mine = placed.get(path);
    if (mine !== undefined) return mine;
    const found = standing.get(path);
    return found && found.type !== 'tree' ? { path, mode: found.mode, source: { oid: found.oid } } : null;
  };
  const isFolder = (path: string) => standing.get(path)?.type === 'tree' || (below.get(path) ?? 0) > 0;
  const count = (path: string, by: number) => {
    for (const folder of foldersOf(path)) below.set(folder, (below.get(folder) ?? 0) + by);
  };
  const put = (file: PlannedFile) => {
    if (!placed.get(file.path)) count(file.path, 1);
    placed.set(file.path, file);
  };
  const remove = (path: string) => {
    if (placed.get(path)) count(path, -1);
    placed.set(path, null);
  };
  const existing = (path: string): PlannedFile => {
    const found = find(path);
    if (!found) throw invalid("A file with this name doesn't exist");
    if (found.mode === SUBMODULE) throw invalid('The path is not a file');
    return found;
  };
  const vacant = (path: string) => {
    if (find(path)) throw invalid('A file with this name already exists');
    if (isFolder(path)) throw invalid('A directory with this name already exists');
    if (foldersOf(path).some((folder) => find(folder) !== null)) {
      throw invalid('A path is used both as a file and as a folder');
    }
  };

  for (const [at, change] of changes.entries()) {
    const { action, path, mode } = change;
    const content = change.content === undefined ? null : { change: at };
    if (action === 'create') {
      vacant(path);
      if (!content) throw invalid('The file content is missing');
      put({ path, mode: mode ?? REGULAR, source: content });
    } else if (action === 'move') {
      const from = existing(change.previousPath ?? '');
      remove(from.path);
      vacant(path);
      put({ path, mode: mode ?? from.mode, source: content ?? from.source });
    } else {
      const now = existing(path);
      if (action === 'delete') remove(path);
      else if (action === 'update') {
        if (!content) throw invalid('The file content is missing');
        put({ path, mode: mode ?? now.mode, source: content });
      } else {
        if (now.mode !== REGULAR && now.mode !== EXECUTABLE) throw invalid('The path is not a regular file');
        put({ path, mode: mode ?? now.mode, source: now.source });
      }
    }
  }
  return {
    files: [...placed.values()].filter((file) => file !== null),
    removed: [...placed].flatMap(([path, file]) => (file === null && standing.has(path) ? [path] : [])),
  };
};

const REGULAR = '100644';
const EXECUTABLE = '100755';
const SUBMODULE = '160000';

/** `a/b/c` → `a`, `a/b`. */
const foldersOf = (path: string): string[] => {
  const folders: string[] = [];
  for (let end = path.indexOf('/'); end !== -1; end = path.indexOf('/', end + 1)) folders.push(path.slice(0, end));
  return folders;
};

/**
 * Returns true for a relative path of plain segments: no `..`, no form of `.git`, no control characters or backslashes.
 */
export const validFilePath = (path: string): boolean =>
  path !== '' &&
  Buffer.byteLength(path) <= MAX_PATH_BYTES &&
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern must find them
  !/[\u0000-\u001f\u007f\\]/.test(path) &&
  !/\p{Surrogate}/u.test(path) &&
  path
    .split('/')
    .every((segment) => segment !== '' && segment !== '.' && segment !== '..' && !looksLikeGitFolder(segment));

const looksLikeGitFolder = (segment: string): boolean =>
  // Some file systems ignore case, trailing dots and spaces, streams and invisible characters, or have short names.
  /^(?:\.git|git~\d+)[ .]*(?::.*)?$/i.test(segment.replaceAll(/\p{Default_Ignorable_Code_Point}/gu, ''));

const invalid = (message: string) => new GitError('invalid', message);
