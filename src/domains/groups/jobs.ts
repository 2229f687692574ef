import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { foldSizes as fold } from './summaries.ts';

/** The job `groups.fold_sizes`: what groups take up is a sum of rows, which grow with every change. */
export const foldSizes = defineJob({
  name: 'groups.fold_sizes',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '23 * * * *',
  run: fold,
});
