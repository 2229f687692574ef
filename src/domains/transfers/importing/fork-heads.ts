import { branchRef } from '#domains/repositories/model.ts';
import type { Context } from '#platform/context.ts';
import { GitError } from '#platform/git/git-error.ts';
import { validRefName } from '#platform/git/ref-names.ts';

/** The source branch of a merge request that came from a fork. */
export interface ForkHead {
  readonly iid: number;
  readonly branch: string;
  readonly sha: string;
}

/**
 * Gives the head of a merge request from a fork a branch in the project, which becomes its source (reference:
 * export-archive §4). Returns the name of the branch: the same as in the fork, or with the number of the merge request
 * if the project has another branch of that name. Null if the repository lacks the commit, or both names are taken.
 * Repeating it changes nothing.
 */
export const keepHead = async (
  { services: { git } }: Pick<Context, 'services'>,
  path: string,
  { iid, branch, sha }: ForkHead,
): Promise<string | null> => {
  for (const name of [branch, `${branch}-${iid}`].filter(validRefName)) {
    const tip = await git.resolve(path, branchRef(name));
    if (tip === sha) return name;
    if (tip !== null) continue;
    try {
      await git.updateRefs(path, [{ ref: branchRef(name), newOid: sha }]);
      return name;
    } catch (error) {
      // The commit is missing, or another branch is in the way of the name.
      if (!(error instanceof GitError) || error.reason === 'aborted') throw error;
    }
  }
  return null;
};
