import { isTransient } from './db/failures.ts';
import { codeOf } from './files/error-code.ts';
import { GitError } from './git/git-error.ts';

/** The codes of the system if this process or the machine cannot open more files and connections. */
const OUT_OF_FILES = new Set<unknown>(['EMFILE', 'ENFILE']);

/**
 * Returns true if the work failed for lack of something that is soon back: the database, its time or its resources, or
 * open files. The request can be repeated. A full disk is `isDiskFull`, which callers check first.
 */
export const isUnavailable = (error: unknown): boolean =>
  isTransient(error) ||
  OUT_OF_FILES.has(codeOf(error)) ||
  (error instanceof GitError && OUT_OF_FILES.has(codeOf(error.cause)));
