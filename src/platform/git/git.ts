import { mkdirSync, realpathSync } from 'node:fs';
import { Caches } from '../cache.ts';
import { createAllFiles } from './all-files.ts';
import { createAncestry } from './ancestry.ts';
import { createArchives } from './archive.ts';
import { createAttributes } from './attributes.ts';
import { createBlame } from './blame.ts';
import { createBundles } from './bundles.ts';
import { createChangesBetween } from './changes-between.ts';
import { createCommitFiles } from './commit-files.ts';
import { createCopies } from './copies.ts';
import { createDiff, createDiffText, createRenames } from './diff.ts';
import { createForeignMerges } from './foreign-merges.ts';
import { GitError } from './git-error.ts';
import { createHistory } from './history.ts';
import { createIncomingHook } from './incoming-hook.ts';
import { createManyMerges } from './many-merges.ts';
import { DEFAULT_MEMORY_MIB } from './memory-limit.ts';
import { createMergedCommits, createMerges } from './merged-commits.ts';
import { createNewObjects } from './new-objects.ts';
import { createObjectReader } from './object-reader.ts';
import { createRunner, type RunnerOptions } from './process.ts';
import { DEFAULT_PROCESSES } from './process-bounds.ts';
import { createRebases } from './rebase.ts';
import { createRefWriter } from './ref-writer.ts';
import { createRefs } from './refs.ts';
import { createRemoteClone } from './remote-clone.ts';
import { createRepositories } from './repositories.ts';
import { createSmartHttp } from './smart-http.ts';
import { createTagObjects } from './tag-objects.ts';
import { createTreeReader } from './tree-reader.ts';
import { createTrees } from './trees.ts';
import type { Git } from './types.ts';

export type { Git } from './types.ts';

export interface GitOptions extends Pick<RunnerOptions, 'root' | 'log'> {
  readonly caches?: Caches;
  readonly gitBinary?: string;
  readonly memoryMiB?: number;
  readonly processes?: number;
  /** False does not wait for the disk. For tests. */
  readonly durable?: boolean;
}

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
  return {
    ...repositories,
    ...refs,
    ...createAncestry(runner),
    ...createTrees(runner, objects, treeReader),
    ...createAllFiles(runner, objects),
    ...createAttributes(runner),
    ...createHistory(runner, objects, treeReader),
    ...createArchives(runner),
    diff: createDiff(runner),
    diffText: createDiffText(runner),
    ...createChangesBetween(runner),
    renames: createRenames(runner),
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
    mergeCommits: createMerges(runner, objects),
    rebaseCommits: createRebases(runner, objects),

    async requireVersion() {
      const text = (await runner.run(null, ['version'])).stdout.toString('utf8').trim();
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
