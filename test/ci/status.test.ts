import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CI_STATUSES, type CiStatus } from '#domains/ci/model.ts';
import { nextSteps, type ProgressPart } from '#domains/ci/processing/progress.ts';
import { statusOfJobs } from '#domains/ci/processing/status.ts';

const job = fc.record({ status: fc.constantFrom(...CI_STATUSES), allow_failure: fc.boolean() });
type Job = { readonly status: CiStatus; readonly allow_failure: boolean };

/** The truth table of the reference (ci §3), as a list of rows: all of `only`, or any of `any`. */
const TABLE: readonly { readonly only?: string; readonly any?: string; readonly is: CiStatus }[] = [
  { only: 'skipped ignored', is: 'skipped' },
  { only: 'success skipped warn ignored', is: 'success' },
  { only: 'created warn ignored', is: 'created' },
  { only: 'preparing warn ignored', is: 'preparing' },
  { only: 'canceled success skipped warn ignored', is: 'canceled' },
  { only: 'pending created skipped warn ignored', is: 'pending' },
  { any: 'running pending', is: 'running' },
  { any: 'waiting_for_resource', is: 'waiting_for_resource' },
  { any: 'waiting_for_callback', is: 'waiting_for_callback' },
  { any: 'manual', is: 'manual' },
  { any: 'scheduled', is: 'scheduled' },
  { any: 'preparing', is: 'preparing' },
  { any: 'created', is: 'running' },
  { any: 'canceling', is: 'canceling' },
];

const word = ({ status, allow_failure }: Job): string => {
  if (allow_failure && (status === 'failed' || status === 'canceled')) return 'warn';
  return allow_failure && status === 'manual' ? 'ignored' : status;
};

const modelled = (jobs: readonly Job[]): CiStatus | null => {
  if (jobs.length === 0) return null;
  const words = jobs.map(word);
  const row = TABLE.find(({ only, any }) =>
    only === undefined
      ? words.some((each) => any?.split(' ').includes(each))
      : words.every((each) => only.split(' ').includes(each)),
  );
  return row?.is ?? 'failed';
};

describe('the status of a pipeline', () => {
  it('follows the first matching row of the truth table, for any jobs', () => {
    fc.assert(
      fc.property(fc.array(job, { maxLength: 6 }), (jobs) => {
        expect(statusOfJobs(jobs)).toBe(modelled(jobs));
      }),
      { numRuns: 3_000 },
    );
  });

  it.each([
    ['success failed', 'failed'],
    ['success failed?', 'success'],
    ['failed? pending', 'pending'],
    ['failed? running', 'running'],
    ['success manual', 'manual'],
    ['success manual?', 'success'],
    ['manual? skipped', 'skipped'],
    ['success created', 'running'],
    ['success canceled', 'canceled'],
    ['failed canceled', 'failed'],
    ['success canceling', 'canceling'],
    ['success scheduled created', 'scheduled'],
  ])('of %s is %s', (text, expected) => {
    const jobs = text.split(' ').map((each) => ({
      status: CI_STATUSES.find((status) => status === each.replace('?', '')) ?? 'created',
      allow_failure: each.endsWith('?'),
    }));
    expect(statusOfJobs(jobs)).toBe(expected);
  });
});

type Ending = 'success' | 'failed' | 'manual' | 'scheduled' | 'waiting_for_resource' | 'skipped' | 'created';

const plan = fc
  .array(
    fc.record({
      stage_idx: fc.nat(3),
      run_when: fc.constantFrom('on_success', 'on_failure', 'always', 'manual', 'delayed' as const),
      allow_failure: fc.boolean(),
      needs: fc.option(fc.array(fc.nat(9), { maxLength: 3 })),
      fails: fc.boolean(),
    }),
    { minLength: 1, maxLength: 10 },
  )
  .map((parts) =>
    parts
      .toSorted((a, b) => a.stage_idx - b.stage_idx)
      .map(({ needs, fails, ...part }, id, all) => ({
        fails,
        part: {
          ...part,
          id,
          name: `job ${id}`,
          status: 'created' as CiStatus,
          resource_group_id: null,
          // Only earlier jobs, so that there is no cycle.
          needs:
            needs && [...new Set(needs.map((at) => at % all.length).filter((at) => at < id))].map((at) => `job ${at}`),
        } satisfies ProgressPart,
      })),
  );

describe('the jobs of a pipeline', () => {
  it('all end in any graph: none starts before its predecessors are complete, none waits for ever', () => {
    fc.assert(
      fc.property(plan, (jobs) => {
        let parts: ProgressPart[] = jobs.map(({ part }) => part);
        const started: number[] = [];
        for (let round = 0; round < 60; round++) {
          const steps = nextSteps(parts);
          for (const [id, step] of steps) if (step !== 'skipped') started.push(id);
          for (const id of steps.keys()) {
            const { needs, stage_idx } = parts[id] as ProgressPart;
            const before = parts.filter((other) =>
              needs ? needs.includes(other.name) : other.stage_idx < stage_idx && other.id !== id,
            );
            const after = (other: ProgressPart) => steps.get(other.id) ?? other.status;
            const open = before.filter((other) => ['created', 'running', 'pending'].includes(after(other)));
            // A need that is skipped decides at once.
            if (steps.get(id) !== 'skipped') expect(open).toEqual([]);
          }
          parts = parts.map((part) => ({ ...part, status: (steps.get(part.id) as Ending | undefined) ?? part.status }));
          // People start what waits for them, and one job ends.
          const next = parts.find(({ status }) => ['pending', 'manual', 'scheduled'].includes(status));
          if (!next) break;
          const ended = jobs[next.id]?.fails ? 'failed' : 'success';
          parts = parts.map((part) => (part.id === next.id ? { ...part, status: ended } : part));
        }
        expect(new Set(started).size).toBe(started.length);
        expect(parts.filter(({ status }) => !['success', 'failed', 'skipped'].includes(status))).toEqual([]);
      }),
      { numRuns: 500 },
    );
  });
});
