import { sql } from 'kysely';
import { z } from 'zod';
import { mergeRequestClosed, mergeRequestMerged } from '#domains/merge-requests/events.ts';
import { findProject } from '#domains/projects/queries.ts';
import { repositoryUpdated } from '#domains/repositories/events.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import type { Context, Tx } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { BOOKKEEPING_MS, defineFollower } from '#platform/event-log/followers.ts';
import type { EventRow } from '#platform/events.ts';
import { defineJob } from '#platform/jobs.ts';
import { stopEnvironment } from './commands.ts';

/**
 * Stops environments whose branch is gone, and those that were deployed for a merge request that was closed or merged.
 * The user who did that must be allowed to. In a fork they often are not, so its environments are stopped with the rights
 * of the user who deployed them.
 */
export const followEnds = defineFollower({
  name: 'environments.ends',
  delayMs: BOOKKEEPING_MS,
  payloads: false,
  wants: ({ kind }) =>
    kind === repositoryUpdated.kind || kind === mergeRequestClosed.kind || kind === mergeRequestMerged.kind,
  handle: async (tx, events) => {
    const pushes = events.filter(({ kind }) => kind === repositoryUpdated.kind);
    const ends = events.filter(({ kind }) => kind !== repositoryUpdated.kind);
    for (const ended of [...(await ofBranches(tx, pushes)), ...(await ofMergeRequests(tx, ends))]) {
      tx.enqueue(stopEnded, ended, { key: `environments.stop:${ended.id}` });
    }
  },
});

interface Ended {
  readonly id: number;
  readonly project_id: number;
  readonly user_id: number;
  /** The last successful deployment. */
  readonly deployment_id: number;
}

/** The last successful deployment of the environment `e`. */
const LAST = sql`cross join lateral (
  select d.id, d.ref, d.tag, d.sha, d.job_id, d.user_id from deployments d
  where d.environment_id = e.id and d.status = 'success' order by d.id desc limit 1) last`;

const ofBranches = async ({ db }: Tx, pushes: readonly EventRow[]): Promise<Ended[]> => {
  if (pushes.length === 0) return [];
  const { rows } = await sql<Ended>`
    select e.id, e.project_id, events.actor_id as user_id, last.id as deployment_id
    from events cross join lateral jsonb_array_elements(events.payload -> 'changes') as change
      join environments e on e.project_id = events.project_id and e.state = 'available' ${LAST}
    where events.position = any (${pushes.map(({ position }) => position)}::bigint[])
      and events.actor_id is not null and change ->> 'after' is null
      and change ->> 'ref' = 'refs/heads/' || last.ref and not last.tag`.execute(db);
  return rows;
};

/**
 * Those deployed by a pipeline of the merge request, also in a fork, or by one of its branch for its head. In forks the
 * branch does not count: everyone who may open a merge request from it could stop what others deployed.
 */
const ofMergeRequests = async ({ db }: Tx, ends: readonly EventRow[]): Promise<Ended[]> => {
  if (ends.length === 0) return [];
  const { rows } = await sql<Ended>`
    select e.id, e.project_id, last.id as deployment_id,
      case when e.project_id = mr.project_id then events.actor_id else last.user_id end as user_id
    from events join merge_requests mr on mr.id = events.subject_id
      join environments e on e.project_id in (mr.project_id, mr.source_project_id) and e.state = 'available' ${LAST}
      left join jobs deployer on deployer.id = last.job_id
      left join pipelines p on p.id = deployer.pipeline_id
    where events.position = any (${ends.map(({ position }) => position)}::bigint[])
      and case when e.project_id = mr.project_id then events.actor_id else last.user_id end is not null
      and (p.merge_request_id = mr.id or (
        mr.project_id = e.project_id and mr.source_project_id = mr.project_id and not last.tag
        and last.ref = mr.source_branch and last.sha = mr.diff_head_sha))`.execute(db);
  return rows;
};

/**
 * The job `environments.stop_ended`: stops an environment with the rights of `user_id`, unless something was deployed to
 * it since.
 */
export const stopEnded = defineJob({
  name: 'environments.stop_ended',
  input: z.object({ id: z.number(), project_id: z.number(), user_id: z.number(), deployment_id: z.number() }),
  maxAttempts: 8,
  run: async (hub, { id, project_id, user_id, deployment_id }) => {
    const ctx = await contextFor(hub, user_id, project_id);
    const project = ctx && (await findProject(ctx, { id: project_id }));
    if (!project || (await lastDeploymentOf(ctx, id)) !== deployment_id) return;
    try {
      await stopEnvironment(ctx, project, id);
    } catch (error) {
      if (!(error instanceof DomainError)) throw error;
      hub.log.info({ environment: id, reason: error.message }, 'an environment was not stopped');
    }
  },
});

const lastDeploymentOf = async ({ db }: Pick<Context, 'db'>, id: number): Promise<number | null> => {
  const { rows } = await sql<{ id: number }>`
    select last.id from environments e ${LAST} where e.id = ${id}`.execute(db);
  return rows[0]?.id ?? null;
};
