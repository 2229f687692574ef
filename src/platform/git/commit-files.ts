import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { borrow } from './borrow.ts';
import { pathsOf, planFiles, type Standing } from './file-plan.ts';
import { GitError } from './git-error.ts';
import { identityEnv } from './identity.ts';
import { createNewObjects } from './new-objects.ts';
import type { ObjectReader } from './object-reader.ts';
import type { Runner } from './process.ts';
import { inQuarantine, type Quarantine } from './quarantine.ts';
import { validOid } from './ref-names.ts';
import { STRICT } from './smart-http.ts';
import type { FilesCommit, Git } from './types.ts';

/** Paths that one call of git is asked for. */
const PATHS_AT_ONCE = 500;
const PARALLEL_WRITES = 8;

/** Makes commits of changed files, without a work tree. */
export const createCommitFiles = (
  runner: Runner,
  objects: ObjectReader,
  git: Pick<Git, 'updateRefs'>,
): Pick<Git, 'createCommit' | 'commitFiles'> => {
  const createCommit: Git['createCommit'] = async (path, commit, { judge, from } = {}) => {
    check(commit);
    const alternates = from === undefined || from === path ? [] : [join(runner.directory(from), 'objects')];
    return inQuarantine(
      runner,
      path,
      async (quarantine) => {
        const { env } = quarantine;
        const { parent } = commit;
        if (alternates.length > 0 && parent !== null) await borrow(runner, path, parent, env);
        const tree = await writeTree(runner, path, commit, quarantine);
        const args = ['commit-tree', ...(parent === null ? [] : ['-p', parent]), '-F', '-', tree];
        const oid = await readOid(runner, path, args, {
          input: commit.message,
          env: { ...env, ...identityEnv('AUTHOR', commit.author), ...identityEnv('COMMITTER', commit.committer) },
        });
        if (commit.files.some((file) => mayNameModules(file.path)))
          await checkStrictly(runner, path, oid, parent, quarantine);
        await judge?.(oid, createNewObjects(runner, objects, path, env));
        return oid;
      },
      { alternates },
    );
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

/** What git says is one object id. */
export const readOid = async (
  runner: Runner,
  path: string,
  args: readonly string[],
  options: { readonly input?: string | Buffer; readonly env: Readonly<Record<string, string>> },
): Promise<string> => (await runner.run(path, args, options)).stdout.toString('latin1').trim();

/** The tree that the changes make of the parent's. */
const writeTree = async (
  runner: Runner,
  path: string,
  { parent, files }: Pick<FilesCommit, 'parent' | 'files'>,
  { env, folder }: Quarantine,
): Promise<string> => {
  // Here the paths are checked, of the first commit too.
  const names = pathsOf(files);
  const plan = planFiles(files, parent === null ? new Map() : await standingAt(runner, path, parent, names, env));
  const contents = plan.files.flatMap(({ source }) => ('change' in source ? [source.change] : []));
  const oids = await writeContents(runner, path, files, contents, { env, folder });
  const entries = [
    // First, so that a file may take the place of a folder and the other way round.
    ...plan.removed.map((name) => `0 ${'0'.repeat(40)}\t${name}\0`),
    ...plan.files.map(({ path: name, mode, source }) => {
      const oid = 'oid' in source ? source.oid : oids.get(source.change);
      return `${mode} ${oid}\t${name}\0`;
    }),
  ];
  const indexEnv = { ...env, GIT_INDEX_FILE: join(folder, 'index') };
  await runner.run(path, parent === null ? ['read-tree', '--empty'] : ['read-tree', parent], { env: indexEnv });
  await runner.run(path, ['update-index', '-z', '--index-info'], { env: indexEnv, input: entries.join('') });
  return readOid(runner, path, ['write-tree'], { env: indexEnv });
};

/** One git writes all of them; it reads them as files, so that they need not be in memory together. */
const writeContents = async (
  runner: Runner,
  path: string,
  files: FilesCommit['files'],
  wanted: readonly number[],
  { env, folder }: Pick<Quarantine, 'env' | 'folder'>,
): Promise<ReadonlyMap<number, string>> => {
  if (wanted.length === 0) return new Map();
  const nameOf = (change: number) => join(folder, `content-${change}`);
  for (let at = 0; at < wanted.length; at += PARALLEL_WRITES) {
    const part = wanted.slice(at, at + PARALLEL_WRITES);
    await Promise.all(part.map((change) => writeFile(nameOf(change), files[change]?.content ?? '')));
  }
  const input = wanted.map((change) => `${nameOf(change)}\n`).join('');
  const { stdout } = await runner.run(path, ['hash-object', '-w', '--no-filters', '--stdin-paths'], { env, input });
  const oids = stdout.toString('latin1').trim().split('\n');
  if (oids.length !== wanted.length) throw new GitError('failed', 'The files could not be written');
  return new Map(wanted.map((change, at) => [change, oids[at] ?? '']));
};

const standingAt = async (
  runner: Runner,
  path: string,
  treeish: string,
  names: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<ReadonlyMap<string, Standing>> => {
  const found = new Map<string, Standing>();
  for (let at = 0; at < names.length; at += PATHS_AT_ONCE) {
    // `-t`: folders on the way to a name are told too, and decide what may stand there.
    const args = ['ls-tree', '-z', '-t', '--full-tree', treeish, '--', ...names.slice(at, at + PATHS_AT_ONCE)];
    for (const record of (await runner.run(path, args, { env })).stdout.toString('utf8').split('\0')) {
      const [, mode = '', type = '', oid = '', name = ''] = /^(\d{6}) (\w+) ([0-9a-f]+)\t([\s\S]+)$/.exec(record) ?? [];
      if (name !== '') found.set(name, { mode, type, oid });
    }
  }
  return found;
};

/** Also as file systems that shorten names, or read over parts of them, take it. */
const mayNameModules = (path: string): boolean =>
  /gitmod|gi7eba/i.test(path.replaceAll(/\p{Default_Ignorable_Code_Point}/gu, ''));

/**
 * Holds what is new against what a push is held against. Beside paths only `.gitmodules` can be wrong, which git reads
 * itself: such a commit could be fetched but never pushed, forked or imported again.
 */
const checkStrictly = async (
  runner: Runner,
  path: string,
  oid: string,
  parent: string | null,
  { env, folder }: Pick<Quarantine, 'env' | 'folder'>,
): Promise<void> => {
  const pack = join(folder, 'checked');
  const input = `${oid}\n${parent === null ? '' : `^${parent}\n`}`;
  const name = await readOid(runner, path, ['pack-objects', '--quiet', '--revs', pack], { input, env });
  const args = ['index-pack', STRICT, '-o', join(folder, 'checked.idx'), `${pack}-${name}.pack`];
  try {
    await runner.run(path, args, { env });
  } catch (error) {
    if (!(error instanceof GitError) || error.reason !== 'failed') throw error;
    throw new GitError('invalid', 'The file .gitmodules is not valid', error);
  }
};

const check = ({ parent, message }: Pick<FilesCommit, 'parent' | 'message'>): void => {
  if (parent !== null && !validOid(parent)) throw new GitError('invalid', 'The parent commit is not valid');
  if (message.includes('\0')) throw new GitError('invalid', 'The commit message must not contain NUL');
};
