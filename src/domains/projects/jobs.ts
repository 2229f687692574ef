import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { removeDueProjects } from './deletion.ts';
import { sweepRepositories } from './sweep.ts';

/** The job `projects.remove_due` removes the projects whose deletion delay has passed. */
export const removeDue = defineJob({
  name: 'projects.remove_due',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '47 * * * *',
  long: true,
  run: removeDueProjects,
});

/** The job `projects.sweep_repositories` removes repositories that belong to no project. */
export const removeUnknownRepositories = defineJob({
  name: 'projects.sweep_repositories',
  input: z.object({}).strict(),
  maxAttempts: 1,
  cron: '37 * * * *',
  long: true,
  run: (ctx) => sweepRepositories(ctx),
});
