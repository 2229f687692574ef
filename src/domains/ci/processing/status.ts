import type { CiStatus } from '../model.ts';

/** The facts about a job that the truth table needs. */
interface StatusPart {
  readonly status: CiStatus;
  readonly allow_failure: boolean;
}

/** A status as the truth table sees it: `warn` may fail or be canceled, `ignored` is a manual job that need not run. */
export type Seen = CiStatus | 'warn' | 'ignored';

export const seenAs = ({ status, allow_failure }: StatusPart): Seen => {
  if (!allow_failure) return status;
  if (status === 'failed' || status === 'canceled') return 'warn';
  return status === 'manual' ? 'ignored' : status;
};

/** Statuses that decide for a running pipeline, the first that occurs. */
const WAITING: readonly CiStatus[] = [
  'waiting_for_resource',
  'waiting_for_callback',
  'manual',
  'scheduled',
  'preparing',
];

/**
 * Combines the statuses of jobs: the newest of each name in a pipeline, in a stage, or among the needs of a job. Null if
 * there are none. The first row of the table that holds decides (reference: ci §3).
 */
export const combinedStatus = (seen: ReadonlySet<Seen>, { needs = false } = {}): CiStatus | null => {
  const only = (...allowed: readonly Seen[]): boolean => {
    for (const each of seen) if (!allowed.includes(each)) return false;
    return true;
  };
  if (seen.size === 0) return null;
  if (needs && (seen.has('skipped') || seen.has('ignored'))) return 'skipped';
  if (only('skipped', 'ignored')) return 'skipped';
  if (only('success', 'skipped', 'warn', 'ignored')) return 'success';
  if (only('created', 'warn', 'ignored')) return 'created';
  if (only('preparing', 'warn', 'ignored')) return 'preparing';
  if (only('canceled', 'success', 'skipped', 'warn', 'ignored')) return 'canceled';
  if (only('pending', 'created', 'skipped', 'warn', 'ignored')) return 'pending';
  if (seen.has('running') || seen.has('pending')) return 'running';
  const waiting = WAITING.find((each) => seen.has(each));
  if (waiting) return waiting;
  if (seen.has('created')) return 'running';
  return seen.has('canceling') ? 'canceling' : 'failed';
};

/** Combines the statuses of these jobs. */
export const statusOfJobs = (jobs: Iterable<StatusPart>): CiStatus | null =>
  combinedStatus(new Set([...jobs].map(seenAs)));
