import { sql } from 'kysely';
import { z } from 'zod';
import { approvalObstacles } from '#domains/approvals/state.ts';
import { recordHistory } from '#domains/planning/history.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { refusalsOfObjects } from '#domains/push-rules/judge.ts';
import type { PushRule } from '#domains/push-rules/model.ts';
import { governingRule } from '#domains/push-rules/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { isProtectedRef } from '#domains/repositories/protections.ts';
import { moveRefs } from '#domains/repositories/pushes.ts';
import type { KnownCommits } from '#domains/repositories/ref-updates.ts';
import { callerIdentity } from '#domains/repositories/writing.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { retryLater } from '#platform/concurrency/retry-later.ts';
import { type Context, inNameOf, systemActor, type Tx } from '#platform/context.ts';
import { contextInNameOf } from '#platform/create-context.ts';
import { DomainError, unauthenticated } from '#platform/errors.ts';
import type { Commit } from '#platform/git/objects.ts';
import type { CommitsToMerge } from '#platform/git/writing.ts';
import { defineJob } from '#platform/jobs.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { mergeRequestMerged, mergeRequestUpdated } from '../events.ts';
import { lockInProject } from '../locking.ts';
import { isBlocked } from '../mergeability.ts';
import { squashOnMerge } from '../model.ts';
import { mayMerge } from '../policy.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow, mergeRequestsByIds } from '../queries.ts';
import { removeMergeRefLater } from '../refs.ts';
import { emitMergeRequest } from '../snapshot.ts';
import { refreshLater } from '../versions/refresh.ts';
import { findMerge } from './merge-ref.ts';
import { authorOf, factsOf, MAX_COMMITS, oldestOf } from './message-facts.ts';
import { mergeMessage, squashMessage } from './messages.ts';

// A merge is one durable step. Its commits are made first; nothing names them. Then the merge request is locked, with
// what is about to land. Then the branch moves, with the events of a push. Then the merge request is merged. If the
// process dies in between, the job `merge_requests.settle_merge` finds the locked merge request, and the branch tells
// whether the merge has happened.

/** How to merge. */
export interface MergeOptions {
  readonly merge_commit_message?: string | undefined;
  readonly squash_commit_message?: string | undefined;
  readonly squash?: boolean | undefined;
  readonly should_remove_source_branch?: boolean | undefined;
}

/** The merge that is about to land, in `merge_requests.merging`. */
const intentSchema = z.object({
  /** The full name of the target branch. */
  ref: z.string(),
  oid: z.string(),
  squash_oid: z.string().nullable(),
  /** Absent in merges of before this was kept. */
  squash: z.boolean().optional(),
  has_merge_commit: z.boolean(),
  user_id: z.number().nullable(),
  remove_source_branch: z.boolean(),
});
type Intent = z.output<typeof intentSchema>;

/** Longer than moving a ref may take. */
const SETTLE_AFTER_MS = 120_000;

/** The merge was tried and refused. */
export class MergeRefused extends DomainError {
  /** The commits do not merge as the project wants it, the push rule forbids them, or the branches kept moving. */
  readonly why: 'code' | 'push_rule' | 'moved';

  constructor(why: MergeRefused['why']) {
    super('unprocessable', 'Branch cannot be merged');
    this.why = why;
  }
}

/** Makes the commits and moves the target branch. Returns null if something moved meanwhile, and nothing has changed. */
export const land = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  input: MergeOptions,
): Promise<MergeRequestRow | null> => {
  const { git } = ctx.services;
  const ref = branchRef(row.target_branch);
  const start = await git.resolve(project.disk_path, ref);
  const head = row.diff_head_sha;
  if (start === null || head === null) throw new MergeRefused('code');
  const { merge_method } = project;
  const squashes = squashOnMerge({ squash: input.squash ?? row.squash }, project);
  // The target branch has moved since the check.
  if (merge_method !== 'merge' && !(await git.isAncestor(project.disk_path, start, head))) return null;
  const range = { from: head, not: [start] };
  const commits = await git.listCommits(project.disk_path, { ...range, limit: MAX_COMMITS });
  // Somebody has pushed the same commits to the target branch.
  if (commits.length === 0) return null;
  const merging = await commitsToMerge(ctx, project, row, { start, head, commits, squashes }, input);
  const rule = await governingRule(ctx, project);
  const merged = await git.mergeCommits(project.disk_path, merging, async (oid, objects) => {
    const moved = { ref, oldOid: start, newOid: oid };
    const [refused] = rule ? await refusalsOfObjects(ctx, project, forMerge(rule), [moved], objects) : [];
    if (refused) throw await failed(ctx, project, row, refused.reason, 'push_rule');
  });
  if ('failed' in merged) throw new MergeRefused('code');
  const intent: Intent = {
    ref,
    oid: merged.oid,
    squash_oid: merged.squashOid,
    squash: squashes,
    has_merge_commit: merge_method !== 'ff',
    user_id: ctx.actor.userId,
    remove_source_branch: await removesSourceBranch(ctx, row, input),
  };
  try {
    if (!(await lock(ctx, project, row, intent))) return null;
    await moveRefs(ctx, project, [{ ref, oldOid: start, newOid: merged.oid }], {
      known: await broughtBy(ctx, project, merged, commits),
    });
  } catch (error) {
    await settleSurely(ctx, row.id, { intent, hasLanded: false });
    if (error instanceof DomainError && error.code === 'conflict') return null;
    throw error;
  }
  await settleSurely(ctx, row.id, { intent, hasLanded: true });
  return getMergeRequest(ctx, project, row.iid);
};

interface MergedRange {
  readonly start: string;
  readonly head: string;
  readonly commits: readonly Commit[];
  readonly squashes: boolean;
}

/** Returns the commits to make, as the project and the options want them. One commit alone is not squashed again. */
const commitsToMerge = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  { start, head, commits, squashes }: MergedRange,
  input: MergeOptions,
): Promise<CommitsToMerge> => {
  const committer = await callerIdentity(ctx);
  const oldest = await oldestOf(ctx, project, { from: head, not: [start] }, commits);
  const facts = await factsOf(ctx, project, row, committer, commits, oldest);
  const { merge_commit_message, squash_commit_message } = withoutBlanks(input);
  const isOne = commits.length === 1 && squash_commit_message === undefined;
  const known = await findMerge(ctx, project, row, { start, head });
  return {
    ours: start,
    theirs: head,
    tree: known && (await ctx.services.git.treeOf(project.disk_path, known)),
    squash:
      squashes && !isOne
        ? {
            message: squash_commit_message ?? squashMessage(project.squash_commit_template, facts),
            author: await authorOf(ctx, row, committer),
            committer,
          }
        : undefined,
    merge:
      project.merge_method === 'ff'
        ? undefined
        : {
            message: merge_commit_message ?? mergeMessage(project.merge_commit_template, facts),
            author: committer,
            committer,
          },
  };
};

/** A form that was left empty sends blank messages. Commits then get the default ones. */
const withoutBlanks = ({
  merge_commit_message: merge,
  squash_commit_message: squash,
}: MergeOptions): Pick<MergeOptions, 'merge_commit_message' | 'squash_commit_message'> => ({
  merge_commit_message: merge?.trim() === '' ? undefined : merge,
  squash_commit_message: squash?.trim() === '' ? undefined : squash,
});

/**
 * Whether the source branch is removed after the merge: if that is wanted, and the caller may push to it. The merge
 * request itself may ask for it (`force_remove_source_branch`): then it is enough that its author may push, so that the
 * branches of forks go as well.
 */
const removesSourceBranch = async (
  ctx: Context,
  { source_project_id, author_id, force_remove_source_branch }: MergeRequestRow,
  { should_remove_source_branch }: MergeOptions,
): Promise<boolean> => {
  const isWanted = should_remove_source_branch ?? force_remove_source_branch ?? false;
  if (!isWanted || source_project_id === null) return false;
  if (await mayPushCode(ctx, source_project_id)) return true;
  const author = force_remove_source_branch ? await contextFor(ctx, author_id, source_project_id) : null;
  return author !== null && mayPushCode(author, source_project_id);
};

const mayPushCode = async (ctx: Context, projectId: number): Promise<boolean> => {
  const project = await findProject(ctx, { id: projectId });
  return project !== null && can(ctx, project, 'push_code');
};

/** Returns the commits that the merge adds to the target branch. Empty if the branch has more than `commits` lists. */
const broughtBy = async (
  { services: { git } }: Context,
  { disk_path }: ProjectRow,
  { oid, squashOid }: { readonly oid: string; readonly squashOid: string | null },
  commits: readonly Commit[],
): Promise<KnownCommits> => {
  if (commits.length === MAX_COMMITS) return new Map();
  const below = squashOid === null ? commits : await git.readCommits(disk_path, [squashOid]);
  const made = below[0]?.id === oid ? [] : await git.readCommits(disk_path, [oid]);
  return new Map([[oid, [...made, ...below]]]);
};

/** The commits of a fork have other committers than the person who merges them. */
const forMerge = (rule: PushRule): PushRule => ({
  ...rule,
  commit_committer_check: false,
  commit_committer_name_check: false,
});

/** Locks the merge request for the merge. Returns false if it has changed since it was read. */
const lock = (ctx: Context, seen: ProjectRow, row: MergeRequestRow, intent: Intent): Promise<boolean> =>
  ctx.transaction(async (tx) => {
    const { project, row: now } = await lockInProject(tx, seen, row);
    if (!(await mayMerge(tx, project, now.target_branch))) throw unauthenticated();
    const decisive = ['state', 'title', 'draft', 'diff_head_sha', 'target_branch', 'merge_status'] as const;
    const isSame = decisive.every((name) => now[name] === row[name]);
    if (!isSame || now.rebasing !== null) return false;
    // An approval may have been taken back meanwhile.
    if ((await approvalObstacles(tx, [row.id])).size > 0 || (await isBlocked(tx, row.id))) return false;
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

/** A merge of this process. */
interface OwnMerge {
  readonly intent: Intent;
  /** Whether it is known to have landed. */
  readonly hasLanded: boolean;
}

/** Settles a merge of this process. If that fails, for example for a lost connection, it is tried again soon. */
const settleSurely = async (ctx: Context, id: number, own: OwnMerge): Promise<void> => {
  const run = () => settleMerge(ctx, id, own);
  const onFailure = (err: unknown) =>
    ctx.log.error({ err, merge_request_id: id }, 'a merge could not be settled; trying again');
  try {
    await run();
  } catch (error) {
    onFailure(error);
    retryLater(run, onFailure);
    throw error;
  }
};

/**
 * Completes the merge if the target branch contains it, and unlocks the merge request otherwise. Idempotent. Without
 * `own` it settles the merge for which the merge request is locked.
 */
const settleMerge = async (ctx: Context, id: number, own?: OwnMerge): Promise<void> => {
  const { git } = ctx.services;
  const asHub = { ...ctx, actor: systemActor };
  const row = (await mergeRequestsByIds(asHub, [id])).get(id);
  const project = row && (await findProject(asHub, { id: row.project_id }));
  const hasLanded = own?.hasLanded ?? false;
  if (!row || !project || (row.state !== 'locked' && !hasLanded)) return;
  const intent = own?.intent ?? (await intentOf(ctx, id));
  const tip = intent && (await git.resolve(project.disk_path, intent.ref));
  const isLanded = hasLanded || (intent && tip && (await git.isAncestor(project.disk_path, intent.oid, tip)));
  await ctx.transaction(async (tx) => {
    await tx.db.selectFrom('merge_requests').select('id').where('id', '=', id).forUpdate().execute();
    const now = await getMergeRequest(tx.as(systemActor), project, row.iid);
    const known = await intentOf(tx, id);
    const isOwn = now.state === 'locked' && known?.oid === intent?.oid;
    // The job may have taken the merge back just before it landed.
    if (!isOwn && !(hasLanded && now.state === 'opened')) return;
    if (intent && isLanded) return complete(tx, project, row, intent);
    await tx.db.updateTable('merge_requests').set({ state: 'opened', merging: null }).where('id', '=', id).execute();
    // Pushes that came while it was locked were not followed.
    refreshLater(tx, id);
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
      ...(intent.squash === undefined ? {} : { squash: intent.squash }),
      merge_error: null,
      should_remove_source_branch: intent.remove_source_branch,
      updated_at: sql`now()`,
    })
    .where('id', '=', row.id)
    .execute();
  const merger = inNameOf(tx, intent.user_id);
  await recordHistory(merger, { merge_request_id: row.id }, [{ kind: 'state', state: 'merged' }]);
  const after = await getMergeRequest(tx.as(systemActor), project, row.iid);
  const changes = { state: { previous: 'opened', current: 'merged' } };
  await emitMergeRequest(merger, mergeRequestMerged, project, after, changes);
  removeMergeRefLater(tx, row.id);
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
    // The person who merged may not see the fork.
    await moveRefs(contextInNameOf(ctx, row.merge_user_id), source, [{ ref, oldOid: tip, newOid: null }]);
  },
});

/** Records why a merge failed, and returns the error for the caller. */
export const failed = async (
  ctx: Context,
  project: ProjectRow,
  row: MergeRequestRow,
  merge_error: string,
  why: MergeRefused['why'],
): Promise<MergeRefused> => {
  await ctx.transaction(async (tx) => {
    const before = await lockMergeRequest(tx, project, row);
    if (before.merge_error === merge_error) return;
    await tx.db.updateTable('merge_requests').set({ merge_error }).where('id', '=', row.id).execute();
    const after = await getMergeRequest(tx, project, row.iid);
    await emitMergeRequest(tx, mergeRequestUpdated, project, after, {
      merge_error: { previous: before.merge_error, current: merge_error },
    });
  });
  return new MergeRefused(why);
};
