import { z } from 'zod';
import { projectsByIds, ROW } from '#domains/projects/queries.ts';
import { getRunner } from '#domains/runners/queries.ts';
import { readPage } from '#platform/paging.ts';
import { integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route } from '#rest/route.ts';
import { listJobsOfRunner } from '../job-lists.ts';
import { jobRecord, toJobs } from '../record.ts';

const runnerJobRecord = jobRecord
  .extend({
    project: z.object({
      id: z.int(),
      name: z.string(),
      path_with_namespace: z.string(),
      ci_job_token_scope_enabled: z.boolean(),
    }),
  })
  .meta({ id: 'RunnerJob' });

export const runnerJobRoutes = [
  listRoute({
    path: '/runners/:id/jobs',
    tag: 'Runners',
    summary: 'List the jobs that ran on a runner',
    description: 'In projects whose pipelines the caller can read.',
    paging: 'offset',
    input: {
      id: integer({ min: 1 }),
      status: oneOf(['running', 'success', 'failed', 'canceled']).optional(),
      system_id: text({ max: 255 }).optional().describe('Of the manager that ran them.'),
      order_by: oneOf(['id']).default('id'),
      sort: oneOf(['asc', 'desc']).default('desc'),
    },
    item: runnerJobRecord,
    run: async (ctx, { id, status, system_id, sort }, page) => {
      const runner = await getRunner(ctx, id);
      const statuses = status === undefined ? null : [status];
      const list = listJobsOfRunner(ctx, runner.id, { kinds: ['build'], statuses, system_id, sort });
      const found = await readPage(list, page);
      const byProject = Map.groupBy(found.items, ({ project_id }) => project_id);
      const projects = await projectsByIds(ctx, [...byProject.keys()], ROW);
      const records = await Promise.all(
        [...projects.values()].map(async (project) => {
          const { name, full_path: path_with_namespace } = project;
          const jobs = await toJobs(ctx, project, byProject.get(project.id) ?? []);
          return jobs.map((job) => ({
            ...job,
            project: { id: project.id, name, path_with_namespace, ...job.project },
          }));
        }),
      );
      const byId = new Map(records.flat().map((job) => [job.id, job]));
      return { ...found, items: found.items.flatMap((row) => byId.get(row.id) ?? []) };
    },
  }),
] satisfies readonly Route[];
