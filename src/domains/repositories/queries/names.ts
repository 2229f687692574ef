import { setImmediate as nextTurn } from 'node:timers/promises';
import { RE2JS } from 're2js';
import { badParameters } from '#platform/errors.ts';
import type { Ref } from '#platform/git/types.ts';

export type Test = (name: string) => boolean;

export const searchTest = (search: string | undefined): Test | null => {
  if (search === undefined || search === '') return null;
  const fromStart = search.startsWith('^');
  const toEnd = search.endsWith('$') && search.length > 1;
  const term = search.slice(fromStart ? 1 : 0, toEnd ? -1 : undefined).toLowerCase();
  return (given) => {
    const name = given.toLowerCase();
    if (fromStart && toEnd) return name === term;
    return fromStart ? name.startsWith(term) : toEnd ? name.endsWith(term) : name.includes(term);
  };
};

/** RE2 takes time linear in name and expression, whatever somebody thinks up. */
export const regexTest = (regex: string | undefined): Test | null => {
  if (regex === undefined || regex === '') return null;
  try {
    const compiled = RE2JS.compile(regex);
    return (name) => compiled.test(name);
  } catch {
    throw badParameters('regex is invalid');
  }
};

const TURN_MS = 20;

/** Others get their turn while a long list is searched. */
export const filterNames = async (refs: readonly Ref[], prefixLength: number, test: Test): Promise<Ref[]> => {
  const found: Ref[] = [];
  let since = performance.now();
  for (const ref of refs) {
    if (test(ref.name.slice(prefixLength))) found.push(ref);
    if (performance.now() - since < TURN_MS) continue;
    await nextTurn();
    since = performance.now();
  }
  return found;
};
