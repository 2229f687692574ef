import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { removeDueGroups } from './deletion.ts';
import { foldSizes as fold } from './summaries.ts';

/** The job `groups.fold_sizes` merges the rows that make up the sizes of groups. Every change adds a row. */
export const foldSizes = defineJob({
  name: 'groups.fold_sizes',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '23 * * * *',
  run: fold,
});

/** The job `groups.remove_due` removes the groups whose deletion delay has passed. */
export const removeDue = defineJob({
  name: 'groups.remove_due',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '41 * * * *',
  long: true,
  run: removeDueGroups,
});
