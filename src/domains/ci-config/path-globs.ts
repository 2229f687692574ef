import { setImmediate } from 'node:timers/promises';
import { compileGlob, isPlainPath } from './globs.ts';

/** Paths that are compared before other work of the process gets its turn. */
const TURN = 2_000;

/** Returns the paths that a glob matches. */
export const matchingPaths = async (paths: readonly string[], glob: string): Promise<readonly string[]> => {
  const pattern = withoutLead(glob);
  if (isPlainPath(pattern)) return paths.includes(pattern) ? [pattern] : [];
  const test = compileGlob(pattern);
  const found: string[] = [];
  for (const [index, path] of paths.entries()) {
    if (index % TURN === TURN - 1) await setImmediate();
    if (test?.(path)) found.push(path);
  }
  return found;
};

/** Returns whether a glob matches a path. */
export const anyMatches = async (paths: readonly string[], globs: readonly string[]): Promise<boolean> => {
  const plain = new Set(paths);
  const tests = [];
  for (const glob of globs.map(withoutLead)) {
    if (isPlainPath(glob)) {
      if (plain.has(glob)) return true;
    } else tests.push(compileGlob(glob));
  }
  for (const test of tests) {
    if (!test) continue;
    for (const [index, path] of paths.entries()) {
      if (index % TURN === TURN - 1) await setImmediate();
      if (test(path)) return true;
    }
  }
  return false;
};

/** Paths of repositories do not start with `/` or `./`. */
export const withoutLead = (path: string): string => path.replace(/^\.?\/+/, '');
