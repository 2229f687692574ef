import { z } from 'zod';
import { TIERS } from '#domains/ci-config/model.ts';
import { mergeRequestListRecord, toMergeRequests } from '#domains/merge-requests/record.ts';
import { getProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, dateTime, exclusive, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import {
  createDeployment,
  createEnvironment,
  deleteDeployment,
  deleteEnvironment,
  stopEnvironment,
  stopStaleEnvironments,
  updateDeployment,
  updateEnvironment,
} from './commands.ts';
import { DEPLOYMENT_ORDERS, getDeployment, listDeployments } from './deployments.ts';
import { listDeployedMergeRequests } from './merge-requests.ts';
import { DEPLOYMENT_STATUSES, type DeploymentRow, ENVIRONMENT_STATES, REPORTED_DEPLOYMENTS } from './model.ts';
import { getEnvironment, listEnvironments } from './queries.ts';
import {
  deploymentRecord,
  environmentDetailsRecord,
  environmentRecord,
  toDeployments,
  toEnvironment,
  toEnvironmentDetails,
} from './record.ts';

const tag = 'Environments';
const deploymentTag = 'Deployments';
const one = { id: idOrPath(), environment_id: integer({ min: 1 }) };
const deployment = { id: idOrPath(), deployment_id: integer({ min: 1 }) };
const attributes = {
  external_url: text().nullish(),
  description: text().nullish(),
  tier: oneOf(TIERS).optional(),
};
const status = oneOf(REPORTED_DEPLOYMENTS);

const toDeployment = async (ctx: Context, project: ProjectRow, row: DeploymentRow) => {
  const [record] = await toDeployments(ctx, project, [row]);
  if (!record) throw notFound('Deployment');
  return record;
};

const environmentRoutes: readonly Route[] = [
  listRoute({
    path: '/projects/:id/environments',
    tag,
    summary: 'List the environments of a project',
    jobTokens: true,
    auth: 'optional',
    paging: 'offset',
    input: {
      id: idOrPath(),
      name: text({ max: 255 }).optional(),
      search: text({ max: 255 }).optional().describe('A part of the name, at least three characters.'),
      states: oneOf(ENVIRONMENT_STATES).optional(),
    },
    rules: [exclusive('name', 'search')],
    item: environmentRecord,
    run: async (ctx, { id, states, ...filter }, page) => {
      const list = listEnvironments(ctx, await getProject(ctx, id), { ...filter, states: states && [states] });
      const found = await readPage(list, page);
      return { ...found, items: found.items.map(toEnvironment) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/environments',
    tag,
    summary: 'Create an environment',
    jobTokens: true,
    description: 'Without `tier`, it follows from the name.',
    input: { id: idOrPath(), name: text(), ...attributes },
    response: environmentDetailsRecord,
    run: async (ctx, { id, ...given }) => {
      const project = await getProject(ctx, id);
      return toEnvironmentDetails(ctx, project, await createEnvironment(ctx, project, given));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/environments/stop_stale',
    tag,
    summary: 'Stop environments that nobody uses any more',
    jobTokens: true,
    description: 'Those that were neither changed nor deployed to since `before`.',
    status: 200,
    input: { id: idOrPath(), before: dateTime() },
    response: z.object({ message: z.string() }).meta({ id: 'StoppedEnvironments' }),
    run: async (ctx, { id, before }) => {
      await stopStaleEnvironments(ctx, await getProject(ctx, id), before);
      return { message: 'Successfully requested stop for all stale environments' };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/environments/:environment_id',
    tag,
    summary: 'Get an environment',
    jobTokens: true,
    auth: 'optional',
    input: one,
    response: environmentDetailsRecord,
    run: async (ctx, { id, environment_id }) => {
      const project = await getProject(ctx, id);
      return toEnvironmentDetails(ctx, project, await getEnvironment(ctx, project, environment_id));
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/environments/:environment_id',
    tag,
    summary: 'Change an environment',
    jobTokens: true,
    description: 'The name of an environment cannot change.',
    input: { ...one, ...attributes },
    response: environmentDetailsRecord,
    run: async (ctx, { id, environment_id, ...given }) => {
      const project = await getProject(ctx, id);
      return toEnvironmentDetails(ctx, project, await updateEnvironment(ctx, project, environment_id, given));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/environments/:environment_id',
    tag,
    summary: 'Delete a stopped environment with its deployments',
    jobTokens: true,
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id, environment_id }, http) => {
      await deleteEnvironment(ctx, await getProject(ctx, id), environment_id, unmodifiedSince(http));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/environments/:environment_id/stop',
    tag,
    summary: 'Stop an environment',
    jobTokens: true,
    description: 'Runs the job that `on_stop` of its last deployment names. `force` stops it without that job.',
    status: 200,
    input: { ...one, force: boolean().optional() },
    response: environmentDetailsRecord,
    run: async (ctx, { id, environment_id, force }) => {
      const project = await getProject(ctx, id);
      return toEnvironmentDetails(ctx, project, await stopEnvironment(ctx, project, environment_id, { force }));
    },
  }),
];

const deploymentRoutes: readonly Route[] = [
  listRoute({
    path: '/projects/:id/deployments',
    tag: deploymentTag,
    summary: 'List the deployments of a project',
    jobTokens: true,
    auth: 'optional',
    paging: 'offset',
    input: {
      id: idOrPath(),
      environment: text({ max: 255 }).optional().describe('The name of an environment.'),
      status: oneOf(DEPLOYMENT_STATUSES).optional(),
      updated_after: dateTime().optional(),
      updated_before: dateTime().optional(),
      finished_after: dateTime().optional(),
      finished_before: dateTime().optional(),
      order_by: oneOf(DEPLOYMENT_ORDERS).default('id'),
      sort: oneOf(['asc', 'desc']).default('asc'),
    },
    item: deploymentRecord,
    run: async (ctx, { id, status, ...filter }, page) => {
      const project = await getProject(ctx, id);
      const list = listDeployments(ctx, project, { ...filter, statuses: status && [status] });
      const found = await readPage(list, page);
      return { ...found, items: await toDeployments(ctx, project, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/deployments',
    tag: deploymentTag,
    summary: 'Report a deployment',
    jobTokens: true,
    description: 'Its environment is created if there is none.',
    input: {
      id: idOrPath(),
      environment: text(),
      sha: text({ max: 255 }),
      ref: text({ max: 1_000 }),
      tag: boolean(),
      status,
    },
    response: deploymentRecord,
    run: async (ctx, { id, ...given }) => {
      const project = await getProject(ctx, id);
      return toDeployment(ctx, project, await createDeployment(ctx, project, given));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/deployments/:deployment_id',
    tag: deploymentTag,
    summary: 'Get a deployment',
    jobTokens: true,
    auth: 'optional',
    input: deployment,
    response: deploymentRecord,
    run: async (ctx, { id, deployment_id }) => {
      const project = await getProject(ctx, id);
      return toDeployment(ctx, project, await getDeployment(ctx, project, deployment_id));
    },
  }),
  listRoute({
    path: '/projects/:id/deployments/:deployment_id/merge_requests',
    tag: deploymentTag,
    summary: 'List the merge requests that a deployment brought to its environment',
    description: 'Those merged since the successful deployment before it.',
    jobTokens: true,
    auth: 'optional',
    paging: 'offset',
    input: deployment,
    item: mergeRequestListRecord,
    run: async (ctx, { id, deployment_id }, page) => {
      const project = await getProject(ctx, id);
      const found = await readPage(await listDeployedMergeRequests(ctx, project, deployment_id), page);
      return { ...found, items: await toMergeRequests(ctx, found.items) };
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/deployments/:deployment_id',
    tag: deploymentTag,
    summary: 'Change the status of a reported deployment',
    jobTokens: true,
    input: { ...deployment, status },
    response: deploymentRecord,
    run: async (ctx, { id, deployment_id, status }) => {
      const project = await getProject(ctx, id);
      return toDeployment(ctx, project, await updateDeployment(ctx, project, deployment_id, status));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/deployments/:deployment_id',
    tag: deploymentTag,
    summary: 'Delete a deployment',
    jobTokens: true,
    description: 'Neither a running one, nor the last of its environment.',
    refusals: MODIFIED,
    input: deployment,
    response: null,
    run: async (ctx, { id, deployment_id }, http) => {
      await deleteDeployment(ctx, await getProject(ctx, id), deployment_id, unmodifiedSince(http));
    },
  }),
];

export const routes: readonly Route[] = [...environmentRoutes, ...deploymentRoutes];
