import { JobRef, loadJob } from '#domains/ci/graphql.ts';
import { TIERS } from '#domains/ci-config/model.ts';
import { JUDGED, loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import {
  createEnvironment,
  deleteDeployment,
  deleteEnvironment,
  stopEnvironment,
  updateEnvironment,
} from './commands.ts';
import { deploymentsByIds, listDeploymentsBelow } from './deployments.ts';
import {
  DEPLOYMENT_STATUSES,
  type DeploymentRow,
  type DeploymentStatus,
  ENVIRONMENT_STATES,
  type EnvironmentRow,
  type EnvironmentState,
  tierOf,
} from './model.ts';
import { environmentKey, environmentsByIds, environmentsByKeys, listEnvironmentsBelow } from './queries.ts';

const TierEnum = builder.enumType('DeploymentTier', { values: upperCase(TIERS) });

const StatusEnum = builder.enumType('DeploymentStatus', { values: upperCase(DEPLOYMENT_STATUSES) });

const StateEnum = builder.enumType('EnvironmentStateEnum', { values: upperCase(ENVIRONMENT_STATES) });

const EnvironmentRef = builder.objectRef<EnvironmentRow>('Environment');
const DeploymentRef = builder.objectRef<DeploymentRow>('Deployment');

const EnvironmentConnection = builder.connectionObject(
  { type: EnvironmentRef, name: 'EnvironmentConnection' },
  { name: 'EnvironmentEdge' },
);
const DeploymentConnection = builder.connectionObject(
  { type: DeploymentRef, name: 'DeploymentConnection' },
  { name: 'DeploymentEdge' },
);

const loadEnvironment = loader(environmentsByIds);
const loadDeployment = loader(deploymentsByIds);

interface DeploymentArguments extends ConnectionArguments {
  readonly statuses?: readonly DeploymentStatus[] | null | undefined;
}
const environmentDeployments = batchedConnection((ctx, { statuses }: DeploymentArguments) =>
  listDeploymentsBelow(ctx, { statuses }),
);

EnvironmentRef.implement({
  description: 'A place that jobs deploy to.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Environment', id) }),
    name: t.exposeString('name', { nullable: false }),
    slug: t.exposeString('slug'),
    description: t.exposeString('description'),
    state: t.exposeString('state', { nullable: false, description: 'available, stopping or stopped.' }),
    tier: t.field({ type: TierEnum, resolve: ({ tier }) => tierOf(tier) }),
    externalUrl: t.exposeString('external_url'),
    environmentType: t.string({
      description: 'The folder of the name: `review` of `review/a`.',
      resolve: ({ name }) => (name.includes('/') ? (name.split('/')[0] ?? null) : null),
    }),
    autoStopAt: t.expose('auto_stop_at', { type: 'Time' }),
    createdAt: t.expose('created_at', { type: 'Time' }),
    updatedAt: t.expose('updated_at', { type: 'Time' }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
    lastDeployment: t.field({
      type: DeploymentRef,
      description: 'The last successful deployment.',
      resolve: ({ last_deployment_id }, _args, ctx) =>
        last_deployment_id === null ? null : loadDeployment(ctx, last_deployment_id),
    }),
    deployments: t.connection(
      {
        type: DeploymentRef,
        description: 'The newest first.',
        args: { statuses: t.arg({ type: [StatusEnum] }) },
        resolve: ({ id }, args, ctx, info) => environmentDeployments(id, args, ctx, info),
      },
      DeploymentConnection,
    ),
  }),
});

DeploymentRef.implement({
  description: 'What was deployed to an environment.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Deployment', id) }),
    iid: t.string({ nullable: false, resolve: ({ iid }) => String(iid) }),
    ref: t.exposeString('ref'),
    tag: t.exposeBoolean('tag'),
    sha: t.exposeString('sha'),
    status: t.field({
      type: StatusEnum,
      resolve: ({ status }) => DEPLOYMENT_STATUSES.find((each) => each === status) ?? null,
    }),
    createdAt: t.expose('created_at', { type: 'Time' }),
    updatedAt: t.expose('updated_at', { type: 'Time' }),
    finishedAt: t.expose('finished_at', { type: 'Time' }),
    environment: t.field({
      type: EnvironmentRef,
      resolve: ({ environment_id }, _args, ctx) => loadEnvironment(ctx, environment_id),
    }),
    job: t.field({
      type: JobRef,
      resolve: ({ job_id }, _args, ctx) => (job_id === null ? null : loadJob(ctx, job_id)),
    }),
    triggerer: t.field({
      type: UserRef,
      resolve: ({ user_id }, _args, ctx) => (user_id === null ? null : loadUser(ctx, user_id)),
    }),
  }),
});

interface EnvironmentArguments extends ConnectionArguments {
  readonly name?: string | null | undefined;
  readonly search?: string | null | undefined;
  readonly states?: readonly EnvironmentState[] | null | undefined;
}

const projectEnvironments = batchedConnection((ctx, { name, search, states }: EnvironmentArguments) =>
  listEnvironmentsBelow(ctx, { name, search, states }),
);

projectField('environments', JUDGED, (t) =>
  t.connection(
    {
      type: EnvironmentRef,
      nullable: true,
      args: {
        name: t.arg.string(),
        search: t.arg.string({ description: 'A part of the name, at least three characters.' }),
        states: t.arg({ type: [StateEnum] }),
      },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_pipeline') ? projectEnvironments(project.id, args, ctx, info) : null,
    },
    EnvironmentConnection,
  ),
);

const loadByKey = loader(environmentsByKeys);

projectField('environment', [...JUDGED, 'id'], (t) =>
  t.field({
    type: EnvironmentRef,
    nullable: true,
    args: { name: t.arg.string({ required: true }) },
    resolve: (project, { name }, ctx) =>
      can(ctx, project, 'read_pipeline') ? loadByKey(ctx, environmentKey(project.id, name)) : null,
  }),
);

const attributeFields = (t: InputFields) => ({
  externalUrl: t.string(),
  description: t.string(),
  tier: t.field({ type: TierEnum }),
});
const asColumns = <T extends { readonly externalUrl?: string | null | undefined }>({ externalUrl, ...rest }: T) => ({
  ...rest,
  external_url: externalUrl,
});
const which = (t: InputFields) => ({ id: t.field({ type: 'EnvironmentID', required: true }) });

/** Returns the project of an environment or deployment that the caller names by its id. */
const projectOf = async (ctx: Context, row: { readonly project_id: number } | undefined, what: string) => {
  if (!row) throw notFound(what);
  return getProject(ctx, { id: row.project_id });
};
const projectOfEnvironment = async (ctx: Context, id: number) =>
  projectOf(ctx, (await environmentsByIds(ctx, [id])).get(id), 'Environment');

mutationField('environmentCreate', {
  description: 'Creates an environment. Without a tier, it follows from the name.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    name: t.string({ required: true }),
    ...attributeFields(t),
  }),
  payload: { environment: EnvironmentRef },
  run: async (ctx, { projectPath, ...given }) => ({
    environment: await createEnvironment(ctx, await getProject(ctx, { path: projectPath }), asColumns(given)),
  }),
});

mutationField('environmentUpdate', {
  description: 'Changes an environment.',
  input: (t) => ({ ...which(t), ...attributeFields(t) }),
  payload: { environment: EnvironmentRef },
  run: async (ctx, { id, ...given }) => ({
    environment: await updateEnvironment(ctx, await projectOfEnvironment(ctx, id), id, asColumns(given)),
  }),
});

mutationField('environmentStop', {
  description: 'Stops an environment: runs the job that `on_stop` of its last deployment names.',
  input: (t) => ({ ...which(t), force: t.boolean({ description: 'Stops it without that job.' }) }),
  payload: { environment: EnvironmentRef },
  run: async (ctx, { id, force }) => ({
    environment: await stopEnvironment(ctx, await projectOfEnvironment(ctx, id), id, { force: force ?? false }),
  }),
});

mutationField('environmentDelete', {
  description: 'Deletes a stopped environment with its deployments.',
  input: which,
  payload: {},
  run: async (ctx, { id }) => {
    await deleteEnvironment(ctx, await projectOfEnvironment(ctx, id), id);
    return {};
  },
});

mutationField('deploymentDelete', {
  description: 'Deletes a deployment. Neither a running one, nor the last of its environment.',
  input: (t) => ({ id: t.field({ type: 'DeploymentID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    const row = (await deploymentsByIds(ctx, [id])).get(id);
    await deleteDeployment(ctx, await projectOf(ctx, row, 'Deployment'), id);
    return {};
  },
});
