import { join } from 'node:path';
import { GitError } from '../git-error.ts';
import { createNewObjects } from '../objects/new-objects.ts';
import type { ObjectReader } from '../objects/reader.ts';
import { formatTree, isTree, nameOf, type RawEntry, TREE_MODE, typeOf } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';
import { type IdentifiedObject, type NewObject, oidOf, writeObjects } from '../objects/writer.ts';
import type { Runner } from '../process/runner.ts';
import { validOid } from '../ref-names.ts';
import type { Git } from '../types.ts';
import type { FilesCommit } from '../writing.ts';
import { borrow } from './borrow.ts';
import { pathsOf, planFiles } from './file-plan.ts';
import { signatureLine } from './identity.ts';
import { inQuarantine } from './quarantine.ts';

/** Creates commits of changed files without a work tree. */
export const createCommitFiles = (
  runner: Runner,
  objects: ObjectReader,
  trees: TreeReader,
  git: Pick<Git, 'updateRefs'>,
): Pick<Git, 'createCommit' | 'commitFiles'> => {
  const createCommit: Git['createCommit'] = async (path, commit, { judge, from = path } = {}) => {
    check(commit);
    const { parent, message } = commit;
    const foreign = from === path ? null : from;
    const { tree, objects: written } = await plannedTree(trees, from, commit);
    const lines = [
      `tree ${tree}`,
      ...(parent === null ? [] : [`parent ${parent}`]),
      `author ${signatureLine(commit.author)}`,
      `committer ${signatureLine(commit.committer)}`,
    ];
    const made: NewObject = { type: 'commit', content: Buffer.from(`${lines.join('\n')}\n\n${message}`) };
    const oid = oidOf(made);
    const all = [...written, { ...made, oid }];
    if (judge || foreign !== null || commit.files.some(({ path }) => checkedFile(path) !== null)) {
      await inQuarantine(
        runner,
        path,
        async ({ env }) => {
          if (foreign !== null && parent !== null) await borrow(runner, path, parent, env);
          await asInvalid(commit, writeObjects(runner, path, all, env));
          await judge?.(oid, createNewObjects(runner, objects, path, env));
        },
        { alternates: foreign === null ? [] : [join(runner.directory(foreign), 'objects')] },
      );
    } else {
      // git checks the content of no such file. If this process dies, no ref reaches the objects, and gc removes them.
      await writeObjects(runner, path, all);
    }
    // They are read at once: to describe the commit, and by the followers of its push.
    objects.remember(path, `${oid}^{commit}`, { ...made, oid, size: made.content.length });
    for (const object of written) {
      if (object.type !== 'tree') continue;
      const read = { ...object, size: object.content.length };
      objects.remember(path, `${object.oid}^{tree}`, read);
      if (object.oid === tree) objects.remember(path, `${oid}^{tree}`, read);
    }
    return oid;
  };

  return {
    createCommit,
    async commitFiles(path, { branch, ...commit }) {
      const oid = await createCommit(path, commit);
      await git.updateRefs(path, [{ ref: `refs/heads/${branch}`, oldOid: commit.parent, newOid: oid }]);
      return oid;
    },
  };
};

/** Applies the changes to the tree of the parent. Returns the new tree and its new objects. */
const plannedTree = async (
  trees: TreeReader,
  path: string,
  { parent, files }: Pick<FilesCommit, 'parent' | 'files'>,
): Promise<{ readonly tree: string; readonly objects: readonly IdentifiedObject[] }> => {
  // Checks the paths, even for the first commit.
  const names = pathsOf(files);
  const standing = parent === null ? new Map<string, RawEntry>() : await trees.find(path, parent, names);
  const plan = planFiles(
    files,
    new Map([...standing].map(([name, entry]) => [name, { ...entry, type: typeOf(entry) }])),
  );
  const objects: IdentifiedObject[] = [];
  const add = (object: NewObject): string => {
    const oid = oidOf(object);
    objects.push({ ...object, oid });
    return oid;
  };
  const root = newFolder();
  for (const name of plan.removed) placeIn(root, name, null);
  for (const { path: name, mode, source } of plan.files) {
    const oid =
      'oid' in source ? source.oid : add({ type: 'blob', content: Buffer.from(files[source.change]?.content ?? '') });
    placeIn(root, name, { mode, oid });
  }

  const writeFolder = async (folder: ChangedFolder, before: string | null): Promise<string | null> => {
    const read = before === null ? [] : await trees.entries(path, before);
    const entries = new Map((read ?? []).map((entry) => [entry.name, entry]));
    // Deletions come first, so that a folder may replace a file and vice versa.
    for (const [name, file] of folder.files) if (file === null) entries.delete(name);
    for (const [name, below] of folder.folders) {
      const known = entries.get(name);
      const tree = await writeFolder(below, known && isTree(known) ? known.oid : null);
      if (tree !== null) entries.set(name, { mode: TREE_MODE, name, oid: tree });
      else if (known && isTree(known)) entries.delete(name);
    }
    for (const [name, file] of folder.files) if (file !== null) entries.set(name, { ...file, name });
    // git keeps no empty folders except the root.
    return entries.size === 0 && folder !== root ? null : add({ type: 'tree', content: formatTree(entries.values()) });
  };
  const tree = await writeFolder(root, parent);
  return { tree: tree ?? '', objects };
};

/** The changes in a folder, by the byte-wise names of the entries. */
interface ChangedFolder {
  /** Null for a removed file. */
  readonly files: Map<string, Pick<RawEntry, 'mode' | 'oid'> | null>;
  readonly folders: Map<string, ChangedFolder>;
}

const newFolder = (): ChangedFolder => ({ files: new Map(), folders: new Map() });

const placeIn = (root: ChangedFolder, path: string, file: Pick<RawEntry, 'mode' | 'oid'> | null): void => {
  const segments = path.split('/').map(nameOf);
  const last = segments.pop() ?? '';
  let folder = root;
  for (const segment of segments) {
    const below = folder.folders.get(segment) ?? newFolder();
    folder.folders.set(segment, below);
    folder = below;
  }
  folder.files.set(last, file);
};

/**
 * The files whose content git checks, because it reads them itself. The patterns also match the short and disguised forms
 * that some file systems read as the same name.
 */
const CHECKED_FILES: readonly (readonly [string, RegExp])[] = [
  ['.gitmodules', /gitmod|gi7eba/i],
  ['.gitattributes', /gitattr|gi7d29/i],
];

/** Returns the name of the file that the path may stand for, if git checks its content. */
const checkedFile = (path: string): string | null => {
  const visible = path.replaceAll(/\p{Default_Ignorable_Code_Point}/gu, '');
  return CHECKED_FILES.find(([, pattern]) => pattern.test(visible))?.[0] ?? null;
};

/**
 * Besides paths, only these files can be invalid. Such a commit could be fetched but never pushed, forked or imported
 * again.
 */
const asInvalid = async ({ files }: Pick<FilesCommit, 'files'>, writing: Promise<void>): Promise<void> => {
  try {
    await writing;
  } catch (error) {
    const isRefused = error instanceof GitError && error.reason === 'failed';
    const names = new Set(files.flatMap(({ path }) => checkedFile(path) ?? []));
    if (!isRefused || names.size === 0) throw error;
    throw new GitError('invalid', `The file ${[...names].join(' or ')} is not valid`, error);
  }
};

const check = ({ parent, message }: Pick<FilesCommit, 'parent' | 'message'>): void => {
  if (parent !== null && !validOid(parent)) throw new GitError('invalid', 'The parent commit is not valid');
  if (message.includes('\0')) throw new GitError('invalid', 'The commit message must not contain NUL');
};
