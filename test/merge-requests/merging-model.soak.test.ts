import fc from 'fast-check';
import { describe, it } from 'vitest';
import { useFolder } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import { cases, checkCase, makeWorld } from './merging-cases.ts';

const app = useApp();
const folder = useFolder();
/** Each run of the tests draws other cases. More find rarer ones at once: `MERGING_RUNS=400`. */
const RUNS = Number(process.env.MERGING_RUNS ?? 10);

describe('merging', () => {
  it('agrees with the model and plain git, for many random situations and histories', async () => {
    const world = await makeWorld(app(), folder());
    await fc.assert(
      fc.asyncProperty(cases, (each) => checkCase(app(), world, each)),
      { numRuns: RUNS, endOnFailure: true },
    );
  }, 600_000);
});
