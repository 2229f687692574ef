import { sql } from 'kysely';
import { RE2JS } from 're2js';
import { type ApprovalObstacle, approvalObstacles } from '#domains/approvals/state.ts';
import { isComplete } from '#domains/ci/model.ts';
import type { PipelineRow } from '#domains/ci/queries.ts';
import { defineCache } from '#platform/cache.ts';
import type { Context } from '#platform/context.ts';
import { headPipelinesByIds, type MergeRequestRow } from './queries.ts';

/** The statuses of reference merge-requests §3 that can occur here. */
export const DETAILED_MERGE_STATUSES = [
  'preparing',
  'unchecked',
  'checking',
  'mergeable',
  'requested_changes',
  'approvals_syncing',
  'not_approved',
  'merge_request_blocked',
  'ci_must_pass',
  'ci_still_running',
  'commits_status',
  'discussions_not_resolved',
  'title_regex',
  'draft_status',
  'merge_time',
  'not_open',
  'conflict',
  'need_rebase',
] as const;
export type DetailedMergeStatus = (typeof DETAILED_MERGE_STATUSES)[number];

/** Whether a merge request can be merged. */
export interface Mergeability {
  /** `mergeable`, or the first reason why not. */
  readonly detailed_merge_status: DetailedMergeStatus;
  /** The status that follows from the pipeline alone: `mergeable` if it is not in the way. */
  readonly ci_status: 'mergeable' | 'ci_must_pass' | 'ci_still_running';
  /** True also if the project does not require that discussions are resolved. */
  readonly blocking_discussions_resolved: boolean;
  /** The project merges only branches that contain the target, and this one does not. */
  readonly needs_rebase: boolean;
}

type SeenRow = Pick<MergeRequestRow, 'id' | 'state' | 'draft' | 'merge_status' | 'diff_head_sha'>;

/** Everything that decides about a merge request. `mergeabilityByIds` reads it for many at once. */
interface Facts extends SeenRow {
  readonly is_blocked: boolean;
  readonly is_early: boolean;
  /** The newest version has no commits, or one of the branches or the source project does not exist. */
  readonly is_empty: boolean;
  readonly has_open_discussions: boolean;
  readonly title: string;
  /** The rule of the project for titles. */
  readonly title_regex: string | null;
  readonly needs_rebase: boolean;
  readonly is_rebasing: boolean;
  readonly demands_pipeline: boolean;
  readonly merge_when_pipeline_succeeds: boolean;
  readonly allow_skipped_pipeline: boolean;
}

/**
 * Returns whether each of the merge requests can be merged, by id. The caller has checked that they are visible.
 *
 * @param rows Rows that the caller has read. The answer fits them, although they may have changed since.
 */
export const mergeabilityByIds = async (
  ctx: Context,
  ids: readonly number[],
  rows: readonly SeenRow[] = [],
): Promise<Map<number, Mergeability>> => {
  const [current, obstacles] = await Promise.all([readFacts(ctx, ids), approvalObstacles(ctx, ids)]);
  const seen = new Map(
    rows.map(({ id, state, draft, merge_status, diff_head_sha }) => [
      id,
      { state, draft, merge_status, diff_head_sha },
    ]),
  );
  const facts = current.map((each) => ({ ...each, ...seen.get(each.id) }));
  const waiting = facts.filter(
    ({ demands_pipeline, merge_when_pipeline_succeeds }) => demands_pipeline || merge_when_pipeline_succeeds,
  );
  const pipelines =
    waiting.length === 0
      ? new Map<number, PipelineRow>()
      : await headPipelinesByIds(
          ctx,
          waiting.map(({ id }) => id),
        );
  return new Map(
    facts.map((each) => {
      const pipeline = pipelines.get(each.id);
      const ci_status = pipelineStatus(each, isOfHead(each, pipeline) ? pipeline.status : null);
      return [
        each.id,
        {
          detailed_merge_status: statusOf(ctx, each, obstacles.get(each.id), ci_status),
          ci_status,
          blocking_discussions_resolved: !each.has_open_discussions,
          needs_rebase: each.needs_rebase,
        },
      ];
    }),
  );
};

/** The row `notes` is a comment of a thread that is not resolved. */
export const IS_UNRESOLVED = sql<boolean>`(not notes.system
  and notes.type in ('DiffNote', 'DiscussionNote') and notes.resolved_at is null)`;

/** The row `mr` waits for another merge request. */
const IS_BLOCKED = sql<boolean>`(mr.state <> 'merged' and exists (
  select from merge_request_blocks b join merge_requests blocking on blocking.id = b.blocking_id
  where b.blocked_id = mr.id and blocking.state <> 'merged'))`;

/** Returns true if the merge request waits for another one that is not merged. */
export const isBlocked = async ({ db }: Pick<Context, 'db'>, id: number): Promise<boolean> => {
  const { rows } = await sql<{ is_blocked: boolean }>`
    select ${IS_BLOCKED} as is_blocked from merge_requests mr where mr.id = ${id}`.execute(db);
  return rows[0]?.is_blocked ?? false;
};

const readFacts = async (ctx: Context, ids: readonly number[]): Promise<readonly Facts[]> => {
  const { rows } = await sql<Facts>`
    select mr.id, mr.title, p.merge_request_title_regex as title_regex, mr.state, mr.draft, mr.merge_status, mr.diff_head_sha, mr.merge_when_pipeline_succeeds,
      ${IS_BLOCKED} as is_blocked,
      coalesce(mr.merge_after > ${ctx.clock.now().toISOString()}::timestamptz, false) as is_early,
      mr.source_project_id is null or mr.branch_missing or exists (
        select from merge_request_diffs d
        where d.merge_request_id = mr.id and d.is_latest and d.state = 'empty') as is_empty,
      p.only_allow_merge_if_all_discussions_are_resolved and exists (
        select from notes where notes.merge_request_id = mr.id and ${IS_UNRESOLVED}) as has_open_discussions,
      mr.needs_rebase and p.merge_method <> 'merge' as needs_rebase,
      mr.state = 'opened' and mr.rebasing is not null as is_rebasing,
      p.only_allow_merge_if_pipeline_succeeds as demands_pipeline,
      coalesce(p.allow_merge_on_skipped_pipeline, false) as allow_skipped_pipeline
    from merge_requests mr join projects p on p.id = mr.project_id
    where mr.id = any (${ids}::bigint[])`.execute(ctx.db);
  return rows;
};

/** Decides in the order of the reference (merge-requests §3). */
const statusOf = (
  ctx: Pick<Context, 'services'>,
  facts: Facts,
  obstacle: ApprovalObstacle | undefined,
  ciStatus: Mergeability['ci_status'],
): DetailedMergeStatus => {
  switch (facts.merge_status) {
    case 'preparing':
    case 'checking':
      return facts.merge_status;
    case 'unchecked':
    case 'cannot_be_merged_recheck':
      return 'unchecked';
  }
  if (facts.is_rebasing) return 'checking';
  if (obstacle !== undefined) return obstacle;
  if (facts.is_blocked) return 'merge_request_blocked';
  if (facts.state !== 'opened') return 'not_open';
  if (facts.is_early) return 'merge_time';
  if (facts.draft) return 'draft_status';
  if (facts.is_empty) return 'commits_status';
  if (facts.has_open_discussions) return 'discussions_not_resolved';
  if (!fitsTitle(ctx, facts)) return 'title_regex';
  if (facts.merge_status === 'cannot_be_merged') return 'conflict';
  if (facts.needs_rebase) return 'need_rebase';
  return ciStatus;
};

const fitsTitle = ({ services }: Pick<Context, 'services'>, { title, title_regex }: Facts): boolean =>
  !title_regex || compiledRule(services, title_regex).matcher(title).find();

/** A page of merge requests asks for the same rule a hundred times. */
const rules = defineCache<string, RE2JS>({ name: 'rules for titles of merge requests', limit: 1_000 });

const compiledRule = (services: Context['services'], pattern: string): RE2JS => {
  const cache = rules(services);
  const known = cache.get(pattern);
  if (known) return known;
  const compiled = RE2JS.compile(pattern);
  cache.set(pattern, compiled);
  return compiled;
};

/** Without the project's demand, auto-merge waits for a pipeline only if there is one. */
const pipelineStatus = (facts: Facts, status: string | null): Mergeability['ci_status'] => {
  if (!facts.demands_pipeline && (status === null || !facts.merge_when_pipeline_succeeds)) return 'mergeable';
  if (status === 'success') return 'mergeable';
  if (status === 'skipped' && (facts.allow_skipped_pipeline || !facts.demands_pipeline)) return 'mergeable';
  return status !== null && status !== 'manual' && !isComplete({ status }) ? 'ci_still_running' : 'ci_must_pass';
};

/** Returns true for a pipeline of the head. Those of earlier commits do not count for merging. */
export const isOfHead = <P extends Pick<PipelineRow, 'sha' | 'source_sha'>>(
  { diff_head_sha }: Pick<MergeRequestRow, 'diff_head_sha'>,
  pipeline: P | null | undefined,
): pipeline is P =>
  pipeline != null && diff_head_sha !== null && [pipeline.sha, pipeline.source_sha].includes(diff_head_sha);
