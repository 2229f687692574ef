import type { CallOptions } from './call-options.ts';
import type { GitCloning } from './cloning.ts';
import type { GitHistory } from './history.ts';
import type { GitHttp } from './http.ts';
import type { GitReading } from './reading.ts';
import type { GitRefs } from './refs.ts';
import type { GitWriting } from './writing.ts';

/**
 * Everything that the hub does with repositories. They are bare and identified by a storage path relative to the root,
 * such as `@hashed/ab/cd/42.git`. All functions throw `GitError` (git-error.ts), whose message is safe to show to
 * users.
 */
export interface Git extends GitRefs, GitReading, GitHistory, GitWriting, GitHttp, GitCloning {
  /** Returns the version of git. Fails if it is older than 2.38. */
  requireVersion(): Promise<string>;

  /** Creates an empty bare repository whose HEAD names `defaultBranch`. Leaves an existing repository unchanged. */
  init(path: string, defaultBranch: string): Promise<void>;
  /** Removes the repository and what an interrupted import left next to it. Succeeds if there is nothing to remove. */
  remove(path: string): Promise<void>;
  exists(path: string): Promise<boolean>;
  /** Returns true if the storage belongs to `owner`. The first caller claims it permanently. */
  claim(owner: string): Promise<boolean>;
  /**
   * Returns the paths of all repositories in a storage folder such as `@hashed/ab`, including repositories being built.
   */
  stored(folder: string): Promise<string[]>;
  /** Returns when the folder of the repository last changed, or null if there is none. */
  changedAt(path: string): Promise<Date | null>;
  /** Returns true if the repository has no branch and no tag. */
  isEmpty(path: string): Promise<boolean>;
  /**
   * Returns the branch that HEAD names, without `refs/heads/`. The branch may have no commits. Null if HEAD names no
   * branch.
   */
  head(path: string): Promise<string | null>;
  setHead(path: string, branch: string): Promise<void>;
  /** Returns the number of bytes of the objects on disk. */
  diskSize(path: string): Promise<number>;
  /**
   * Packs loose objects, small packs and refs, and writes the commit graph. Takes time in proportion to what is new. Readers
   * and pushes go on meanwhile.
   */
  pack(path: string, options?: CallOptions): Promise<void>;
  /** Packs all objects and refs, and deletes objects that have been unreachable for two weeks. */
  gc(path: string, options?: CallOptions): Promise<void>;

  /** Ends the helper processes that are kept open. */
  close(): Promise<void>;
}
