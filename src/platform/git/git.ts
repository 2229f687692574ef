import { execFile } from 'node:child_process';
import { mkdirSync, realpathSync } from 'node:fs';
import { promisify } from 'node:util';
import { Caches } from '../cache.ts';
import { createBundles } from './cloning/bundles.ts';
import { createCopies } from './cloning/copies.ts';
import { createRemoteClone } from './cloning/remote-clone.ts';
import { GitError } from './git-error.ts';
import { createIncomingHook } from './http/incoming-hook.ts';
import { createSmartHttp } from './http/smart-http.ts';
import { createNewObjects } from './objects/new-objects.ts';
import { createObjectReader } from './objects/reader.ts';
import { createTreeReader } from './objects/tree-reader.ts';
import { DEFAULT_PROCESSES } from './process/bounds.ts';
import { DEFAULT_MEMORY_MIB } from './process/memory-limit.ts';
import { createRunner, type RunnerOptions } from './process/runner.ts';
import { createAllFiles } from './reading/all-files.ts';
import { createAncestry } from './reading/ancestry.ts';
import { createArchives } from './reading/archive.ts';
import { createAttributes } from './reading/attributes.ts';
import { createBlame } from './reading/blame.ts';
import { createChangesBetween } from './reading/changes-between.ts';
import { createDiff, createDiffText, createRenames } from './reading/diff.ts';
import { createHistory } from './reading/history.ts';
import { createLinearHistory } from './reading/linear-history.ts';
import { createTrees } from './reading/trees.ts';
import { createRefs } from './refs/refs.ts';
import { createRefWriter } from './refs/writer.ts';
import { createRepositories } from './repositories.ts';
import type { Git } from './types.ts';
import { createCommitFiles } from './writing/commit-files.ts';
import { createForeignMerges } from './writing/foreign-merges.ts';
import { createManyMerges } from './writing/many-merges.ts';
import { createMergedCommits, createMerges } from './writing/merged-commits.ts';
import { createRebases } from './writing/rebase.ts';
import { createTagObjects } from './writing/tags.ts';

export type { Git } from './types.ts';

export interface GitOptions extends Pick<RunnerOptions, 'root' | 'log'> {
  readonly caches?: Caches;
  readonly gitBinary?: string;
  readonly memoryMiB?: number;
  readonly processes?: number;
  /** False does not wait for the disk. For tests. */
  readonly durable?: boolean;
}

// `process/` starts git and limits it. `objects/` and `refs/` read and write both by the formats of git, or through
// processes that stay open. `reading/` and `writing/` hold the functions over content. `cloning/` makes repositories from
// others. `http/` speaks the protocol of clones and pushes. The types of a folder are in the file of its name beside it,
// such as `writing.ts`, those of commits and files in `objects.ts`, and `types.ts` puts `Git` together.

const execute = promisify(execFile);

/** Opens the repositories below `root`. Creates `root` if it is missing. */
export const createGit = (options: GitOptions): Git => {
  mkdirSync(options.root, { recursive: true });
  const root = realpathSync(options.root);
  const runner = createRunner({
    root,
    log: options.log,
    caches: options.caches ?? new Caches(),
    gitBinary: options.gitBinary ?? 'git',
    memoryMiB: options.memoryMiB ?? DEFAULT_MEMORY_MIB,
    processes: options.processes ?? DEFAULT_PROCESSES,
    durable: options.durable ?? true,
  });
  const objects = createObjectReader(runner);
  const writer = createRefWriter(runner);
  const forget = (path: string) => {
    objects.forget(path);
    writer.forget(path);
  };
  const repositories = createRepositories(runner, forget);
  const refs = createRefs(runner, objects, writer);
  const treeReader = createTreeReader(runner, objects);
  const linear = createLinearHistory(objects, treeReader);
  return {
    ...repositories,
    ...refs,
    ...createAncestry(runner, linear),
    ...createTrees(runner, objects, treeReader),
    ...createAllFiles(runner, objects, treeReader),
    ...createAttributes(runner),
    ...createHistory(runner, objects, treeReader, linear),
    ...createArchives(runner),
    diff: createDiff(runner),
    diffText: createDiffText(runner),
    ...createChangesBetween(runner, treeReader),
    renames: createRenames(runner, treeReader),
    blame: createBlame(runner),
    ...createSmartHttp(runner, createIncomingHook(root), objects, refs),
    ...createBundles(runner, forget, { ...repositories, ...refs }),
    ...createCopies(runner, forget, repositories),
    ...createForeignMerges(runner, objects),
    ...createManyMerges(runner),
    ...createRemoteClone(runner, forget, repositories),
    newObjects: (path) => createNewObjects(runner, objects, path),
    ...createCommitFiles(runner, objects, treeReader, refs),
    ...createTagObjects(runner, objects),
    applyChange: createMergedCommits(runner, objects),
    mergeCommits: createMerges(runner, objects, linear),
    rebaseCommits: createRebases(runner, objects),

    async requireVersion() {
      // Once per process, and without the launcher: an idle hub does not need that process.
      const { stdout: text } = await execute('git', ['version']);
      const [, version = '', major = '0', minor = '0'] = /(([0-9]+)\.([0-9]+)\S*)/.exec(text) ?? [];
      if (Number(major) < 2 || (Number(major) === 2 && Number(minor) < 38)) {
        throw new GitError('failed', `git 2.38 or later is needed, but this is ${version || 'of an unknown version'}`);
      }
      return version;
    },

    async close() {
      await Promise.all([objects.close(), writer.close()]);
      await runner.close();
    },
  };
};
