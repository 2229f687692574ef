import type { RawBuilder } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';

/**
 * Called after projects came into other groups, with SQL that selects their ids. Labels and milestones implement it:
 * what the project used of its former groups is replaced.
 */
export const afterProjectsMoved = definePort<Tx, [projects: RawBuilder<unknown>], Promise<void>>(
  'groups.after_projects_moved',
);
