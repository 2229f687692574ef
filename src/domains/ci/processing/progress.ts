import type { RunWhen } from '#domains/ci-config/model.ts';
import { type CiStatus, isComplete } from '../model.ts';
import { combinedStatus, type Seen, seenAs } from './status.ts';

/** The facts that a decision about a job needs. Only the newest job of each name. */
export interface ProgressPart {
  readonly id: number;
  readonly name: string;
  readonly status: CiStatus;
  readonly allow_failure: boolean;
  readonly run_when: RunWhen;
  readonly stage_idx: number;
  /** The jobs that it waits for, by name. Null: all jobs of earlier stages. */
  readonly needs: readonly string[] | null;
  readonly resource_group_id: number | null;
}

export type Step = 'pending' | 'waiting_for_resource' | 'manual' | 'scheduled' | 'skipped';

/**
 * Decides about each job that is `created` and whose predecessors are complete (reference: ci §3). Returns the jobs
 * that move, in an order in which a job comes after its predecessors. Manual and delayed jobs in `immediately` start at
 * once.
 */
export const nextSteps = (
  jobs: readonly ProgressPart[],
  immediately: ReadonlySet<number> = new Set(),
): ReadonlyMap<number, Step> => {
  const steps = new Map<number, Step>();
  const byName = new Map(jobs.map((job) => [job.name, job]));
  const visited = new Set<number>();
  const seen = (job: ProgressPart): Seen => seenAs({ ...job, status: steps.get(job.id) ?? job.status });
  const decide = (job: ProgressPart, earlier: ReadonlySet<Seen>): void => {
    if (job.status !== 'created' || visited.has(job.id)) return;
    visited.add(job.id);
    const needed = job.needs?.flatMap((name) => byName.get(name) ?? []);
    // Needs may be in the same stage. Those of earlier stages are decided already.
    for (const need of needed ?? []) if (need.stage_idx === job.stage_idx) decide(need, earlier);
    const before = needed ? combinedStatus(new Set(needed.map(seen)), { needs: true }) : combinedStatus(earlier);
    if (before !== null && !isComplete({ status: before })) return;
    // One skipped need decides for the others, but not that they have ended.
    if (job.run_when === 'always' && needed?.some((need) => !isOver(seen(need)))) return;
    const goes = startsAfter(job, before ?? 'success');
    steps.set(job.id, goes ? firstStep(job, immediately.has(job.id)) : 'skipped');
  };
  const stages = Map.groupBy(jobs, (job) => job.stage_idx);
  const earlier = new Set<Seen>();
  for (const stage of [...stages.keys()].sort((a, b) => a - b)) {
    const members = stages.get(stage) ?? [];
    for (const job of members) decide(job, earlier);
    for (const job of members) earlier.add(seen(job));
  }
  return steps;
};

const isOver = (status: Seen): boolean => status === 'warn' || status === 'ignored' || isComplete({ status });

const startsAfter = ({ run_when, needs }: ProgressPart, before: CiStatus): boolean => {
  if (run_when === 'always') return true;
  if (run_when === 'on_failure') return before === 'failed';
  return before === 'success' || (before === 'skipped' && needs === null);
};

const firstStep = (job: Pick<ProgressPart, 'run_when' | 'resource_group_id'>, immediately: boolean): Step => {
  if (job.run_when === 'manual' && !immediately) return 'manual';
  if (job.run_when === 'delayed' && !immediately) return 'scheduled';
  return queueStep(job);
};

/** Where a job goes that may start: to the runners, or to the queue of its resource group. */
export const queueStep = (job: Pick<ProgressPart, 'resource_group_id'>): 'pending' | 'waiting_for_resource' =>
  job.resource_group_id === null ? 'pending' : 'waiting_for_resource';

/**
 * Returns the skipped jobs that may run after all once the given jobs run again: those of later stages, and those that
 * need the given jobs, directly or not.
 */
export const skippedAfter = (jobs: readonly ProgressPart[], again: ReadonlySet<number>): readonly number[] => {
  const first = Math.min(...jobs.filter(({ id }) => again.has(id)).map(({ stage_idx }) => stage_idx));
  const names = new Set(jobs.filter(({ id }) => again.has(id)).map(({ name }) => name));
  for (let before = -1; before !== names.size; ) {
    before = names.size;
    for (const job of jobs) if (job.needs?.some((name) => names.has(name))) names.add(job.name);
  }
  return jobs
    .filter((job) => job.status === 'skipped' && (job.stage_idx > first || names.has(job.name)) && !again.has(job.id))
    .map(({ id }) => id);
};
