import { sql } from 'kysely';
import { z } from 'zod';
import { isRefusal } from '#domains/ci/create.ts';
import { mayRunOn } from '#domains/ci/policy.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { findProject } from '#domains/projects/queries.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import type { Context } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { emitAbout, startPipeline } from './commands.ts';
import { nextRun } from './cron.ts';
import { pipelineScheduleUpdated } from './events.ts';
import { type ScheduleRow, shortRef } from './model.ts';
import { findScheduleRow, lockScheduleRow } from './queries.ts';

/** The job `schedules.find_due` adds a job for each schedule whose time has come. */
export const findDueSchedules = defineJob({
  name: 'schedules.find_due',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '* * * * *',
  run: (ctx) =>
    ctx.transaction(async (tx) => {
      const due = await tx.db
        .selectFrom('pipeline_schedules')
        .select('id')
        .where('active', '=', true)
        .where('next_run_at', '<=', tx.clock.now().toISOString())
        .execute();
      for (const { id } of due) tx.enqueue(runSchedule, { id }, { key: `schedules.run:${id}` });
    }),
});

/**
 * The job `schedules.run` starts the pipeline of a due schedule as its owner, once for each time of the schedule,
 * whatever dies: the time is the key of the pipeline. Runs that were missed are made up for by one. If the owner may not
 * run pipelines any more, the schedule is deactivated.
 */
export const runSchedule = defineJob({
  name: 'schedules.run',
  input: z.object({ id: z.number() }),
  maxAttempts: 8,
  run: async (hub, { id }) => {
    const schedule = await findScheduleRow(hub, id);
    const project = schedule && (await findProject(hub, { id: schedule.project_id }));
    if (!schedule || !project || !isDue(hub, schedule)) return;
    const ctx = await contextFor(hub, schedule.owner_id, project.id);
    const seen = ctx && (await findProject(ctx, { id: project.id }));
    if (!seen || !(await mayRun(ctx, seen, schedule))) return deactivate(hub, project, schedule);
    try {
      await startPipeline(ctx, seen, schedule, `schedule:${id}:${schedule.next_run_at}`);
    } catch (error) {
      // The pipeline is refused, for example because the branch is gone. It is tried again at the next time.
      if (!isRefusal(error)) throw error;
      hub.log.info({ schedule: id, reason: error.message }, 'a schedule could not start its pipeline');
    }
    await postpone(hub, schedule);
  },
});

const isDue = ({ clock }: Context, { active, next_run_at }: ScheduleRow): boolean =>
  active && next_run_at !== null && new Date(next_run_at) <= clock.now();

const mayRun = (ctx: Context, project: ProjectRow, { ref }: ScheduleRow): Promise<boolean> => {
  const { name, tag } = shortRef(ref);
  return mayRunOn(ctx, project, { ref: name, tag });
};

/** Sets the next time, unless the schedule was changed meanwhile. */
const postpone = async ({ db, clock }: Context, schedule: ScheduleRow): Promise<void> => {
  const next = nextRun(schedule.cron, schedule.cron_timezone, clock.now());
  await db
    .updateTable('pipeline_schedules')
    .set({ next_run_at: next?.toISOString() ?? null })
    .where('id', '=', schedule.id)
    .where('next_run_at', '=', schedule.next_run_at)
    .execute();
};

const deactivate = (hub: Context, project: ProjectRow, { id, owner_id }: ScheduleRow): Promise<void> =>
  hub.transaction(async (tx) => {
    const now = await lockScheduleRow(tx, id);
    // Somebody else may have taken it over.
    if (!now?.active || now.owner_id !== owner_id) return;
    await tx.db
      .updateTable('pipeline_schedules')
      .set({ active: false, next_run_at: null, updated_at: sql`now()` })
      .where('id', '=', id)
      .execute();
    emitAbout(tx, project, pipelineScheduleUpdated, { ...now, active: false, next_run_at: null });
  });
