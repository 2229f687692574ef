import { badRequest } from '#platform/errors.ts';
import type { RevisionStep } from '#platform/git/refs.ts';

export interface SteppedRevision {
  /** The name or id where the steps start. */
  readonly start: string;
  readonly steps: readonly RevisionStep[];
}

/** Characters that no name or id contains. An expression of git starts there. */
const BEYOND_NAMES = /[~^:]|@\{/;
const STEP = /~(\d*)|\^(\d{0,6})(?![\d{])|\^\{(?:commit)?\}/y;

/** git walks the generations one by one, in a process that other requests wait for. */
const MAX_GENERATIONS = 10_000;
const MAX_STEPS = 100;

/**
 * Parses `main~2^2` or `v1.0^{commit}`. Returns null for a plain name or id. Supports only steps back: no reflogs,
 * which are not kept, no searches and no paths.
 *
 * @throws DomainError `bad_request` for any other expression and for one that goes back too far
 */
export const splitRevision = (revision: string): SteppedRevision | null => {
  const at = revision.search(BEYOND_NAMES);
  if (at === -1) return null;
  const steps: RevisionStep[] = [];
  let end = at;
  let generations = 0;
  while (end < revision.length) {
    STEP.lastIndex = end;
    const match = STEP.exec(revision);
    if (at === 0 || !match) throw badRequest(`${NOT_UNDERSTOOD}: ${revision.toWellFormed()}`);
    end = STEP.lastIndex;
    const [, back, parent] = match;
    if (back !== undefined) steps.push({ generations: numberOf(back) });
    else if (parent !== undefined) steps.push({ parent: numberOf(parent) });
    generations += numberOf(back ?? '');
    if (generations > MAX_GENERATIONS || steps.length > MAX_STEPS) throw badRequest(TOO_FAR);
  }
  return { start: revision.slice(0, at), steps };
};

const NOT_UNDERSTOOD =
  'A branch, tag or commit id can be followed by ~<number>, ^<number> and ^{commit}; this is not understood';
const TOO_FAR = `A revision can go back ${MAX_GENERATIONS} generations in at most ${MAX_STEPS} steps`;

const numberOf = (digits: string): number => (digits === '' ? 1 : Number(digits));
