import { sql } from 'kysely';
import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, requireAbility } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { BRANCHES, branchName, branchRef, type RefUpdate } from './model.ts';
import { matching, readProtections } from './protections.ts';
import { moveRefs } from './pushes.ts';

/**
 * Schedules the deletion of all branches that are merged into the default branch, except protected ones and those of
 * open merge requests.
 *
 * @throws DomainError `forbidden`
 */
export const scheduleMergedBranchesDeletion = async (ctx: Context, project: ProjectRow): Promise<void> => {
  requireAbility(ctx, project, 'push_code');
  const { userId: user_id } = ctx.actor;
  if (user_id === null) return; // the hub itself never requests this
  await ctx.transaction(async (tx) => {
    tx.enqueue(deleteMergedBranches, { project_id: project.id, user_id }, { key: `repositories.merged:${project.id}` });
  });
};

/** Refs per transaction. git rewrites the list of packed refs once per transaction. */
const BATCH = 500;

export const deleteMergedBranches = defineJob({
  name: 'repositories.delete_merged_branches',
  input: z.object({ project_id: z.number(), user_id: z.number() }),
  maxAttempts: 5,
  run: async (hub, { project_id, user_id }) => {
    const ctx = await contextFor(hub, user_id, project_id);
    if (!ctx) return; // the account was closed meanwhile
    const project = await findProject(ctx, { id: project_id });
    if (!project || !can(ctx, project, 'push_code')) return;
    const updates = await mergedBranches(ctx, project);
    for (let at = 0; at < updates.length; at += BATCH) {
      hub.signal.throwIfAborted();
      await moveAll(ctx, project, await unprotected(ctx, project, updates.slice(at, at + BATCH)));
    }
  },
});

/**
 * Returns deletions of the merged branches. Each expects the ref's current commit, so a branch that moves meanwhile
 * stays. Skips branches at the very commit of the default branch, which may be new, and branches of open merge
 * requests.
 */
const mergedBranches = async (ctx: Context, project: ProjectRow): Promise<RefUpdate[]> => {
  const { git } = ctx.services;
  const head = branchRef(project.default_branch ?? '');
  const headOid = await git.resolve(project.disk_path, head);
  if (headOid === null) return [];
  const refs = await git.listRefs(project.disk_path, { prefix: BRANCHES, signal: ctx.signal });
  const tips = refs.map(({ oid }) => oid);
  const [merged, used] = await Promise.all([
    git.containedIn(project.disk_path, headOid, tips),
    branchesOfOpenMergeRequests(ctx, project),
  ]);
  return refs
    .filter(({ name, oid }) => oid !== headOid && merged.has(oid) && !used.has(name))
    .map(({ name, oid }) => ({ ref: name, oldOid: oid, newOid: null }));
};

const branchesOfOpenMergeRequests = async (ctx: Context, { id }: ProjectRow): Promise<ReadonlySet<string>> => {
  const { rows } = await sql<{ name: string }>`
    select source_branch as name from merge_requests where source_project_id = ${id} and state = 'opened'
    union select target_branch from merge_requests where project_id = ${id} and state = 'opened'`.execute(ctx.db);
  return new Set(rows.map(({ name }) => branchRef(name)));
};

/** Filters each batch again, because a branch may have been protected meanwhile. */
const unprotected = async (ctx: Context, project: ProjectRow, updates: readonly RefUpdate[]): Promise<RefUpdate[]> => {
  const { branches: rules } = await readProtections(ctx, project.id);
  return updates.filter(({ ref }) => matching(rules, branchName(ref) ?? '').length === 0);
};

/** A branch that moved meanwhile makes its batch fail. Splits the batch until only that branch is left out. */
const moveAll = async (ctx: Context, project: ProjectRow, updates: readonly RefUpdate[]): Promise<void> => {
  try {
    await moveRefs(ctx, project, updates);
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== 'conflict') throw error;
    if (updates.length < 2) return;
    const middle = updates.length >> 1;
    await moveAll(ctx, project, updates.slice(0, middle));
    await moveAll(ctx, project, updates.slice(middle));
  }
};
