import { Counter, Histogram } from 'prom-client';

export const finishedJobs = new Counter({
  name: 'millrace_jobs_total',
  help: 'Job runs by outcome: done, failed (to be retried), given_up, returned (stopped by the hub).',
  labelNames: ['job', 'outcome'],
});

export const jobDuration = new Histogram({
  name: 'millrace_job_duration_seconds',
  help: 'Duration of job runs.',
  labelNames: ['job'],
  buckets: [0.005, 0.02, 0.1, 0.5, 2, 10, 60, 300, 1800],
});
