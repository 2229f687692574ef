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
      if (!(await isRefused(error, () => git.resolve(path, branchRef(name))))) throw error;
    }
  }
  return null;
};

const isRefused = async (error: unknown, tip: () => Promise<string | null>): Promise<boolean> => {
  // The commit is missing, or another branch is in the way of the name.
  if (error instanceof GitError) return error.reason !== 'aborted';
  if (!(error instanceof DomainError)) return false;
  // A protection keeps the name, or somebody has just created the branch.
  return error.code === 'forbidden' || (error.code === 'conflict' && (await tip()) !== null);
};
