import { sql } from 'kysely';
import { projectUpdated } from '#domains/projects/events.ts';
import type { Tx } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import type { EventRow } from '#platform/events.ts';
import { refreshStatisticsLater } from './upkeep.ts';

/** Refreshes statistics when the default branch of a project changes. */
export const followProjects = defineFollower({
  name: 'repositories.projects',
  payloads: false,
  wants: ({ kind }) => kind === projectUpdated.kind,
  handle: async (tx, events) => {
    for (const project_id of await withOtherBranch(tx, events)) {
      refreshStatisticsLater(tx, project_id);
    }
  },
});

const withOtherBranch = async ({ db }: Tx, events: readonly EventRow[]): Promise<number[]> => {
  const { rows } = await sql<{ subject_id: number }>`
    select distinct subject_id from events
    where position = any (${events.map(({ position }) => position)}::bigint[]) and payload -> 'changes' ? 'default_branch'`.execute(
    db,
  );
  return rows.map((row) => row.subject_id);
};
