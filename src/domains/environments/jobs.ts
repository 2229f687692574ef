import { sql } from 'kysely';
import { z } from 'zod';
import { findProject } from '#domains/projects/queries.ts';
import { AccessUnknown, contextFor } from '#domains/tokens/acting.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { stopEnvironment } from './commands.ts';

/** The most environments that one run stops. The next run continues. */
const BATCH = 100;

/** The job `environments.stop_due` stops the environments whose time is over (`auto_stop_in`). */
export const stopDueEnvironments = defineJob({
  name: 'environments.stop_due',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '*/5 * * * *',
  run: async (ctx) => {
    const { rows } = await sql<DueEnvironment>`
      select id, project_id, (select d.user_id from deployments d where d.environment_id = environments.id
        order by d.id desc limit 1) as deployer_id
      from environments
      where state = 'available' and auto_stop_at <= ${ctx.clock.now().toISOString()}::timestamptz
      order by auto_stop_at limit ${BATCH}`.execute(ctx.db);
    for (const { id, project_id, deployer_id } of rows) {
      if (ctx.signal.aborted) return;
      await stopAsDeployer(ctx, { id, project_id, deployer_id });
    }
  },
});

interface DueEnvironment {
  readonly id: number;
  readonly project_id: number;
  /** The user who started the last deployment. */
  readonly deployer_id: number | null;
}

/** The job that stops the environment runs with the rights of the deployer. If they have none, no job runs. */
const stopAsDeployer = async (hub: Context, { id, project_id, deployer_id }: DueEnvironment): Promise<void> => {
  try {
    const ctx = await contextFor(hub, deployer_id, project_id);
    const seen = ctx && (await findProject(ctx, { id: project_id }));
    if (seen) return void (await stopEnvironment(ctx, seen, id));
  } catch (error) {
    // The next run tries again.
    if (error instanceof AccessUnknown) return hub.log.info({ environment: id }, error.message);
    if (!(error instanceof DomainError)) throw error;
    hub.log.info({ environment: id, reason: error.message }, 'the job that stops an environment could not run');
  }
  const project = await findProject(hub, { id: project_id });
  if (project) await stopEnvironment(hub, project, id, { force: true });
};
