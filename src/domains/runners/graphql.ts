import { GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { CredentialOriginRef } from '#domains/tokens/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { webUrl } from '#platform/urls.ts';
import { createRunner, type RunnerAttributes } from './commands.ts';
import type { ManagerRow } from './manager-queries.ts';
import {
  type CreatedRunner,
  RUNNER_ACCESS_LEVELS,
  RUNNER_STATUSES,
  RUNNER_TYPES,
  type RunnerAccessLevel,
  type RunnerRow,
  type RunnerStatus,
  type RunnerType,
} from './model.ts';
import { findRunner, listRunners, type RunnerFilter } from './queries.ts';

export const TypeEnum = builder.enumType('CiRunnerType', { values: upperCase(RUNNER_TYPES) });

const AccessLevelEnum = builder.enumType('CiRunnerAccessLevel', { values: upperCase(RUNNER_ACCESS_LEVELS) });

const StatusEnum = builder.enumType('CiRunnerStatus', { values: upperCase(RUNNER_STATUSES) });

const adminUrl = (ctx: Context, { id }: { readonly id: number }): string => webUrl(ctx, `admin/runners/${id}`);

const registerUrl = async (ctx: Context, runner: RunnerRow): Promise<string> => {
  if (runner.namespace_id !== null) {
    const group = await loadGroup(ctx, runner.namespace_id);
    if (group) return webUrl(ctx, `groups/${group.full_path}/-/runners/${runner.id}/register`);
  }
  if (runner.project_id !== null) {
    const project = await loadProject(ctx, runner.project_id);
    if (project) return webUrl(ctx, `${project.full_path}/-/runners/${runner.id}/register`);
  }
  return `${adminUrl(ctx, runner)}/register`;
};

export const RunnerRef = builder.objectRef<RunnerRow | CreatedRunner>('CiRunner').implement({
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (runner) => gid('Ci::Runner', runner.id) }),
    shortSha: t.exposeString('short_token', {
      nullable: true,
      description: 'The start of its token, as its logs name it. Null if the token is older than this field.',
    }),
    description: t.exposeString('description', { nullable: true }),
    maintenanceNote: t.exposeString('maintenance_note', { nullable: true }),
    runnerType: t.field({
      type: TypeEnum,
      nullable: false,
      resolve: (runner) => RUNNER_TYPES.find((type) => type === runner.runner_type) ?? 'instance_type',
    }),
    accessLevel: t.field({
      type: AccessLevelEnum,
      nullable: false,
      resolve: (runner) => RUNNER_ACCESS_LEVELS.find((level) => level === runner.access_level) ?? 'ref_protected',
    }),
    status: t.expose('status', { type: StatusEnum, nullable: false }),
    paused: t.exposeBoolean('paused', { nullable: false }),
    locked: t.exposeBoolean('locked', { nullable: true }),
    runUntagged: t.exposeBoolean('run_untagged', { nullable: false }),
    tagList: t.exposeStringList('tags', { nullable: { list: true, items: false } }),
    maximumTimeout: t.exposeInt('maximum_timeout', { nullable: true }),
    contactedAt: t.expose('contacted_at', { type: 'Time', nullable: true }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: true }),
    tokenExpiresAt: t.expose('token_expires_at', { type: 'Time', nullable: true }),
    ephemeralAuthenticationToken: t.string({
      nullable: true,
      description: 'The token. Returned only by `runnerCreate`.',
      resolve: (runner) => ('token' in runner ? runner.token : null),
    }),
    ephemeralRegisterUrl: t.string({
      nullable: true,
      description: 'The address of the page with instructions to start it. Returned only by `runnerCreate`.',
      resolve: (runner, _args, ctx) => ('token' in runner ? registerUrl(ctx, runner) : null),
    }),
    createdBy: t.field({
      type: UserRef,
      nullable: true,
      resolve: (runner, _args, ctx) => (runner.creator_id === null ? null : loadUser(ctx, runner.creator_id)),
    }),
    adminUrl: t.string({
      nullable: true,
      description: 'The address of its page for administrators; null for others.',
      resolve: (runner, _args, ctx) => (ctx.actor.isAdmin ? adminUrl(ctx, runner) : null),
    }),
    editAdminUrl: t.string({
      nullable: true,
      description: 'The address of the page on which administrators change it; null for others.',
      resolve: (runner, _args, ctx) => (ctx.actor.isAdmin ? `${adminUrl(ctx, runner)}/edit` : null),
    }),
    origin: t.expose('origin', { type: CredentialOriginRef, nullable: true }),
    group: t.field({
      type: GroupRef,
      nullable: true,
      resolve: (runner, _args, ctx) => (runner.namespace_id === null ? null : loadGroup(ctx, runner.namespace_id)),
    }),
    ownerProject: t.field({
      type: ProjectRef,
      nullable: true,
      resolve: (runner, _args, ctx) => (runner.project_id === null ? null : loadProject(ctx, runner.project_id)),
    }),
  }),
});

const ExecutionEnum = builder.enumType('CiRunnerJobExecutionStatus', { values: upperCase(['active', 'idle']) });

export const ManagerRef = builder.objectRef<ManagerRow>('CiRunnerManager').implement({
  description: 'A process that runs jobs with the token of a runner.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::RunnerManager', id) }),
    systemId: t.exposeString('system_id', { nullable: false }),
    version: t.exposeString('version', { nullable: true }),
    revision: t.exposeString('revision', { nullable: true }),
    platformName: t.exposeString('platform', { nullable: true }),
    architectureName: t.exposeString('architecture', { nullable: true }),
    ipAddress: t.exposeString('ip_address', { nullable: true }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: true }),
    contactedAt: t.expose('contacted_at', { type: 'Time', nullable: true }),
    status: t.expose('status', { type: StatusEnum, nullable: false }),
    jobExecutionStatus: t.expose('job_execution_status', { type: ExecutionEnum, nullable: true }),
  }),
});

export const RunnerConnection = builder.connectionObject(
  { type: RunnerRef, name: 'CiRunnerConnection' },
  { name: 'CiRunnerEdge' },
);

const SORTS = {
  CREATED_ASC: { order_by: 'created', sort: 'asc' },
  CREATED_DESC: { order_by: 'created', sort: 'desc' },
  CONTACTED_ASC: { order_by: 'contacted', sort: 'asc' },
  CONTACTED_DESC: { order_by: 'contacted', sort: 'desc' },
} as const satisfies Record<string, RunnerFilter>;

const SortEnum = builder.enumType('CiRunnerSort', {
  values: ['CREATED_ASC', 'CREATED_DESC', 'CONTACTED_ASC', 'CONTACTED_DESC'] satisfies readonly (keyof typeof SORTS)[],
});

/** The arguments of lists of runners: `args: runnerArguments(t.arg)`. */
export const runnerArguments = (arg: QueryArguments) => ({
  type: arg({ type: TypeEnum }),
  status: arg({ type: StatusEnum }),
  paused: arg.boolean(),
  tagList: arg.stringList(),
  search: arg.string(),
  sort: arg({ type: SortEnum }),
});

type QueryArguments = Parameters<Parameters<typeof builder.queryField>[1]>[0]['arg'];

export interface RunnerArguments {
  readonly type?: RunnerType | null | undefined;
  readonly status?: RunnerStatus | null | undefined;
  readonly paused?: boolean | null | undefined;
  readonly tagList?: readonly string[] | null | undefined;
  readonly search?: string | null | undefined;
  readonly sort?: keyof typeof SORTS | null | undefined;
}

/** Returns the filter that the arguments of a list ask for. */
export const filterOf = ({ type, status, paused, tagList, search, sort }: RunnerArguments): RunnerFilter => ({
  ...SORTS[sort ?? 'CREATED_DESC'],
  type: type ?? undefined,
  status: status ?? undefined,
  paused: paused ?? undefined,
  tags: tagList ?? undefined,
  search: search ?? undefined,
});

builder.queryField('runner', (t) =>
  t.field({
    type: RunnerRef,
    nullable: true,
    description:
      'Visible to administrators, to the owners of its group, and to the maintainers of its projects; null for others.',
    args: { id: t.arg({ type: 'CiRunnerID', required: true }) },
    resolve: (_root, { id }, ctx) => findRunner(ctx, id),
  }),
);

builder.queryField('runners', (t) =>
  t.connection(
    {
      type: RunnerRef,
      nullable: true,
      description: 'All runners. Visible to administrators; null for others.',
      args: runnerArguments(t.arg),
      resolve: (_root, args, ctx, info) =>
        ctx.actor.isAdmin ? listConnection(args, info, listRunners(ctx, { kind: 'all' }, filterOf(args))) : null,
    },
    RunnerConnection,
  ),
);

/** The inputs for the attributes of a runner. */
export const attributeInputs = (t: InputFields) => ({
  description: t.string(),
  maintenanceNote: t.string(),
  paused: t.boolean(),
  locked: t.boolean({ description: 'Only affects runners of projects.' }),
  runUntagged: t.boolean(),
  tagList: t.stringList(),
  accessLevel: t.field({ type: AccessLevelEnum }),
  maximumTimeout: t.int(),
});

interface AttributeInputs {
  readonly description?: string | null | undefined;
  readonly maintenanceNote?: string | null | undefined;
  readonly paused?: boolean | null | undefined;
  readonly locked?: boolean | null | undefined;
  readonly runUntagged?: boolean | null | undefined;
  readonly tagList?: readonly string[] | null | undefined;
  readonly accessLevel?: RunnerAccessLevel | null | undefined;
  readonly maximumTimeout?: number | null | undefined;
}

export const attributesOf = (input: AttributeInputs): RunnerAttributes => ({
  description: input.description,
  maintenance_note: input.maintenanceNote,
  paused: input.paused ?? undefined,
  locked: input.locked ?? undefined,
  run_untagged: input.runUntagged ?? undefined,
  tag_list: input.tagList ?? undefined,
  access_level: input.accessLevel ?? undefined,
  maximum_timeout: input.maximumTimeout,
});

mutationField('runnerCreate', {
  description: 'Creates a runner of the instance (administrators), of a group or of a project (its owners).',
  input: (t) => ({
    runnerType: t.field({ type: TypeEnum, required: true }),
    groupId: t.field({ type: 'GroupID' }),
    projectId: t.field({ type: 'ProjectID' }),
    ...attributeInputs(t),
  }),
  payload: { runner: RunnerRef },
  run: async (ctx, input) => ({
    runner: await createRunner(ctx, {
      runner_type: input.runnerType,
      group_id: input.groupId,
      project_id: input.projectId,
      ...attributesOf(input),
    }),
  }),
});
