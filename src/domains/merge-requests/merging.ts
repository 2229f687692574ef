import { sql } from 'kysely';
import { z } from 'zod';
import { recordHistory } from '#domains/planning/history.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { refusalsOfObjects } from '#domains/push-rules/judge.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { readPushPolicy } from '#domains/repositories/policy.ts';
import { isGranted, isProtectedRef, matching, readProtections } from '#domains/repositories/protections.ts';
import { moveRefs } from '#domains/repositories/pushes.ts';
import { callerIdentity } from '#domains/repositories/writing.ts';
import { commitEmail } from '#domains/users/model.ts';
import { usersByIds } from '#domains/users/queries.ts';
import { type Context, systemActor, type Tx } from '#platform/context.ts';
import { DomainError, unauthenticated, unprocessable } from '#platform/errors.ts';
import type { Commit, CommitsToMerge, Identity } from '#platform/git/types.ts';
import { defineJob } from '#platform/jobs.ts';
import { toJsonb } from '#platform/to-jsonb.ts';
import { mergeRequestMerged, mergeRequestUpdated } from './events.ts';
import { type MessageFacts, mergeMessage, squashMessage } from './messages.ts';
import { fullReference, isOfHead, mergeRequestWebUrl } from './model.ts';
import {
  getMergeRequest,
  headPipelinesByIds,
  lockMergeRequest,
  type MergeRequestRow,
  mergeRequestStatsByIds,
  mergeRequestsByIds,
} from './queries.ts';
import { emitMergeRequest, snapshotsOf } from './snapshot.ts';
import { refreshMergeRequest, refreshNow } from './versions.ts';

// A merge is one durable step. Its commits are made first; nothing names them. Then the merge request is locked, with
// what is about to land. Then the branch moves, with the events of a push. Then the merge request is merged. If the
// process dies in between, the job `merge_requests.settle_merge` finds the locked merge request, and the branch tells
// whether the merge has happened.

export interface Merge {
  readonly merge_commit_message?: string | undefined;
  readonly squash_commit_message?: string | undefined;
  readonly squash?: boolean | undefined;
  /** The head that the caller has seen. */
  readonly sha?: string | undefined;
  readonly should_remove_source_branch?: boolean | undefined;
  readonly merge_when_pipeline_succeeds?: boolean | undefined;
}

/** What is about to land, in `merge_requests.merging`. */
const intentSchema = z.object({
  /** The full name of the target branch. */
  ref: z.string(),
  oid: z.string(),
  squash_oid: z.string().nullable(),
  has_merge_commit: z.boolean(),
  user_id: z.number().nullable(),
  remove_source_branch: z.boolean(),
});
type Intent = z.output<typeof intentSchema>;

/** The target branch may move this often while its merge is prepared. */
const MAX_ATTEMPTS = 5;
/** Longer than moving a ref may take. */
const SETTLE_AFTER_MS = 120_000;
/** How many commits messages may name. */
const MAX_COMMITS = 100;
const UNMERGEABLE = 'Branch cannot be merged';

/**
 * Merges a merge request (reference: merge-requests §4).
 *
 * @throws DomainError `unauthenticated` if the caller may neither push nor merge to the target branch, `not_allowed` if
 *   something other than the code is in the way, `conflict` for another head than `sha`, `unprocessable` if the branches
 *   cannot be merged
 */
export const mergeMergeRequest = async (
  ctx: Context,
  project: ProjectRow,
  given: MergeRequestRow,
  input: Merge,
): Promise<MergeRequestRow> => {
  let current = project;
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
    const seen = await getMergeRequest(ctx, current, given.iid);
    if (!(await mayMerge(ctx, current, seen.target_branch))) throw unauthenticated();
    if (seen.state === 'opened') await refreshNow(ctx, seen.id);
    const row = await getMergeRequest(ctx, current, given.iid);
    // What was permitted is a merge into the branch that was seen.
    if (row.target_branch === seen.target_branch) {
      await requireMergeable(ctx, current, row, input);
      const landed = await land(ctx, current, row, input);
      if (landed) return landed;
    }
    // A branch or the merge request has moved, or somebody else merges. All of these show in the next round.
    current = (await findProject(ctx, { id: project.id })) ?? current;
  }
  throw unprocessable(UNMERGEABLE);
};

/** Returns true if the caller may push or merge to the branch. */
export const mayMerge = async (ctx: Context, project: ProjectRow, branch: string): Promise<boolean> => {
  if (!can(ctx, project, 'admin_merge_request')) return false;
  const { branches, callersGroups } = await readProtections(ctx, project.id);
  const rules = matching(branches, branch);
  if (rules.length === 0) return true;
  return (['merge', 'push'] as const).some((action) =>
    isGranted(ctx, project.access_level, rules, action, callersGroups),
  );
};

const requireMergeable = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  { sha, merge_when_pipeline_succeeds = false }: Merge,
): Promise<void> => {
  const notAllowed = () => new DomainError('not_allowed', '405 Method Not Allowed');
  const [snapshot] = await snapshotsOf(ctx, [{ row, project }]);
  const status = row.state === 'locked' ? 'checking' : snapshot?.detailed_merge_status;
  if (status === 'conflict') throw unprocessable(UNMERGEABLE);
  if (status !== 'mergeable') throw notAllowed();
  // There is nothing to wait for without a pipeline, and a pipeline that runs cannot be waited for yet.
  if (merge_when_pipeline_succeeds) {
    const pipeline = (await headPipelinesByIds(ctx, [row.id])).get(row.id);
    if (!isOfHead(row, pipeline) || pipeline.status !== 'success') throw notAllowed();
  }
  if (sha !== undefined && sha !== row.diff_head_sha) {
    throw new DomainError('conflict', `SHA does not match HEAD of source branch: ${row.diff_head_sha}`);
  }
};

/** Makes the commits and moves the target branch. Returns null if something moved meanwhile, and nothing has changed. */
const land = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  input: Merge,
): Promise<MergeRequestRow | null> => {
  const { git } = ctx.services;
  const ref = branchRef(row.target_branch);
  const start = await git.resolve(project.disk_path, ref);
  const head = row.diff_head_sha;
  if (start === null || head === null) throw unprocessable(UNMERGEABLE);
  const { merge_method, squash_option } = project;
  const squashes = squash_option === 'always' || (squash_option !== 'never' && (input.squash ?? row.squash));
  const isLinear = await git.isAncestor(project.disk_path, start, head);
  if (merge_method !== 'merge' && !isLinear) {
    throw await failed(
      ctx,
      project,
      row,
      'Only fast-forward merge is allowed for your project. Please update your source branch',
    );
  }
  const range = { from: head, not: [start] };
  const commits = await git.listCommits(project.disk_path, { ...range, limit: MAX_COMMITS });
  // Somebody has pushed the same commits to the target branch.
  if (commits.length === 0) return null;
  const caller = await callerIdentity(ctx);
  const facts = await factsOf(ctx, row, caller, commits, await oldestOf(ctx, project, range, commits));
  const isOne = commits.length === 1 && input.squash_commit_message === undefined;
  const author = squashes ? await authorOf(ctx, row, caller) : caller;
  const merging: CommitsToMerge = {
    ours: start,
    theirs: head,
    squash:
      squashes && !isOne
        ? {
            message: input.squash_commit_message ?? squashMessage(project.squash_commit_template, facts),
            author,
            committer: caller,
          }
        : undefined,
    merge:
      merge_method === 'ff'
        ? undefined
        : {
            message: input.merge_commit_message ?? mergeMessage(project.merge_commit_template, facts),
            author: caller,
            committer: caller,
          },
  };
  const { rule } = await readPushPolicy(ctx, project);
  const merged = await git.mergeCommits(project.disk_path, merging, async (oid, objects) => {
    const moved = { ref, oldOid: start, newOid: oid };
    const [refused] = rule ? await refusalsOfObjects(ctx, project, rule, [moved], objects) : [];
    if (refused) throw await failed(ctx, project, row, refused.reason);
  });
  if ('failed' in merged) throw unprocessable(UNMERGEABLE);
  const wantsRemoval = input.should_remove_source_branch ?? row.force_remove_source_branch ?? false;
  const source = row.source_project_id === null ? null : await findProject(ctx, { id: row.source_project_id });
  const intent: Intent = {
    ref,
    oid: merged.oid,
    squash_oid: merged.squashOid,
    has_merge_commit: merge_method !== 'ff',
    user_id: ctx.actor.userId,
    remove_source_branch: wantsRemoval && source !== null && can(ctx, source, 'push_code'),
  };
  if (!(await lock(ctx, project, row, intent))) return null;
  try {
    await moveRefs(ctx, project, [{ ref, oldOid: start, newOid: merged.oid }]);
  } catch (error) {
    await settleMerge(ctx, row.id);
    if (error instanceof DomainError && error.code === 'conflict') return null;
    throw error;
  }
  await settleMerge(ctx, row.id, intent);
  return getMergeRequest(ctx, project, row.iid);
};

/** Locks the merge request for the merge. Returns false if it has changed since it was read. */
const lock = (ctx: Context, project: ProjectRow, row: MergeRequestRow, intent: Intent): Promise<boolean> =>
  ctx.transaction(async (tx) => {
    const now = await lockMergeRequest(tx, project, row);
    const isSame = (['state', 'draft', 'diff_head_sha', 'target_branch', 'merge_status'] as const).every(
      (name) => now[name] === row[name],
    );
    if (!isSame) return false;
    await tx.db
      .updateTable('merge_requests')
      .set({ state: 'locked', merging: toJsonb(intent) })
      .where('id', '=', row.id)
      .execute();
    tx.enqueue(
      settleMerges,
      { id: row.id },
      { runAt: new Date(ctx.clock.now().getTime() + SETTLE_AFTER_MS), key: `merge_requests.settle_merge:${row.id}` },
    );
    return true;
  });

/** The job `merge_requests.settle_merge`: completes or takes back a merge whose process has died. */
export const settleMerges = defineJob({
  name: 'merge_requests.settle_merge',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: (ctx, { id }) => settleMerge(ctx, id),
});

/**
 * Completes the merge if the target branch contains it, and unlocks the merge request otherwise. Idempotent. `landed`
 * is a merge that is known to have landed.
 */
const settleMerge = async (ctx: Context, id: number, landed?: Intent): Promise<void> => {
  const { git } = ctx.services;
  const asHub = { ...ctx, actor: systemActor };
  const row = (await mergeRequestsByIds(asHub, [id])).get(id);
  const project = row && (await findProject(asHub, { id: row.project_id }));
  if (!row || !project || (row.state !== 'locked' && !landed)) return;
  const intent = landed ?? (await intentOf(ctx, id));
  const tip = intent && (await git.resolve(project.disk_path, intent.ref));
  const isLanded = Boolean(landed) || (intent && tip && (await git.isAncestor(project.disk_path, intent.oid, tip)));
  await ctx.transaction(async (tx) => {
    await tx.db.selectFrom('merge_requests').select('id').where('id', '=', id).forUpdate().execute();
    const now = await getMergeRequest({ ...tx, actor: systemActor }, project, row.iid);
    const known = await intentOf(tx, id);
    const isOwn = now.state === 'locked' && known?.oid === intent?.oid;
    // The job may have taken the merge back just before it landed.
    if (!isOwn && !(landed && now.state === 'opened')) return;
    if (intent && isLanded) return complete(tx, project, row, intent);
    await tx.db.updateTable('merge_requests').set({ state: 'opened', merging: null }).where('id', '=', id).execute();
    // Pushes that came while it was locked were not followed.
    tx.enqueue(refreshMergeRequest, { id }, { key: `merge_requests.refresh:${id}` });
  });
};

const intentOf = async ({ db }: Pick<Context, 'db'>, id: number): Promise<Intent | null> => {
  const row = await db.selectFrom('merge_requests').select('merging').where('id', '=', id).executeTakeFirst();
  return intentSchema.nullable().parse(row?.merging ?? null);
};

const complete = async (tx: Tx, project: ProjectRow, row: MergeRequestRow, intent: Intent): Promise<void> => {
  await tx.db
    .updateTable('merge_requests')
    .set({
      state: 'merged',
      merging: null,
      merged_at: sql`now()`,
      merge_user_id: intent.user_id,
      merge_commit_sha: intent.has_merge_commit ? intent.oid : null,
      squash_commit_sha: intent.squash_oid,
      merge_error: null,
      should_remove_source_branch: intent.remove_source_branch,
      updated_at: sql`now()`,
    })
    .where('id', '=', row.id)
    .execute();
  const merger = { ...tx, actor: { ...tx.actor, userId: intent.user_id } };
  await recordHistory(merger, { merge_request_id: row.id }, [{ kind: 'state', state: 'merged' }]);
  const asHub = { ...tx, actor: systemActor };
  const after = await getMergeRequest(asHub, project, row.iid);
  await emitMergeRequest(tx, mergeRequestMerged, project, after, { state: { previous: 'opened', current: 'merged' } });
  if (intent.remove_source_branch) tx.enqueue(removeSourceBranch, { id: row.id });
};

/**
 * The job `merge_requests.remove_source_branch`: removes the branch of a merged merge request, unless it has moved, is
 * protected, or is the default branch.
 */
export const removeSourceBranch = defineJob({
  name: 'merge_requests.remove_source_branch',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (ctx, { id }) => {
    const row = (await mergeRequestsByIds(ctx, [id])).get(id);
    const source = row?.source_project_id ? await findProject(ctx, { id: row.source_project_id }) : null;
    if (!row || !source || source.default_branch === row.source_branch) return;
    if (source.archived || source.marked_for_deletion_on !== null) return;
    if (await isProtectedRef(ctx, source, { name: row.source_branch, tag: false })) return;
    const ref = branchRef(row.source_branch);
    const tip = await ctx.services.git.resolve(source.disk_path, ref);
    if (tip === null || tip !== row.diff_head_sha) return;
    await moveRefs(ctx, source, [{ ref, oldOid: tip, newOid: null }]);
  },
});

/** Records why a merge failed, and returns the error for the caller. */
const failed = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  merge_error: string,
): Promise<DomainError> => {
  await ctx.transaction(async (tx) => {
    const before = await lockMergeRequest(tx, project, row);
    if (before.merge_error === merge_error) return;
    await tx.db.updateTable('merge_requests').set({ merge_error }).where('id', '=', row.id).execute();
    const after = await getMergeRequest(tx, project, row.iid);
    await emitMergeRequest(tx, mergeRequestUpdated, project, after, {
      merge_error: { previous: before.merge_error, current: merge_error },
    });
  });
  return unprocessable(UNMERGEABLE);
};

const factsOf = async (
  ctx: Context,
  row: MergeRequestRow,
  caller: Identity,
  commits: MessageFacts['commits'],
  oldest: Commit | null,
): Promise<MessageFacts> => {
  const stats = (await mergeRequestStatsByIds(ctx, [row.id])).get(row.id);
  const { reviewer_ids = [], approver_ids = [] } = stats ?? {};
  const people = await usersByIds(ctx, [...new Set([...reviewer_ids, ...approver_ids])]);
  const named = (ids: readonly number[]) =>
    ids.flatMap((id) => {
      const person = people.get(id);
      return person ? [`${person.name} <${commitEmail(ctx, person)}>`] : [];
    });
  return {
    source_branch: row.source_branch,
    target_branch: row.target_branch,
    title: row.title,
    description: row.description ?? '',
    reference: fullReference(row),
    local_reference: `!${row.iid}`,
    source_project_id: row.source_project_id,
    url: mergeRequestWebUrl(ctx, row),
    commits,
    oldest,
    reviewed_by: named(reviewer_ids),
    approved_by: named(approver_ids),
    merged_by: `${caller.name} <${caller.email}>`,
  };
};

/** Returns the oldest commit of the range. `newest` lists the newest ones. */
const oldestOf = async (
  ctx: Context,
  project: ProjectRow,
  range: { readonly from: string; readonly not: readonly string[] },
  newest: readonly Commit[],
): Promise<Commit | null> => {
  if (newest.length < MAX_COMMITS) return newest.at(-1) ?? null;
  const { git } = ctx.services;
  const skip = (await git.countCommits(project.disk_path, range)) - 1;
  return (await git.listCommits(project.disk_path, { ...range, skip, limit: 1 }))[0] ?? null;
};

/** A squashed commit keeps the author of the merge request. */
const authorOf = async (ctx: Context, { author_id }: MergeRequestRow, fallback: Identity): Promise<Identity> => {
  const author = author_id === null ? undefined : (await usersByIds(ctx, [author_id])).get(author_id);
  return author ? { name: author.name, email: commitEmail(ctx, author), date: ctx.clock.now() } : fallback;
};
