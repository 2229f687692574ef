import { z } from 'zod';
import { namespaceWebUrl } from '#domains/groups/model.ts';
import { updateProject } from '#domains/projects/commands.ts';
import { getProject } from '#domains/projects/queries.ts';
import { simpleProjectRecord, toSimpleProject } from '#domains/projects/record.ts';
import { notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, idOrPath, integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import {
  admitJobs,
  getJobTokenScope,
  listAdmittedGroups,
  listAdmittedProjects,
  refuseJobs,
} from '../job-token-scope.ts';
import { jobByIdIn } from '../queries.ts';
import { jobRecord, toJobs } from '../record.ts';

const tag = 'Job tokens';
const input = { id: idOrPath() };
const ofProject = { ...input, target_project_id: integer({ min: 1 }) };
const ofGroup = { ...input, target_group_id: integer({ min: 1 }) };

const groupRecord = z.object({ id: z.int(), web_url: z.string(), name: z.string() }).meta({ id: 'GroupBasic' });

export const jobTokenRoutes = [
  route({
    method: 'GET',
    path: '/job',
    tag,
    summary: 'Get the job whose token the request carries',
    jobTokens: true,
    response: jobRecord,
    run: async (ctx) => {
      const { job: own } = ctx.actor;
      if (!own) throw notFound('Job');
      const project = await getProject(ctx, { id: own.projectId });
      const [job] = await toJobs(ctx, project, [await jobByIdIn(ctx, own.id)]);
      if (!job) throw notFound('Job');
      return job;
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/job_token_scope',
    tag,
    summary: 'Get which job tokens a project accepts',
    description:
      'With `inbound_enabled`, only those of its own jobs and of its allowlist. `outbound_enabled` has no effect.',
    input,
    response: z.object({ inbound_enabled: z.boolean(), outbound_enabled: z.boolean() }).meta({ id: 'JobTokenScope' }),
    run: async (ctx, { id }) => getJobTokenScope(ctx, await getProject(ctx, id)),
  }),
  route({
    method: 'PATCH',
    path: '/projects/:id/job_token_scope',
    tag,
    summary: 'Choose whether a project accepts only the job tokens on its allowlist',
    input: { ...input, enabled: boolean() },
    response: null,
    run: async (ctx, { id, enabled }) => {
      await updateProject(ctx, await getProject(ctx, id), { ci_inbound_job_token_scope_enabled: enabled });
    },
  }),
  listRoute({
    path: '/projects/:id/job_token_scope/allowlist',
    tag,
    summary: 'List the projects whose job tokens a project accepts',
    description: 'Lists the projects that the caller can see. The own project is always accepted and not listed.',
    paging: 'offset',
    input,
    item: simpleProjectRecord,
    run: async (ctx, { id }, page) => {
      const found = await readPage(await listAdmittedProjects(ctx, await getProject(ctx, id)), page);
      return { ...found, items: found.items.map((project) => toSimpleProject(ctx, project)) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/job_token_scope/allowlist',
    tag,
    summary: 'Accept the job tokens of a project',
    input: ofProject,
    response: z.object({ source_project_id: z.int(), target_project_id: z.int() }).meta({ id: 'AdmittedProject' }),
    run: async (ctx, { id, target_project_id }) => {
      const project = await getProject(ctx, id);
      await admitJobs(ctx, project, { kind: 'project', id: { id: target_project_id } });
      return { source_project_id: project.id, target_project_id };
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/job_token_scope/allowlist/:target_project_id',
    tag,
    summary: 'Refuse the job tokens of a project again',
    input: ofProject,
    response: null,
    run: async (ctx, { id, target_project_id }) =>
      refuseJobs(ctx, await getProject(ctx, id), { kind: 'project', id: { id: target_project_id } }),
  }),
  listRoute({
    path: '/projects/:id/job_token_scope/groups_allowlist',
    tag,
    summary: 'List the groups whose job tokens a project accepts',
    description: 'Lists the groups that the caller can see.',
    paging: 'offset',
    input,
    item: groupRecord,
    run: async (ctx, { id }, page) => {
      const found = await readPage(await listAdmittedGroups(ctx, await getProject(ctx, id)), page);
      const items = found.items.map((group) => ({
        id: group.id,
        web_url: namespaceWebUrl(ctx, group),
        name: group.name,
      }));
      return { ...found, items };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/job_token_scope/groups_allowlist',
    tag,
    summary: "Accept the job tokens of a group's projects",
    input: ofGroup,
    response: z.object({ source_project_id: z.int(), target_group_id: z.int() }).meta({ id: 'AdmittedGroup' }),
    run: async (ctx, { id, target_group_id }) => {
      const project = await getProject(ctx, id);
      await admitJobs(ctx, project, { kind: 'group', id: { id: target_group_id } });
      return { source_project_id: project.id, target_group_id };
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/job_token_scope/groups_allowlist/:target_group_id',
    tag,
    summary: "Refuse the job tokens of a group's projects again",
    input: ofGroup,
    response: null,
    run: async (ctx, { id, target_group_id }) =>
      refuseJobs(ctx, await getProject(ctx, id), { kind: 'group', id: { id: target_group_id } }),
  }),
] satisfies readonly Route[];
