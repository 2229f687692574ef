import { join } from 'node:path';
import { GitError } from '../git-error.ts';

const SEGMENT = /^@?[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

/**
 * Returns the directory of a storage path such as `@hashed/ab/cd/42.git`. Paths come from our own rows, so an invalid
 * one is a bug.
 */
export const storageDirectory = (root: string, path: string): string => {
  const segments = path.split('/');
  if (path.length > 400 || !path.endsWith('.git') || !segments.every((segment) => SEGMENT.test(segment))) {
    throw new GitError('invalid', 'The repository path is not valid');
  }
  return join(root, ...segments);
};
