import { mkdirSync, realpathSync } from 'node:fs';
import type { Readable } from 'node:stream';
import type { Logger } from '../log.ts';
import { createBundles } from './bundles.ts';
import { createCommitFiles } from './commit-files.ts';
import { GitError } from './git-error.ts';
import { createHistory } from './history.ts';
import { createIncomingHook } from './incoming-hook.ts';
import { createObjectReader } from './object-reader.ts';
import { createRunner } from './process.ts';
import { createRefs } from './refs.ts';
import { createRepositories } from './repositories.ts';
import { createSmartHttp } from './smart-http.ts';
import { createTrees } from './trees.ts';
import type {
  Blob,
  CallOptions,
  ChangedFiles,
  Commit,
  FetchBundleOptions,
  FetchedBundle,
  FilesCommit,
  ListCommitsOptions,
  ListRefsOptions,
  NewCommits,
  NewCommitsOptions,
  ProtocolOptions,
  Ref,
  RefChange,
  RevisionRange,
  Served,
  ServeOptions,
  Service,
  TreeEntry,
} from './types.ts';

/**
 * Everything the hub does with repositories. They are bare and named by a storage path relative to the root,
 * such as `@hashed/ab/cd/42.git`. All functions throw `GitError` (git-error.ts), whose message is fit for users.
 */
export interface Git {
  /** Fails unless the git binary is 2.38 or later; resolves to its version. */
  requireVersion(): Promise<string>;

  /** Creates an empty bare repository whose HEAD names `defaultBranch`; leaves one that is there already as it is. */
  init(path: string, defaultBranch: string): Promise<void>;
  /** Removes the repository and what an interrupted import left beside it; nothing there is fine. */
  remove(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** True without any branch or tag. */
  isEmpty(path: string): Promise<boolean>;
  /** The branch HEAD names, born or not, without `refs/heads/`; null when HEAD names no branch. */
  head(path: string): Promise<string | null>;
  setHead(path: string, branch: string): Promise<void>;
  /** Bytes of its objects on disk. */
  diskSize(path: string): Promise<number>;
  /** Packs objects and refs and drops what has been unreachable for two weeks. */
  gc(path: string, options?: CallOptions): Promise<void>;

  /** Refs below a prefix in byte order of their names. */
  listRefs(path: string, options: ListRefsOptions): Promise<Ref[]>;
  /** What a full ref name holds (the tag object of an annotated tag), or null. */
  resolve(path: string, ref: string): Promise<string | null>;
  /** The commit behind what a user typed: a branch, else a tag, else a full or abbreviated (7 or more) commit id; null for anything else. */
  resolveCommit(path: string, revision: string): Promise<string | null>;
  /** Moves all refs or none. Throws `conflict` when one does not hold its `oldOid` or clashes with another name. */
  updateRefs(path: string, changes: readonly RefChange[]): Promise<void>;
  /** Which branches (full names; all of them when `refs` is absent) are contained in the commit `targetOid`. */
  mergedInto(path: string, targetOid: string, refs?: readonly string[]): Promise<ReadonlySet<string>>;
  isAncestor(path: string, ancestorOid: string, descendantOid: string): Promise<boolean>;

  /** The commits in the order asked for; ids that are no commit here are left out. */
  readCommits(path: string, oids: readonly string[]): Promise<Commit[]>;
  readBlob(path: string, oid: string, options?: CallOptions): Promise<Blob | null>;
  /** The entry at a path of a commit or tree, or null. */
  findFile(path: string, treeish: string, filePath: string): Promise<TreeEntry | null>;
  /** The entries of one folder (the root when `folder` is absent); empty when there is no such folder. */
  listTree(path: string, treeish: string, folder?: string): Promise<TreeEntry[]>;
  listCommits(path: string, options: ListCommitsOptions): Promise<Commit[]>;
  countCommits(path: string, range: RevisionRange & CallOptions): Promise<number>;
  /** What a push brought to a branch: everything since `oldOid`, or for a created branch what no other branch holds. */
  newCommits(path: string, newOid: string, oldOid: string | null, options?: NewCommitsOptions): Promise<NewCommits>;
  /** Paths each commit touched against its first parent, at most 5,000 for each commit. */
  changedFiles(path: string, oids: readonly string[]): Promise<ReadonlyMap<string, ChangedFiles>>;
  /** Commits to a branch without a work tree; resolves to the commit id. Throws `conflict` when the branch is not at `parent`, `invalid` for a bad path or a file that should or should not be there. */
  commitFiles(path: string, commit: FilesCommit): Promise<string>;

  /** The body of `GET /info/refs?service=...` (`application/x-<service>-advertisement`). */
  advertise(path: string, service: Service, options?: ProtocolOptions & CallOptions): Readable;
  /**
   * Answers `POST /<service>`. `body` is already decompressed (`decodedBody`). Rejects with `invalid` for a malformed
   * request (nothing has been sent then); resolves once a push's commands are read and judged.
   */
  serve(path: string, service: Service, body: Readable, options?: ServeOptions): Promise<Served>;

  /** A bundle of HEAD, branches, tags, merge request and keep-around refs; null when there are none. */
  createBundle(path: string, options?: CallOptions): Promise<Readable | null>;
  /** Makes a fresh repository from a bundle (a stream or a file), all or nothing. Throws `invalid` for a broken bundle. */
  fetchBundle(path: string, bundle: Readable | string, options?: FetchBundleOptions): Promise<FetchedBundle>;

  /** Ends the helper processes that are kept open. */
  close(): Promise<void>;
}

/** Opens the repositories below `root`, which is created when it is missing. */
export const createGit = (options: { root: string; log: Logger; gitBinary?: string }): Git => {
  mkdirSync(options.root, { recursive: true });
  const root = realpathSync(options.root);
  const runner = createRunner({ root, log: options.log, gitBinary: options.gitBinary ?? 'git' });
  const objects = createObjectReader(runner);
  const repositories = createRepositories(runner, objects);
  const refs = createRefs(runner, objects);
  const trees = createTrees(runner, objects);
  return {
    ...repositories,
    ...refs,
    ...trees,
    ...createHistory(runner, objects),
    ...createSmartHttp(runner, createIncomingHook(root), refs),
    ...createBundles(runner, objects, { ...repositories, ...refs }),
    commitFiles: createCommitFiles(runner, { ...trees, ...refs }),

    async requireVersion() {
      const text = (await runner.run(null, ['version'])).stdout.toString('utf8').trim();
      const [, version = '', major = '0', minor = '0'] = /(([0-9]+)\.([0-9]+)\S*)/.exec(text) ?? [];
      if (Number(major) < 2 || (Number(major) === 2 && Number(minor) < 38)) {
        throw new GitError('failed', `git 2.38 or later is needed, but this is ${version || 'of an unknown version'}`);
      }
      return version;
    },

    close: () => objects.close(),
  };
};
