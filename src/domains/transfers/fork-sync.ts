import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { z } from 'zod';
import { DEVELOPER } from '#domains/access/model.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { can, type JudgedProject, requireAbility } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import { callerIdentity, refusal, requireMove, writeRef } from '#domains/repositories/writing.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import type { PlacedCommit } from '#platform/git/objects.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { defineJob } from '#platform/jobs.ts';
import { forkSyncFailed } from './events.ts';

/** The parts of a fork that a comparison reads. */
type Compared = JudgedProject & Pick<ProjectRow, 'id' | 'disk_path' | 'default_branch'>;

/** Compares a branch of a fork with the default branch of its source. */
export interface ForkDetails {
  readonly ahead: number;
  readonly behind: number;
  readonly fork: Compared;
  readonly source: ProjectRow;
  readonly branch: string;
  readonly own: PlacedCommit;
  readonly theirs: PlacedCommit;
}

/**
 * Compares the given branch, or the default branch. Returns null if a branch is missing or the caller may not read one.
 */
export const findForkDetails = async (
  ctx: Context,
  fork: Compared,
  source: ProjectRow | null,
  branch: string | null = fork.default_branch,
): Promise<ForkDetails | null> => {
  if (!source || branch === null || !can(ctx, fork, 'read_code') || !can(ctx, source, 'read_code')) return null;
  const own = await tipOf(ctx, fork, branch);
  const theirs = await tipOf(ctx, source, source.default_branch);
  if (own === null || theirs === null) return null;
  return { fork, source, branch, own, theirs, ...(await ctx.services.git.divergence(own, theirs)) };
};

const tipOf = async ({ services }: Context, project: Compared, name: string | null): Promise<PlacedCommit | null> => {
  const path = project.disk_path;
  const isName = name !== null && validRefName(name);
  const oid = isName ? await services.git.resolve(path, `refs/heads/${name}`) : null;
  return oid === null ? null : { path, oid };
};

/** Returns whether the branches cannot be merged automatically. */
export const hasConflicts = async ({ services }: Context, details: ForkDetails): Promise<boolean> =>
  details.ahead > 0 && details.behind > 0 && !(await services.git.mergesCleanly(details.own, details.theirs));

/** Returns the job key for a branch. */
export const forkSyncKey = ({ fork, branch }: Pick<ForkDetails, 'fork' | 'branch'>): string =>
  `transfers.sync_fork:${fork.id}:${createHash('sha256').update(branch).digest('base64url')}`;

/** Returns which of the keys (`forkSyncKey`) have a waiting or running job. */
export const forkSyncsUnderWay = async (
  ctx: Context,
  keys: readonly string[],
): Promise<ReadonlyMap<string, boolean>> => {
  const { rows } = await sql<{ key: string }>`
    select key from graphile_worker.jobs
    where key = any (${keys}::text[]) and (locked_at is not null or attempts < max_attempts)`.execute(ctx.db);
  return new Map(rows.map(({ key }) => [key, true]));
};

/**
 * Schedules an update of a fork's branch from the default branch of the source. The job fast-forwards the branch if it
 * has no commits of its own, else it merges. Requires push access, and the checks for pushes apply. If the job fails,
 * it emits `fork.sync_failed`.
 *
 * @throws DomainError `forbidden`, `bad_request` if there is nothing to update from, for conflicts, and while a sync is
 * in progress
 */
export const scheduleForkSync = async (ctx: Context, fork: ProjectRow, branch: string): Promise<ForkDetails> => {
  requireAbility(ctx, fork, 'push_code');
  const details = await findForkDetails(ctx, fork, await sourceOf(ctx, fork), branch);
  const { userId: user_id } = ctx.actor;
  if (!details || user_id === null) throw refusal('This branch of this project cannot be updated from the upstream');
  if (details.behind === 0) return details;
  await requireMove(ctx, fork, moveOf(details, details.theirs.oid));
  if (await hasConflicts(ctx, details)) throw refusal(CONFLICT);
  const key = forkSyncKey(details);
  if ((await forkSyncsUnderWay(ctx, [key])).has(key)) throw refusal('Another fork sync is already in progress');
  await ctx.transaction(async (tx) => tx.enqueue(syncFork, { project_id: fork.id, user_id, branch }, { key }));
  return details;
};

const CONFLICT = 'The synchronization cannot happen due to the merge conflict';

const sourceOf = async (ctx: Context, { forked_from_id }: ProjectRow): Promise<ProjectRow | null> =>
  forked_from_id === null ? null : findProject(ctx, { id: forked_from_id });

const moveOf = ({ branch, own }: Pick<ForkDetails, 'branch' | 'own'>, newOid: string) => ({
  ref: `refs/heads/${branch}`,
  oldOid: own.oid,
  newOid,
});

export const syncFork = defineJob({
  name: 'transfers.sync_fork',
  input: z.object({ project_id: z.number(), user_id: z.number(), branch: z.string() }),
  maxAttempts: 3,
  // The number of commits is only limited by the source.
  long: true,
  run: async (hub, { project_id, user_id, branch }, { lastAttempt }) => {
    const project = await findProject(hub, { id: project_id });
    if (!project) return;
    let ctx: Context | null = null;
    try {
      ctx = await contextFor(hub, user_id, project_id);
      const fork = ctx && (await findProject(ctx, { id: project_id }));
      if (ctx && fork) await update(ctx, fork, branch);
    } catch (error) {
      const isRefused = error instanceof DomainError;
      if (isRefused || lastAttempt) {
        await emitFailure(ctx ?? hub, project, branch, isRefused ? error.message : 'The sync failed');
      }
      if (!isRefused) throw error;
    }
  },
});

/** Checks permissions and branches again, because they may have changed since the request. */
const update = (ctx: Context, given: ProjectRow, branch: string): Promise<unknown> =>
  writeRef(ctx, given, async (fork) => {
    requireAbility(ctx, fork, 'push_code');
    const details = await findForkDetails(ctx, fork, await sourceOf(ctx, fork), branch);
    if (!details) throw refusal('This branch of this project cannot be updated from the upstream');
    const { own, theirs, source, behind } = details;
    if (behind === 0) return moveOf(details, own.oid);
    const { judge } = await requireMove(ctx, fork, moveOf(details, theirs.oid));
    const author = await callerIdentity(ctx);
    const message = `Merge branch '${source.full_path}:${source.default_branch}' into '${branch}'\n`;
    const merged = await ctx.services.git.mergeForeign(own, theirs, { message, author, committer: author }, judge);
    if ('failed' in merged) throw refusal(CONFLICT);
    return moveOf(details, merged.oid);
  });

const emitFailure = (ctx: Context, fork: ProjectRow, branch: string, error: string): Promise<void> =>
  ctx.transaction(async (tx) => {
    tx.emit(forkSyncFailed, {
      ...projectScope(fork),
      subject: { type: 'Project', id: fork.id },
      min_access_level: DEVELOPER,
      payload: { branch, error, user_id: ctx.actor.userId },
    });
  });
