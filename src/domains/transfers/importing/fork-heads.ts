import { branchRef } from '#domains/repositories/model.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { GitError } from '#platform/git/git-error.ts';
import { validRefName } from '#platform/git/ref-names.ts';

/** The source branch of a merge request that came from a fork. */
export interface ForkHead {
  readonly iid: number;
  readonly branch: string;
  readonly sha: string;
}

/** Creates a branch. Throws a GitError if git refuses, and a DomainError if the import may not create it. */
export type CreateBranch = (name: string, sha: string) => Promise<void>;

/** The branches that the heads of merge requests from forks got in the project. */
export class ForkHeads {
  readonly #keep: (head: ForkHead) => Promise<string | null>;
  #branches: ReadonlyMap<number, string | null> = new Map();

  constructor(keep: (head: ForkHead) => Promise<string | null>) {
    this.#keep = keep;
  }

  /**
   * Gives each of them a branch, and forgets those of earlier calls. Call it outside of transactions, because git and
   * the records of the pushes take their time.
   */
  async keep(heads: readonly ForkHead[]): Promise<void> {
    const branches = new Map<number, string | null>();
    for (const head of heads) branches.set(head.iid, await this.#keep(head));
    this.#branches = branches;
  }

  /** Returns the branch of the merge request, or null if it got none. */
  branchOf(iid: number): string | null {
    return this.#branches.get(iid) ?? null;
  }
}

/**
 * Gives the head of a merge request from a fork a branch in the project, which becomes its source (reference:
 * export-archive §4). Returns the name of the branch: the same as in the fork, or with the number of the merge request
 * if the project has another branch of that name, or keeps the name from the importer. Null if the repository lacks the
 * commit, or there is no other name either. Repeating it changes nothing.
 */
export const keepHead = async (
  { services: { git } }: Pick<Context, 'services'>,
  path: string,
  { iid, branch, sha }: ForkHead,
  create: CreateBranch,
): Promise<string | null> => {
  for (const name of [branch, `${branch}-${iid}`].filter(validRefName)) {
    const tip = await git.resolve(path, branchRef(name));
    if (tip === sha) return name;
    if (tip !== null) continue;
    try {
      await create(name, sha);
      return name;
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const now = await git.resolve(path, branchRef(name));
      // Another attempt at the import has just created it.
      if (now === sha) return name;
      if (now === null && isConflict(error)) throw error;
    }
  }
  return null;
};

/** The commit is missing, another branch is in the way of the name, or a protection keeps it. */
const isRefusal = (error: unknown): boolean =>
  error instanceof GitError
    ? error.reason !== 'aborted'
    : error instanceof DomainError && (error.code === 'forbidden' || isConflict(error));

/** Somebody has just created the branch, or holds its name. */
const isConflict = (error: unknown): boolean => error instanceof DomainError && error.code === 'conflict';
