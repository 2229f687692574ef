import { randomUUID } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { GitError } from './git-error.ts';
import type { Runner } from './process.ts';
import { validOid, validRefName } from './ref-names.ts';
import type { FileChange, FilesCommit, Git, Identity, TreeEntry } from './types.ts';

const MAX_PATH_BYTES = 4_096;
const PARALLEL_WRITES = 4;
/** Of an index of our own; `gc` sweeps away what a crash left. */
export const TEMPORARY_INDEX = /^index-[0-9a-f-]{36}\.tmp(?:\.lock)?$/;

export const createCommitFiles =
  (runner: Runner, git: Pick<Git, 'findFile' | 'updateRefs'>): Git['commitFiles'] =>
  async (path, commit) => {
    check(commit);
    const { branch, parent, files } = commit;
    const index = join(runner.directory(path), `index-${randomUUID()}.tmp`);
    const run = async (args: string[], options: { input?: string | Buffer; env?: Record<string, string> } = {}) =>
      (await runner.run(path, args, { ...options, env: { ...options.env, GIT_INDEX_FILE: index } })).stdout
        .toString('latin1')
        .trim();
    try {
      if (parent !== null) await checkFolders(files, (name) => git.findFile(path, parent, name));
      const entries: string[] = [];
      for (let at = 0; at < files.length; at += PARALLEL_WRITES) {
        const part = files.slice(at, at + PARALLEL_WRITES).map(async (file) => {
          const existing = parent === null ? null : await git.findFile(path, parent, file.path);
          checkPresence(file, existing);
          if (file.action === 'delete') return `0 ${'0'.repeat(40)}\t${file.path}\0`;
          const mode = file.mode ?? existing?.mode ?? '100644';
          const oid = await run(['hash-object', '-w', '--stdin'], { input: file.content ?? '' });
          return `${mode} ${oid}\t${file.path}\0`;
        });
        entries.push(...(await Promise.all(part)));
      }
      await run(parent === null ? ['read-tree', '--empty'] : ['read-tree', parent]);
      await refuseAsInvalid(run(['update-index', '-z', '--index-info'], { input: entries.join('') }));
      const tree = await refuseAsInvalid(run(['write-tree']));
      const oid = await run(['commit-tree', ...(parent === null ? [] : ['-p', parent]), '-F', '-', tree], {
        input: commit.message,
        env: { ...identity('AUTHOR', commit.author), ...identity('COMMITTER', commit.committer) },
      });
      await git.updateRefs(path, [{ ref: `refs/heads/${branch}`, oldOid: parent, newOid: oid }]);
      return oid;
    } finally {
      await rm(index, { force: true });
    }
  };

/** git refuses here what our own checks cannot know of, such as a file where another change needs a folder. */
const refuseAsInvalid = async <T>(call: Promise<T>): Promise<T> => {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof GitError) || error.reason !== 'failed') throw error;
    throw new GitError('invalid', 'The file changes contradict each other or the files that are there', {
      command: error.command,
      stderr: error.stderr,
      cause: error,
    });
  }
};

const check = ({ branch, parent, files, message }: FilesCommit): void => {
  if (!validRefName(branch)) throw new GitError('invalid', 'The branch name is not valid');
  if (parent !== null && !validOid(parent)) throw new GitError('invalid', 'The parent commit is not valid');
  if (message.includes('\0')) throw new GitError('invalid', 'The commit message must not contain NUL');
  const seen = new Set<string>();
  for (const file of files) {
    if (!validFilePath(file.path)) throw new GitError('invalid', 'The file path is not valid');
    if (seen.has(file.path)) throw new GitError('invalid', 'A file is changed twice');
    seen.add(file.path);
    if (file.action === 'delete') continue;
    if (file.content === undefined) throw new GitError('invalid', 'The file content is missing');
  }
  const kept = new Set(files.flatMap((file) => (file.action === 'delete' ? [] : [file.path])));
  if ([...kept].some((file) => foldersOf(file).some((folder) => kept.has(folder)))) {
    throw new GitError('invalid', 'A path is used both as a file and as a folder');
  }
};

/** git would replace a file by the folder a new path needs; only an outspoken deletion may do that. */
const checkFolders = async (
  files: readonly FileChange[],
  find: (name: string) => Promise<TreeEntry | null>,
): Promise<void> => {
  const deleted = new Set(files.flatMap((file) => (file.action === 'delete' ? [file.path] : [])));
  const folders = new Set(files.flatMap((file) => (file.action === 'create' ? foldersOf(file.path) : [])));
  for (const folder of folders) {
    const entry = deleted.has(folder) ? null : await find(folder);
    if (entry && entry.type !== 'tree') throw new GitError('invalid', 'A path is used both as a file and as a folder');
  }
};

/** `a/b/c` → `a`, `a/b`. */
const foldersOf = (path: string): string[] =>
  path
    .split('/')
    .slice(0, -1)
    .map((_, at, segments) => segments.slice(0, at + 1).join('/'));

const checkPresence = (file: FileChange, existing: TreeEntry | null): void => {
  if (file.action === 'create' && existing) throw new GitError('invalid', 'A file with this name already exists');
  if (file.action !== 'create' && !existing) throw new GitError('invalid', "A file with this name doesn't exist");
  if (existing && existing.type !== 'blob') throw new GitError('invalid', 'The path is not a file');
};

/** A relative path of plain segments: no `..`, no `.git` in any disguise, no control characters or backslashes. */
export const validFilePath = (path: string): boolean =>
  path !== '' &&
  Buffer.byteLength(path) <= MAX_PATH_BYTES &&
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  !/[\u0000-\u001f\u007f\\]/.test(path) &&
  !/\p{Surrogate}/u.test(path) &&
  path
    .split('/')
    .every((segment) => segment !== '' && segment !== '.' && segment !== '..' && !looksLikeGitFolder(segment));

const looksLikeGitFolder = (segment: string): boolean =>
  // Case, trailing dots and blanks, streams, short names and invisible characters are ignored by some file systems.
  /^(?:\.git|git~\d+)(?:[ .]*|:.*)$/i.test(segment.replaceAll(/\p{Default_Ignorable_Code_Point}/gu, ''));

const identity = (role: 'AUTHOR' | 'COMMITTER', { name, email, date }: Identity): Record<string, string> => {
  // git refuses an empty name, and NUL cannot be passed at all.
  const plain = (text: string) => text.replaceAll(/[\0\r\n<>]/g, '').trim();
  return {
    [`GIT_${role}_NAME`]: plain(name) || plain(email) || 'unknown',
    [`GIT_${role}_EMAIL`]: plain(email),
    [`GIT_${role}_DATE`]: `@${Math.floor(date.getTime() / 1000)} +0000`,
  };
};
