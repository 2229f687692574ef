import { sql } from 'kysely';
import { z } from 'zod';
import { updateIssue } from '#domains/issues/commands.ts';
import { type ReferencedIssue, referencedIssues } from '#domains/issues/references.ts';
import { findProject } from '#domains/projects/queries.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { BOOKKEEPING_MS, defineFollower } from '#platform/event-log/followers.ts';
import { GitError } from '#platform/git/git-error.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeRequestMerged } from '../events.ts';
import { mergeRequestsByIds } from '../queries.ts';
import { issuesClosedBy, referencesIn } from '../references.ts';

// Issues are closed by the person who merged or pushed, so only those that they may close.

/** Closes the issues that merged merge requests and commits pushed to default branches name. */
export const followClosings = defineFollower({
  name: 'merge_requests.closings',
  delayMs: BOOKKEEPING_MS,
  payloads: false,
  wants: ({ kind }) => kind === mergeRequestMerged.kind || kind === repositoryUpdated.kind,
  handle: async (tx, events) => {
    for (const { kind, subject_id, actor_id } of events) {
      if (kind !== mergeRequestMerged.kind) continue;
      tx.enqueue(
        closeIssues,
        { id: subject_id, user_id: actor_id },
        { key: `merge_requests.close_issues:${subject_id}` },
      );
    }
    const pushes = events.filter(({ kind }) => kind === repositoryUpdated.kind);
    if (pushes.length === 0) return;
    const { rows } = await sql<{
      id: number;
      project_id: number;
      before: string | null;
      after: string | null;
      user_id: number;
      disk_path: string;
    }>`
      select e.id, e.project_id, change ->> 'before' as before, change ->> 'after' as after, e.actor_id as user_id,
        p.disk_path
      from events e join projects p on p.id = e.project_id
      cross join jsonb_array_elements(e.payload -> 'changes') change
      where e.position = any (${pushes.map(({ position }) => position)}::bigint[])
        and change ->> 'ref' = 'refs/heads/' || p.default_branch and e.actor_id is not null
      order by e.id`.execute(tx.db);
    await mapLimit(rows, PUSHES_AT_ONCE, async ({ id, before, after, disk_path, ...push }) => {
      if (before === null || after === null || (await closesNothing(tx, disk_path, before, after))) return;
      const key = `merge_requests.close_issues_of_push:${id}`;
      tx.enqueue(closeIssuesOfPush, { ...push, before, after }, { key });
    });
  },
});

const PUSHES_AT_ONCE = 8;

/** Returns true if the push brings a single commit that names no issue to close. Most pushes over the API need no job then. */
const closesNothing = async (ctx: Context, path: string, before: string, after: string): Promise<boolean> => {
  try {
    const [commit] = await ctx.services.git.readCommits(path, [after]);
    if (commit?.parent_ids.length !== 1 || commit.parent_ids[0] !== before) return false;
    return !referencesIn(ctx, [commit.message]).some(({ closes }) => closes);
  } catch (error) {
    // The job tries again.
    if (error instanceof GitError) return false;
    throw error;
  }
};

/** The job `merge_requests.close_issues`: closes the issues that a merged merge request names. */
export const closeIssues = defineJob({
  name: 'merge_requests.close_issues',
  input: z.object({ id: z.number(), user_id: z.number().nullable() }),
  maxAttempts: 8,
  run: async (hub, { id, user_id }) => {
    const row = (await mergeRequestsByIds(hub, [id])).get(id);
    // A merge that a job has completed has no actor, but a user requested it.
    if (row?.state !== 'merged') return;
    const ctx = await contextFor(hub, user_id ?? row.merge_user_id, row.project_id);
    const project = ctx && (await findProject(ctx, { id: row.project_id }));
    if (project) await close(ctx, await issuesClosedBy(ctx, project, row));
  },
});

/** A push of more commits closes the issues that the newest ones name. */
const MAX_COMMITS = 1_000;

/** The job `merge_requests.close_issues_of_push`: closes the issues that commits pushed to a default branch name. */
export const closeIssuesOfPush = defineJob({
  name: 'merge_requests.close_issues_of_push',
  input: z.object({ project_id: z.number(), before: z.string(), after: z.string(), user_id: z.number() }),
  maxAttempts: 8,
  run: async (hub, { project_id, before, after, user_id }) => {
    const ctx = await contextFor(hub, user_id, project_id);
    const project = ctx && (await findProject(ctx, { id: project_id }));
    if (!ctx || !project) return;
    const { git } = ctx.services;
    const there = await git.readCommits(project.disk_path, [before, after]);
    if (there.length < 2) return; // a forced push, and git has removed the old commits
    const commits = await git.listCommits(project.disk_path, { from: after, not: [before], limit: MAX_COMMITS });
    const references = referencesIn(
      ctx,
      commits.map(({ message }) => message),
    );
    const found = await referencedIssues(
      ctx,
      project,
      references.filter(({ closes }) => closes),
    );
    await close(
      ctx,
      found.filter(({ closes }) => closes),
    );
  },
});

const close = async (ctx: Context, issues: readonly ReferencedIssue[]): Promise<void> => {
  for (const { issue } of issues.filter(({ issue }) => issue.state === 'opened')) {
    const project = await findProject(ctx, { id: issue.project_id });
    if (!project || project.archived) continue;
    try {
      await updateIssue(ctx, project, issue, { state_event: 'close' });
    } catch (error) {
      // The caller may see the issue, but not close it; or it is gone.
      if (!(error instanceof DomainError)) throw error;
    }
  }
};
