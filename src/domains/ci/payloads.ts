import { type Selectable, sql } from 'kysely';
import { PRIVATE, REPORTER } from '#domains/access/model.ts';
import type { Pipelines } from '#platform/db/tables.ts';
import { isoTime } from '#platform/time.ts';
import type { JobPayload, PipelinePayload } from './events.ts';

/** The columns of a project and its namespace that decide who sees events of its pipelines. */
export interface EventScopeColumns {
  readonly project_id: number;
  readonly visibility_level: number;
  readonly public_jobs: boolean;
  readonly builds_access_level: string;
  readonly repository_access_level: string;
  readonly traversal_ids: readonly number[];
}

/** Those columns but `project_id`, of the tables `projects p` and `namespaces n`. */
export const SCOPE_COLUMNS = sql.raw(
  'p.visibility_level, p.public_jobs, p.builds_access_level, p.repository_access_level, n.traversal_ids',
);

/** Returns the scope of an event about pipelines or jobs: `tx.emit(kind, { ...eventScope(row), subject, payload })`. */
export const eventScope = (row: EventScopeColumns) => ({
  project_id: row.project_id,
  namespace_ids: row.traversal_ids,
  visibility_level: row.visibility_level,
  min_access_level: audience(row),
});

/** Returns the lowest role that sees pipelines; null if everyone who can see the project does. */
const audience = (row: Omit<EventScopeColumns, 'project_id' | 'traversal_ids'>): number | null => {
  if (row.visibility_level === PRIVATE || !row.public_jobs) return REPORTER;
  return row.builds_access_level === 'enabled' && row.repository_access_level === 'enabled' ? null : REPORTER;
};

export const pipelinePayload = (row: Selectable<Pipelines>): PipelinePayload => ({
  id: row.id,
  iid: row.iid,
  name: row.name,
  ref: row.ref,
  tag: row.tag,
  sha: row.sha,
  before_sha: row.before_sha,
  source: row.source,
  status: row.status,
  user_id: row.user_id,
  duration: row.duration,
  created_at: isoTime(row.created_at),
  started_at: isoTime(row.started_at),
  finished_at: isoTime(row.finished_at),
});

/** The columns that the payload of a job is made from. */
export interface PayloadJob {
  readonly id: number;
  readonly pipeline_id: number;
  readonly kind: string;
  readonly name: string;
  readonly stage: string | null;
  readonly status: string;
  readonly ref: string | null;
  readonly tag: boolean;
  readonly allow_failure: boolean;
  readonly tags: readonly string[];
  readonly protected: boolean;
  readonly failure_reason: string | null;
  readonly environment: string | null;
  readonly coverage: number | null;
  readonly user_id: number | null;
  readonly runner_id: number | null;
  readonly created_at: string;
  readonly queued_at: string | null;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

export const jobPayload = (job: PayloadJob): JobPayload => ({
  id: job.id,
  pipeline_id: job.pipeline_id,
  kind: job.kind,
  name: job.name,
  stage: job.stage,
  status: job.status,
  ref: job.ref,
  tag: job.tag,
  allow_failure: job.allow_failure,
  tags: [...job.tags],
  protected: job.protected,
  failure_reason: job.failure_reason,
  environment: job.environment,
  coverage: job.coverage,
  user_id: job.user_id,
  runner_id: job.runner_id,
  created_at: isoTime(job.created_at),
  queued_at: isoTime(job.queued_at),
  started_at: isoTime(job.started_at),
  finished_at: isoTime(job.finished_at),
});
