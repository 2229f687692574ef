import { sql } from 'kysely';
import { z } from 'zod';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { onlyBranches } from '#domains/repositories/collaboration.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { mayPushTo } from '#domains/repositories/policy.ts';
import { matching, readProtections } from '#domains/repositories/protections.ts';
import type { PushOptions } from '#domains/repositories/push-options.ts';
import { moveRefs } from '#domains/repositories/pushes.ts';
import { callerIdentity, requireMove } from '#domains/repositories/writing.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { type Context, inNameOf, systemActor, type Tx } from '#platform/context.ts';
import { conflict, DomainError, forbidden, unauthenticated } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { mergeRequestChecked, mergeRequestUpdated } from './events.ts';
import { lockInProject } from './locking.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow, mergeRequestsByIds } from './queries.ts';
import { emitMergeRequest } from './snapshot.ts';
import { refreshLater } from './versions/refresh.ts';

// A rebase is durable like a merge. The request is stored in `merge_requests.rebasing` with its job. The job makes the
// commits, stores what is about to land, and moves the branch with the events of a push. If the process dies in between,
// the job runs again, and the branch tells whether the rebase has happened.

/** A rebase that was asked for, in `merge_requests.rebasing`. */
const rebaseSchema = z.object({
  user_id: z.number(),
  skip_ci: z.boolean(),
  /** The head that is rebased. */
  head: z.string(),
  /** The new head, once its commits exist. */
  oid: z.string().nullable(),
});
type Rebase = z.output<typeof rebaseSchema>;

const CONFLICT = 'Rebase locally, resolve all conflicts, then push the branch.';
const MOVED = 'The source branch has changed meanwhile.';

/**
 * Rebases the source branch onto the target branch, in a job (reference: merge-requests §4).
 *
 * @throws DomainError `forbidden` if the caller may not rewrite the source branch, `conflict` if the merge request is not
 *   open, or is being rebased
 */
export const requestRebase = async (
  ctx: Context,
  seen: ProjectRow,
  given: MergeRequestRow,
  { skip_ci = false }: { readonly skip_ci?: boolean | undefined } = {},
): Promise<MergeRequestRow> => {
  const { userId: user_id } = ctx.actor;
  if (user_id === null) throw unauthenticated();
  const head = await tipOf(ctx, given);
  if (head === null) throw forbidden('Source branch does not exist');
  await requireRewritable(ctx, given);
  return ctx.transaction(async (tx) => {
    const { project, row: before } = await lockInProject(tx, seen, given);
    await requireRewritable(tx, before);
    if (before.state !== 'opened') throw conflict('Only open merge requests can be rebased');
    if (before.rebasing !== null) throw conflict('The merge request is being rebased already');
    const rebase: Rebase = { user_id, skip_ci, head, oid: null };
    await tx.db
      .updateTable('merge_requests')
      .set({ rebasing: toJsonb(rebase), merge_error: null })
      .where('id', '=', before.id)
      .execute();
    const after = await getMergeRequest(tx, project, before.iid);
    await emitMergeRequest(tx, mergeRequestChecked, project, after, {});
    tx.enqueue(rebaseMergeRequest, { id: before.id }, { key: `merge_requests.rebase:${before.id}` });
    return after;
  });
};

/** @throws DomainError `forbidden` if the caller may not rewrite the source branch */
const requireRewritable = async (ctx: Context, row: MergeRequestRow): Promise<void> => {
  const source = row.source_project_id === null ? null : await findProject(ctx, { id: row.source_project_id });
  const protections = source && (await readProtections(ctx, source.id));
  const only = source && (await onlyBranches(ctx, source));
  if (!source || !protections || !mayPushTo(ctx, source, { protections, only }, row.source_branch)) {
    throw forbidden('Cannot push to source branch');
  }
  const rules = matching(protections.branches, row.source_branch);
  if (rules.length > 0 && !rules.some((rule) => rule.allow_force_push)) {
    throw forbidden('Source branch is protected from force push');
  }
};

/** The job `merge_requests.rebase`. */
export const rebaseMergeRequest = defineJob({
  name: 'merge_requests.rebase',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  // The number of commits is only limited to hundreds.
  long: true,
  run: async (hub, { id }, { lastAttempt }) => {
    const row = (await mergeRequestsByIds(hub, [id])).get(id);
    const rebase = row && readRebase(row);
    if (!row || !rebase) return;
    try {
      const oid = await carryOut(hub, row, rebase);
      await finish(hub, row, rebase, { oid, error: null });
    } catch (error) {
      const isRefused = error instanceof DomainError;
      if (isRefused || lastAttempt) {
        const reason = isRefused ? error.message.replace(/^40\d \w+ - /, '') : 'Please try again.';
        await finish(hub, row, rebase, { oid: null, error: `Rebase failed: ${reason}` });
      }
      if (!isRefused) throw error;
    }
  },
});

/** Returns the new head; null if there is nothing to do. @throws DomainError if it is refused */
const carryOut = async (hub: Context, row: MergeRequestRow, rebase: Rebase): Promise<string | null> => {
  const { git } = hub.services;
  const project = await findProject(hub, { id: row.project_id });
  const source = row.source_project_id === null ? null : await findProject(hub, { id: row.source_project_id });
  const tip = await tipOf(hub, row);
  if (!project || !source || tip === null) throw conflict('The source branch does not exist any more.');
  if (rebase.oid !== null && (await git.isAncestor(source.disk_path, rebase.oid, tip))) return rebase.oid;
  if (tip !== rebase.head) throw conflict(MOVED);
  const ctx = await contextFor(hub, rebase.user_id, source.id);
  const own = ctx && (await findProject(ctx, { id: source.id }));
  if (!own) throw conflict('The person who asked for it has no access any more.');
  await requireRewritable(ctx, row);
  const oid = rebase.oid ?? (await makeCommits(ctx, own, project, row, tip));
  if (oid === tip) return null;
  await store(hub, row, { ...rebase, oid });
  const options: PushOptions = rebase.skip_ci ? { ci: { skip: true } } : {};
  await moveRefs(ctx, own, [{ ref: branchRef(row.source_branch), oldOid: tip, newOid: oid }], { options });
  return oid;
};

const makeCommits = async (
  ctx: Context,
  source: ProjectRow,
  project: ProjectRow,
  row: MergeRequestRow,
  head: string,
): Promise<string> => {
  const { git } = ctx.services;
  const onto = await git.resolve(project.disk_path, branchRef(row.target_branch));
  if (onto === null) throw conflict('The target branch does not exist any more.');
  if (source.id !== project.id) await git.copyCommit(source.disk_path, { path: project.disk_path, oid: onto });
  if (await git.isAncestor(source.disk_path, onto, head)) return head;
  const ref = branchRef(row.source_branch);
  const { judge, fastForwardOnly } = await requireMove(ctx, source, { ref, oldOid: head, newOid: head });
  if (fastForwardOnly) throw forbidden('Source branch is protected from force push');
  const committer = await callerIdentity(ctx);
  const rebased = await git.rebaseCommits(source.disk_path, { head, onto, committer }, judge);
  if ('oid' in rebased) return rebased.oid;
  throw conflict(
    rebased.failed === 'conflict' ? CONFLICT : 'The branch has too many commits. Rebase locally, then push it.',
  );
};

/** Stores what is about to land. @throws DomainError `conflict` if the merge request is no longer open */
const store = (ctx: Context, row: MergeRequestRow, rebase: Rebase): Promise<void> =>
  ctx.transaction(async (tx) => {
    const now = await tx.db
      .updateTable('merge_requests')
      .set({ rebasing: toJsonb(rebase) })
      .where('id', '=', row.id)
      .where('state', '=', 'opened')
      .where('rebasing', 'is not', null)
      .returning('id')
      .executeTakeFirst();
    if (!now) throw conflict('The merge request is not open any more.');
  });

const finish = async (
  hub: Context,
  row: MergeRequestRow,
  rebase: Rebase,
  { oid, error }: { readonly oid: string | null; readonly error: string | null },
): Promise<void> => {
  const project = await findProject(hub, { id: row.project_id });
  if (!project) return;
  await hub.transaction(async (tx: Tx) => {
    const before = await lockMergeRequest(tx.as(systemActor), project, row);
    if (readRebase(before)?.head !== rebase.head) return;
    const isStale = error === null && (before.needs_rebase || (oid !== null && before.diff_head_sha !== oid));
    await tx.db
      .updateTable('merge_requests')
      .set({
        rebasing: null,
        merge_error: error,
        ...(oid === null ? {} : { rebase_commit_sha: oid }),
        // The known facts are about the old head.
        ...(isStale ? { merge_status: 'unchecked' } : {}),
        updated_at: sql`now()`,
      })
      .where('id', '=', row.id)
      .execute();
    if (isStale) refreshLater(tx, row.id);
    const after = await getMergeRequest(tx.as(systemActor), project, row.iid);
    if (error === null) await emitMergeRequest(tx, mergeRequestChecked, project, after, {});
    else {
      const changes = { merge_error: { previous: before.merge_error, current: error } };
      await emitMergeRequest(inNameOf(tx, rebase.user_id), mergeRequestUpdated, project, after, changes);
    }
  });
};

const readRebase = ({ rebasing }: MergeRequestRow): Rebase | null => rebaseSchema.nullable().parse(rebasing);

/** Returns the tip of the source branch, also of a fork that the caller cannot see; null if there is none. */
const tipOf = async (ctx: Context, row: MergeRequestRow): Promise<string | null> => {
  if (row.source_project_id === null) return null;
  const source = await findProject({ ...ctx, actor: systemActor }, { id: row.source_project_id });
  return source && ctx.services.git.resolve(source.disk_path, branchRef(row.source_branch));
};
