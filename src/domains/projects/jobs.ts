import { z } from 'zod';
import { defineJob } from '#platform/jobs.ts';
import { removeDueProjects } from './deletion.ts';

/** The job `projects.remove_due`: removes the projects that were marked for deletion long enough ago. */
export const removeDue = defineJob({
  name: 'projects.remove_due',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '47 * * * *',
  long: true,
  run: removeDueProjects,
});
