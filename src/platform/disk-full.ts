import { codeOf } from './files/error-code.ts';
import { GitError } from './git/git-error.ts';

/** The codes of the system for a full disk and a used quota, and the SQLSTATE of Postgres for both. */
const CODES = new Set<unknown>(['ENOSPC', 'EDQUOT', '53100']);

/** Returns true if the work failed because a disk is full: in a file of the hub, in git or in the database. */
export const isDiskFull = (error: unknown): boolean =>
  error instanceof Error &&
  (CODES.has(codeOf(error)) ||
    (error instanceof GitError && (error.reason === 'no_space' || CODES.has(codeOf(error.cause)))));
