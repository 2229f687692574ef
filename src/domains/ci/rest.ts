import { getProject } from '#domains/projects/queries.ts';
import { limitAction } from '#domains/settings/throttles.ts';
import { notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { only } from '#platform/values/only.ts';
import { boolean, commaList, dateTime, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { reportCommitStatus } from './commit-statuses.ts';
import { listJobs } from './job-lists.ts';
import { CI_STATUSES, PIPELINE_SCOPES, REPORTED_STATES } from './model.ts';
import {
  getJob,
  getLatestPipeline,
  getPipeline,
  listCommitStatuses,
  listPipelines,
  PIPELINE_ORDERS,
} from './queries.ts';
import {
  bridgeRecord,
  commitStatusRecord,
  jobRecord,
  pipelineListRecord,
  pipelineRecord,
  toBridges,
  toCommitStatuses,
  toJobs,
  toPipeline,
  toPipelineListed,
} from './record.ts';

const tag = 'Pipelines';
const statuses = commaList(oneOf(CI_STATUSES)).optional();
const ofPipeline = { id: idOrPath(), pipeline_id: integer({ min: 1 }) };
const name = text({ max: 1_000 }).optional();

const bridgesRoute = (word: 'bridges' | 'trigger_jobs', summary: string): Route =>
  listRoute({
    path: `/projects/:id/pipelines/:pipeline_id/${word}`,
    tag,
    summary,
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: { ...ofPipeline, scope: statuses },
    item: bridgeRecord,
    run: async (ctx, { id, pipeline_id, scope }, page) => {
      const project = await getProject(ctx, id);
      await getPipeline(ctx, project, pipeline_id);
      const list = listJobs(ctx, project, { pipeline_id, statuses: scope, kinds: ['bridge'], retried: false });
      const found = await readPage(list, page);
      return { ...found, items: await toBridges(ctx, project, found.items) };
    },
  });

export const routes = [
  listRoute({
    path: '/projects/:id/pipelines',
    tag,
    summary: 'List the pipelines of a project',
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: {
      id: idOrPath(),
      scope: oneOf(PIPELINE_SCOPES).optional(),
      status: oneOf(CI_STATUSES).optional(),
      source: text({ max: 255 }).optional(),
      ref: name,
      sha: name,
      username: text({ max: 255 }).optional(),
      name,
      yaml_errors: boolean().optional(),
      updated_after: dateTime().optional(),
      updated_before: dateTime().optional(),
      created_after: dateTime().optional(),
      created_before: dateTime().optional(),
      order_by: oneOf(PIPELINE_ORDERS).default('id'),
      sort: oneOf(['asc', 'desc']).default('desc'),
    },
    item: pipelineListRecord,
    run: async (ctx, { id, ...filter }, page) => {
      const found = await readPage(listPipelines(ctx, await getProject(ctx, id), filter), page);
      return { ...found, items: found.items.map((row) => toPipelineListed(ctx, row)) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/pipelines/latest',
    tag,
    summary: 'Get the newest pipeline of a branch or tag',
    description: '`ref` defaults to the default branch.',
    auth: 'optional',
    jobTokens: true,
    input: { id: idOrPath(), ref: name },
    response: pipelineRecord,
    run: async (ctx, { id, ref }) => {
      const project = await getProject(ctx, id);
      const wanted = ref || (project.default_branch ?? undefined);
      return toPipeline(ctx, await getLatestPipeline(ctx, project, { ref: wanted }));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/pipelines/:pipeline_id',
    tag,
    summary: 'Get a pipeline',
    auth: 'optional',
    jobTokens: true,
    input: ofPipeline,
    response: pipelineRecord,
    run: async (ctx, { id, pipeline_id }) =>
      toPipeline(ctx, await getPipeline(ctx, await getProject(ctx, id), pipeline_id)),
  }),
  listRoute({
    path: '/projects/:id/pipelines/:pipeline_id/jobs',
    tag,
    summary: 'List the jobs of a pipeline',
    auth: 'optional',
    jobTokens: true,
    paging: 'offset',
    input: { ...ofPipeline, scope: statuses, include_retried: boolean().default(false) },
    item: jobRecord,
    run: async (ctx, { id, pipeline_id, scope, include_retried }, page) => {
      const project = await getProject(ctx, id);
      await getPipeline(ctx, project, pipeline_id);
      const retried = include_retried ? null : false;
      const list = listJobs(ctx, project, { pipeline_id, statuses: scope, kinds: ['build'], retried });
      const found = await readPage(list, page);
      return { ...found, items: await toJobs(ctx, project, found.items) };
    },
  }),
  bridgesRoute('bridges', 'List the jobs of a pipeline that started other pipelines'),
  bridgesRoute('trigger_jobs', 'List the jobs of a pipeline that started other pipelines, under the newer name'),
  listRoute({
    path: '/projects/:id/jobs',
    tag,
    summary: 'List the jobs of a project',
    auth: 'optional',
    paging: { keyset: { id: 'integer' }, sorts: ['desc'] },
    input: { id: idOrPath(), scope: statuses },
    item: jobRecord,
    run: async (ctx, { id, scope }, page) => {
      await limitAction(ctx, 'project_jobs_api_rate_limit');
      const project = await getProject(ctx, id);
      const found = await readPage(listJobs(ctx, project, { statuses: scope, kinds: ['build'] }), page);
      return { ...found, items: await toJobs(ctx, project, found.items) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/jobs/:job_id',
    tag,
    summary: 'Get a job',
    auth: 'optional',
    input: { id: idOrPath(), job_id: integer({ min: 1 }) },
    response: jobRecord,
    run: async (ctx, { id, job_id }) => {
      const project = await getProject(ctx, id);
      const [job] = await toJobs(ctx, project, [await getJob(ctx, project, job_id)]);
      if (!job) throw notFound();
      return job;
    },
  }),
  listRoute({
    path: '/projects/:id/repository/commits/:sha/statuses',
    tag,
    summary: 'List the statuses of a commit',
    auth: 'optional',
    paging: 'offset',
    input: {
      id: idOrPath(),
      sha: text({ max: 255 }),
      ref: name,
      stage: name,
      name,
      pipeline_id: integer().optional(),
      all: boolean().default(false),
      order_by: oneOf(['id', 'pipeline_id']).default('id'),
      sort: oneOf(['asc', 'desc']).default('asc'),
    },
    item: commitStatusRecord,
    run: async (ctx, { id, sha, ...filter }, page) => {
      const found = await readPage(await listCommitStatuses(ctx, await getProject(ctx, id), sha, filter), page);
      return { ...found, items: await toCommitStatuses(ctx, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/statuses/:sha',
    tag,
    summary: 'Report the status of a commit',
    description:
      'Updates a status that the caller reported and that is still pending or running, or creates a new one. It belongs to the newest pipeline of the commit. A pipeline is created if there is none.',
    input: {
      id: idOrPath(),
      sha: text({ max: 1_000 }),
      state: oneOf(REPORTED_STATES),
      ref: text({ max: 1_000 }).optional().describe('The branch or tag. Derived from the commit if absent.'),
      name: text().optional().describe('Defaults to `context`, or else to `default`.'),
      context: text().optional().describe('Another name for `name`, which takes precedence.'),
      target_url: text().nullish(),
      description: text().nullish(),
      coverage: text({ pattern: /^\d{1,3}(?:\.\d{1,20})?$/ })
        .transform(Number)
        .nullish(),
      pipeline_id: integer({ min: 1 }).optional(),
    },
    response: commitStatusRecord,
    run: async (ctx, { id, sha, name, context, ...report }) => {
      const project = await getProject(ctx, id);
      const job = await reportCommitStatus(ctx, project, sha, { ...report, name: name ?? context });
      return only(await toCommitStatuses(ctx, [job]));
    },
  }),
] satisfies readonly Route[];
