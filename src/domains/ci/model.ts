import { projectWebUrl } from '#domains/projects/model.ts';
import type { Clock } from '#platform/clock.ts';
import type { Context } from '#platform/context.ts';
import { dateOf } from '#platform/time.ts';

/** The statuses of pipelines, stages and jobs (reference: conventions §8). */
export const CI_STATUSES = [
  'created',
  'waiting_for_resource',
  'preparing',
  'waiting_for_callback',
  'pending',
  'running',
  'success',
  'failed',
  'canceling',
  'canceled',
  'skipped',
  'manual',
  'scheduled',
] as const;
export type CiStatus = (typeof CI_STATUSES)[number];

export const PIPELINE_SCOPES = ['running', 'pending', 'finished', 'branches', 'tags'] as const;
export type PipelineScope = (typeof PIPELINE_SCOPES)[number];

/** The causes that start a pipeline (reference: ci §2). */
const PIPELINE_SOURCES = [
  'push',
  'web',
  'trigger',
  'schedule',
  'api',
  'external',
  'pipeline',
  'chat',
  'webide',
  'merge_request_event',
  'external_pull_request_event',
  'parent_pipeline',
] as const;
export type PipelineSource = (typeof PIPELINE_SOURCES)[number];

/** Sources of pipelines that are not the newest of their branch, do not count for it, and are not listed. */
export const DANGLING_SOURCES = ['webide', 'parent_pipeline'] as const;

export const isDangling = ({ source }: { readonly source: string }): boolean =>
  DANGLING_SOURCES.some((each) => each === source);

export type JobKind = 'build' | 'bridge' | 'generic_commit_status';

/** Returns the stored text as a status. */
export const statusOf = ({ status }: { readonly status: string }): CiStatus =>
  CI_STATUSES.find((each) => each === status) ?? 'created';

const COMPLETED: ReadonlySet<string> = new Set<CiStatus>(['success', 'failed', 'canceled', 'skipped']);
const ACTIVE: ReadonlySet<string> = new Set<CiStatus>([
  'waiting_for_resource',
  'preparing',
  'waiting_for_callback',
  'pending',
  'running',
]);

export const isComplete = ({ status }: { readonly status: string }): boolean => COMPLETED.has(status);
export const isActive = ({ status }: { readonly status: string }): boolean => ACTIVE.has(status);

/** The states that external systems can report. */
export const REPORTED_STATES = ['pending', 'running', 'success', 'failed', 'canceled', 'skipped'] as const;
export type ReportedState = (typeof REPORTED_STATES)[number];

/** The transition of each reported state, and the statuses that allow it. */
const STEPS: Readonly<Record<ReportedState, { readonly event: string; readonly from: readonly CiStatus[] }>> = {
  pending: { event: 'enqueue', from: ['created'] },
  running: { event: 'run', from: ['created', 'pending'] },
  success: { event: 'success', from: ['created', 'pending', 'running'] },
  failed: { event: 'drop', from: ['created', 'pending', 'running'] },
  canceled: { event: 'cancel', from: ['created', 'pending', 'running'] },
  skipped: { event: 'skip', from: ['created', 'pending'] },
};

/** Returns why the transition is not allowed, in the wording that clients know; null if it is. */
export const stepProblem = (from: CiStatus, to: ReportedState): string | null => {
  const { event, from: allowed } = STEPS[to];
  return allowed.includes(from)
    ? null
    : `Cannot transition status via :${event} from :${from} (Reason(s): Status cannot transition via "${event}")`;
};

/** The ref of a merge request pipeline: of the branch, or of its merge into the target branch. */
export const isMergeRequestRef = (ref: string): boolean => /^refs\/merge-requests\/\d+\/(?:head|merge)$/.test(ref);

/** Whether the pipeline of a merge request runs on the merge into the target branch, or on the source branch alone. */
export const mergeRequestEventType = ({ ref }: { readonly ref: string | null }): 'merged_result' | 'detached' =>
  ref?.endsWith('/merge') ? 'merged_result' : 'detached';

/** Returns the name that parallel jobs share: `test` for `test 1/3` and `test: [a, b]`. */
export const nameOfParallel = (name: string): string => name.replace(/(?: \d+\/\d+|: \[[^\]]*\])$/, '');

/** How a status is displayed. */
export interface DetailedStatus {
  readonly icon: string;
  readonly text: string;
  readonly label: string;
  readonly group: string;
  readonly tooltip: string;
  readonly has_details: boolean;
  readonly details_path: string;
}

/** Icon, text and label of statuses for which they are not derived from the name. */
const SHOWN: Partial<Record<CiStatus, readonly [icon: string, text: string, label: string]>> = {
  success: ['status_success', 'Passed', 'passed'],
  waiting_for_resource: ['status_pending', 'Waiting', 'waiting for resource'],
  waiting_for_callback: ['status_pending', 'Waiting', 'waiting for callback'],
  manual: ['status_manual', 'Manual', 'manual action'],
  scheduled: ['status_scheduled', 'Scheduled', 'scheduled'],
};

/** Returns the status for display. `warnings` means that a job failed that was allowed to. */
export const detailedStatus = (status: CiStatus, details_path: string, warnings = false): DetailedStatus => {
  const plain = status.replaceAll('_', ' ');
  const [icon, text, label] =
    status === 'success' && warnings
      ? ['status_warning', 'Warning', 'passed with warnings']
      : (SHOWN[status] ?? [`status_${status}`, plain.charAt(0).toUpperCase() + plain.slice(1), plain]);
  const group = status === 'success' && warnings ? 'success-with-warnings' : status.replaceAll('_', '-');
  return { icon, text, label, group, tooltip: label, has_details: true, details_path };
};

interface OfProject {
  readonly id: number;
  readonly project_path: string;
}

export const pipelinePath = ({ id, project_path }: OfProject): string => `/${project_path}/-/pipelines/${id}`;
export const jobPath = ({ id, project_path }: OfProject): string => `/${project_path}/-/jobs/${id}`;

/** Returns the path of the page of a commit, or null without a commit. */
export const commitPath = ({
  sha,
  project_path,
}: {
  readonly sha: string | null;
  readonly project_path: string;
}): string | null => (sha === null ? null : `/${project_path}/-/commit/${sha}`);

/** Returns the full name of the ref of a pipeline or job. Those of merge requests are full already. */
export const fullRef = (ref: string, tag: boolean): string =>
  ref.startsWith('refs/') ? ref : `refs/${tag ? 'tags' : 'heads'}/${ref}`;

export const pipelineWebUrl = (ctx: Pick<Context, 'services'>, { id, project_path }: OfProject): string =>
  `${projectWebUrl(ctx, { full_path: project_path })}/-/pipelines/${id}`;

export const jobWebUrl = (ctx: Pick<Context, 'services'>, { id, project_path }: OfProject): string =>
  `${projectWebUrl(ctx, { full_path: project_path })}/-/jobs/${id}`;

/** Returns the seconds between two times; null if either is missing. */
export const secondsBetween = (from: string | null, to: string | null): number | null =>
  from === null || to === null ? null : Math.max(0, (timeOf(to) - timeOf(from)) / 1_000);

/** Returns the whole seconds that a pipeline waited for its first job to start; null if none has. */
export const queuedSeconds = (pipeline: {
  readonly created_at: string;
  readonly started_at: string | null;
}): number | null => {
  const seconds = secondsBetween(pipeline.created_at, pipeline.started_at);
  return seconds === null ? null : Math.floor(seconds);
};

/** Returns the whole seconds in which at least one of the jobs ran (reference: ci §3). */
export const runningSeconds = (
  jobs: readonly { readonly started_at: string | null; readonly finished_at: string | null }[],
): number => {
  const intervals = jobs
    .flatMap(({ started_at, finished_at }) =>
      started_at === null || finished_at === null ? [] : [[timeOf(started_at), timeOf(finished_at)] as const],
    )
    .sort(([a], [b]) => a - b);
  let total = 0;
  let until = Number.NEGATIVE_INFINITY;
  for (const [start, end] of intervals) {
    total += Math.max(0, end - Math.max(start, until));
    until = Math.max(until, end);
  }
  return Math.floor(total / 1_000);
};

/** Returns the duration of the job, until now if it is still running. */
export const jobDuration = (
  { clock }: { readonly clock: Clock },
  job: { readonly started_at: string | null; readonly finished_at: string | null; readonly status: string },
): number | null => {
  if (job.finished_at === null && job.started_at !== null && isActive(job)) {
    return Math.max(0, (clock.now().getTime() - timeOf(job.started_at)) / 1_000);
  }
  return secondsBetween(job.started_at, job.finished_at);
};

const timeOf = (text: string): number => dateOf(text).getTime();
