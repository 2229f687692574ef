import { setImmediate as nextTurn } from 'node:timers/promises';
import { RE2JS } from 're2js';
import { badParameters } from '#platform/errors.ts';
import type { Ref } from '#platform/git/refs.ts';

export type Test = (name: string) => boolean;

export const searchTest = (search: string | undefined): Test | null => {
  if (search === undefined || search === '') return null;
  const fromStart = search.startsWith('^');
  const toEnd = search.endsWith('$');
  const term = search.slice(fromStart ? 1 : 0, toEnd ? -1 : undefined).toLowerCase();
  return (given) => {
    const name = given.toLowerCase();
    if (fromStart && toEnd) return name === term;
    return fromStart ? name.startsWith(term) : toEnd ? name.endsWith(term) : name.includes(term);
  };
};

/** Bounds the time of matching one name, which cannot be interrupted. */
const MAX_PROGRAM_SIZE = 1_000;

/** Compiles a filter. RE2 needs linear time for any name and expression. @throws DomainError `parameters` */
export const regexTest = (regex: string | undefined): Test | null => {
  if (regex === undefined || regex === '') return null;
  const compiled = compile(regex);
  if (compiled.programSize() > MAX_PROGRAM_SIZE) throw badParameters('regex is too complex');
  return (name) => compiled.test(name);
};

const compile = (regex: string): RE2JS => {
  try {
    return RE2JS.compile(regex);
  } catch {
    throw badParameters('regex is invalid (allowed: an RE2 expression)');
  }
};

const TURN_MS = 20;
/**
 * The CPU time for one list, regardless of other load. A longer search is refused, so that no expression keeps a
 * process busy.
 */
const BUDGET_MS = 500;

/** Filters names and yields to other requests regularly. @throws DomainError `parameters` if that takes too long */
export const filterNames = async (refs: readonly Ref[], prefixLength: number, test: Test): Promise<Ref[]> => {
  const found: Ref[] = [];
  let since = performance.now();
  let computed = process.threadCpuUsage();
  let spentMs = 0;
  for (const ref of refs) {
    if (test(ref.name.slice(prefixLength))) found.push(ref);
    if (performance.now() - since < TURN_MS) continue;
    const { user, system } = process.threadCpuUsage(computed);
    spentMs += (user + system) / 1_000;
    if (spentMs > BUDGET_MS) throw badParameters('regex is too complex for so many names');
    await nextTurn();
    since = performance.now();
    computed = process.threadCpuUsage();
  }
  return found;
};
