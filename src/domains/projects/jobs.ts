import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { removeDueProjects } from './deletion.ts';
import { deleteInactive } from './inactivity.ts';
import { digestRunnersTokens } from './runners-token.ts';
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

/** The job `projects.delete_inactive` warns the Owners of inactive projects every night, and deletes them later. */
export const deleteInactiveProjects = defineJob({
  name: 'projects.delete_inactive',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '10 4 * * *',
  long: true,
  run: deleteInactive,
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

/** The job `projects.digest_runners_tokens` makes registration tokens usable that an earlier version of the hub made. */
export const digestOldRunnersTokens = defineJob({
  name: 'projects.digest_runners_tokens',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '*/5 * * * *',
  long: true,
  run: digestRunnersTokens,
});
