import { sql } from 'kysely';
import { z } from 'zod';
import { projectCreated, projectUpdated } from '#domains/projects/events.ts';
import { NO_PROCESS } from '#domains/projects/readme.ts';
import type { Context, Tx } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import type { EventRow } from '#platform/events.ts';
import { defineJob } from '#platform/jobs.ts';
import { settlePush } from './pushes.ts';
import { refreshStatistics } from './upkeep.ts';

/** Records the first push of a new project. Refreshes statistics when the default branch changes. */
export const followProjects = defineFollower({
  name: 'repositories.projects',
  payloads: false,
  wants: ({ kind }) => kind === projectCreated.kind || kind === projectUpdated.kind,
  handle: async (tx, events) => {
    const created = events.filter(({ kind }) => kind === projectCreated.kind).map(({ subject_id }) => subject_id);
    for (const { project_id } of created.length > 0 ? await firstPushes(tx, created) : []) {
      tx.enqueue(settleFirstPush, { project_id }, { key: `repositories.first_push:${project_id}` });
    }
    const updated = events.filter(({ kind }) => kind === projectUpdated.kind);
    for (const project_id of updated.length > 0 ? await withOtherBranch(tx, updated) : []) {
      tx.enqueue(refreshStatistics, { project_id }, { key: `repositories.statistics:${project_id}` });
    }
  },
});

/** The job `repositories.settle_first_push`: emits the events of the commit that a project was created with. */
export const settleFirstPush = defineJob({
  name: 'repositories.settle_first_push',
  input: z.object({ project_id: z.number() }),
  maxAttempts: 5,
  run: async (ctx, { project_id }) => {
    for (const { id } of await firstPushes(ctx, [project_id])) await settlePush(ctx.services, id);
  },
});

const firstPushes = ({ db }: Pick<Context, 'db'>, projectIds: readonly number[]) =>
  db
    .selectFrom('pushes')
    .select(['id', 'project_id'])
    .where('state', '=', 'receiving')
    .where('process_id', '=', NO_PROCESS)
    .where(sql<boolean>`project_id = any (${projectIds}::bigint[])`)
    .execute();

const withOtherBranch = async ({ db }: Tx, events: readonly EventRow[]): Promise<number[]> => {
  const { rows } = await sql<{ subject_id: number }>`
    select distinct subject_id from events
    where id = any (${events.map(({ id }) => id)}::bigint[]) and payload -> 'changes' ? 'default_branch'`.execute(db);
  return rows.map((row) => row.subject_id);
};
