import { sql } from 'kysely';
import { z } from 'zod';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { branchName, branchRef } from '#domains/repositories/model.ts';
import type { Context, Tx } from '#platform/context.ts';
import { contextInNameOf } from '#platform/create-context.ts';
import { DomainError } from '#platform/errors.ts';
import { AFTER_HOOKS_MS, defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';
import { compareClosed } from './closed-approvals.ts';
import { updateMergeRequest } from './commands.ts';
import { endMergeRequest } from './ending.ts';
import { recheckTarget } from './merging/rechecking.ts';
import { getMergeRequest, type MergeRequestRow } from './queries.ts';
import { branchNote } from './versions/pushed-commits.ts';
import { refreshLater } from './versions/refresh.ts';

/** Brings merge requests up to date with pushes to their source and target branches. */
export const followPushes = defineFollower({
  name: 'merge_requests.pushes',
  delayMs: AFTER_HOOKS_MS,
  payloads: false,
  wants: ({ kind }) => kind === repositoryUpdated.kind,
  handle: async (tx, events) => {
    // Only branches of open merge requests, and of closed ones with approvals: most pushes are to none.
    const { rows } = await sql<{ project_id: number; ref: string; actor_id: number | null }>`
      with pushed as materialized (
        select events.project_id, change ->> 'ref' as ref, (array_agg(events.actor_id order by events.id desc))[1] as actor_id
        from events cross join jsonb_array_elements(events.payload -> 'changes') change
        where events.position = any (${events.map(({ position }) => position)}::bigint[])
          and starts_with(change ->> 'ref', 'refs/heads/')
        group by 1, 2
      )
      select * from pushed where exists (
        select from merge_requests mr where mr.state = 'opened' and (
          (mr.project_id = pushed.project_id and mr.target_branch = ${SHORT_NAME})
          or (mr.source_project_id = pushed.project_id and mr.source_branch = ${SHORT_NAME}))
        union all
        select from merge_requests mr where mr.state = 'closed' and ${IS_APPROVED}
          and mr.source_project_id = pushed.project_id and mr.source_branch = ${SHORT_NAME})`.execute(tx.db);
    for (const { project_id, ref, actor_id } of rows) {
      tx.enqueue(
        followBranch,
        { project_id, ref, user_id: actor_id },
        { key: `merge_requests.branch:${project_id}:${ref}` },
      );
    }
  },
});

/** `refs/heads/main` without its prefix. */
const SHORT_NAME = sql<string>`substr(pushed.ref, 12)`;

/** The row `mr` has an approval. */
const IS_APPROVED = sql<boolean>`exists (
  select from merge_request_approvals a where a.merge_request_id = mr.id)`;

/**
 * The job `merge_requests.follow_branch`, in the order of the reference (merge-requests §2): closes merge requests whose
 * source branch is gone, marks those as merged whose head the target branch contains, and refreshes the others. Those
 * whose target branch is gone stay open. Approvals of closed ones are compared with the push.
 */
export const followBranch = defineJob({
  name: 'merge_requests.follow_branch',
  input: z.object({ project_id: z.number(), ref: z.string(), user_id: z.number().nullable() }),
  maxAttempts: 8,
  run: async (ctx, { project_id, ref, user_id }) => {
    const project = await findProject(ctx, { id: project_id });
    const branch = branchName(ref);
    if (!project || branch === null) return;
    const { git } = ctx.services;
    const tip = await git.resolve(project.disk_path, branchRef(branch));
    if (tip === null) {
      for (const row of await openOnes(ctx, { source: project, branch }))
        await endMergeRequest(ctx, row, user_id, {
          isDue: isUnchanged(row),
          as: { state: 'closed', reason: 'the source branch was deleted', notes: [branchNote('deleted', row)] },
        });
      await retarget(contextInNameOf(ctx, user_id), project, branch);
      const left = await openOnes(ctx, { target: project, branch });
      await ctx.transaction(async (tx) => {
        for (const { id } of left) refreshLater(tx, id);
      });
      return;
    }
    const into = await openOnes(ctx, { target: project, branch });
    const named = into.flatMap(({ diff_head_sha }) =>
      diff_head_sha && /^[0-9a-f]{40}$/.test(diff_head_sha) ? [diff_head_sha] : [],
    );
    // Imports may name commits that the repository lacks.
    const heads = (await git.readCommits(project.disk_path, named)).map(({ id }) => id);
    const contained = await git.containedIn(project.disk_path, tip, heads);
    const isMerged = ({ diff_head_sha }: OpenOne) => diff_head_sha !== null && contained.has(diff_head_sha);
    const mergeOf = async ({ diff_head_sha }: OpenOne) =>
      diff_head_sha && git.mergeCommitOf(project.disk_path, tip, diff_head_sha);
    const merged = (await withCommits(ctx, into)).filter(isMerged);
    for (const row of merged) {
      const as = { state: 'merged', mergeCommit: await mergeOf(row) } as const;
      await endMergeRequest(ctx, row, user_id, { isDue: isUnchanged(row), as });
    }
    const ended = new Set(merged.map(({ id }) => id));
    const from = await openOnes(ctx, { source: project, branch });
    await ctx.transaction(async (tx) => {
      for (const { id } of from.filter((row) => !ended.has(row.id))) refreshLater(tx, id, user_id);
      if (into.some(({ id }) => !ended.has(id)))
        tx.enqueue(recheckTarget, { project_id, branch }, { key: `merge_requests.recheck:${project_id}:${branch}` });
      for (const id of await closedApproved(tx, project, branch))
        tx.enqueue(compareClosed, { id, user_id }, { key: `merge_requests.compare_closed:${id}` });
    });
  },
});

/** Returns the ids of the closed merge requests from the branch that have approvals. */
const closedApproved = async (tx: Tx, { id }: ProjectRow, branch: string): Promise<readonly number[]> => {
  const { rows } = await sql<{ id: number }>`
    select mr.id from merge_requests mr
    where mr.source_project_id = ${id} and mr.source_branch = ${branch} and mr.state = 'closed' and ${IS_APPROVED}
    order by mr.id`.execute(tx.db);
  return rows.map((row) => row.id);
};

/** How many merge requests follow when their target branch was merged and deleted (reference: merge-requests §2). */
const MAX_RETARGETED = 4;

/** Points the open merge requests into a deleted branch at the branch that it was merged into. */
const retarget = async (ctx: Context, project: ProjectRow, branch: string): Promise<void> => {
  const merged = await ctx.db
    .selectFrom('merge_requests')
    .select('target_branch')
    .where('project_id', '=', project.id)
    .where('source_project_id', '=', project.id)
    .where('source_branch', '=', branch)
    .where('state', '=', 'merged')
    .orderBy('merged_at', 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!merged) return;
  for (const { iid } of (await openOnes(ctx, { target: project, branch })).slice(0, MAX_RETARGETED)) {
    const row = await getMergeRequest(ctx, project, iid);
    try {
      await updateMergeRequest(ctx, project, row, { target_branch: merged.target_branch });
    } catch (error) {
      // Another merge request has these branches already.
      if (!(error instanceof DomainError)) throw error;
    }
  }
};

/** Few columns: texts are long, and a branch may have many merge requests. */
type OpenOne = Pick<MergeRequestRow, 'id' | 'iid' | 'project_id' | 'source_branch' | 'target_branch' | 'diff_head_sha'>;

const openOnes = async (
  ctx: Context,
  { source, target, branch }: { readonly source?: ProjectRow; readonly target?: ProjectRow; readonly branch: string },
): Promise<OpenOne[]> => {
  let query = ctx.db
    .selectFrom('merge_requests')
    .select(['id', 'iid', 'project_id', 'source_branch', 'target_branch', 'diff_head_sha'])
    .where('state', '=', 'opened')
    .orderBy('id');
  if (source) query = query.where('source_project_id', '=', source.id).where('source_branch', '=', branch);
  if (target) query = query.where('project_id', '=', target.id).where('target_branch', '=', branch);
  return query.execute();
};

const isUnchanged = (row: OpenOne) => (_tx: Tx, now: OpenOne) =>
  now.diff_head_sha === row.diff_head_sha && now.target_branch === row.target_branch;

/** Leaves out those that never had a commit of their own: every branch contains their head. */
const withCommits = async (ctx: Context, rows: readonly OpenOne[]): Promise<OpenOne[]> => {
  const found = await ctx.db
    .selectFrom('merge_request_diffs')
    .select('merge_request_id')
    .where(sql<boolean>`merge_request_id = any (${rows.map(({ id }) => id)}::bigint[])`)
    .where('is_latest', '=', true)
    .where('commits_count', '>', 0)
    .execute();
  const ids = new Set(found.map(({ merge_request_id }) => merge_request_id));
  return rows.filter(({ id }) => ids.has(id));
};
