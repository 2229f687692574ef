import { GroupRef, loadGroup } from '#domains/groups/graphql.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { CredentialOriginRef } from '#domains/tokens/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { createRunner } from './commands.ts';
import {
  type CreatedRunner,
  RUNNER_ACCESS_LEVELS,
  RUNNER_TYPES,
  type RunnerAccessLevel,
  type RunnerRow,
  type RunnerStatus,
  type RunnerType,
} from './model.ts';
import { findRunner, listRunners } from './queries.ts';

const TypeEnum = builder.enumType('CiRunnerType', {
  values: {
    INSTANCE_TYPE: { value: 'instance_type' },
    GROUP_TYPE: { value: 'group_type' },
    PROJECT_TYPE: { value: 'project_type' },
  } as const satisfies Record<string, { value: RunnerType }>,
});

const AccessLevelEnum = builder.enumType('CiRunnerAccessLevel', {
  values: {
    NOT_PROTECTED: { value: 'not_protected' },
    REF_PROTECTED: { value: 'ref_protected' },
  } as const satisfies Record<string, { value: RunnerAccessLevel }>,
});

const StatusEnum = builder.enumType('CiRunnerStatus', {
  values: {
    ONLINE: { value: 'online' },
    OFFLINE: { value: 'offline' },
    STALE: { value: 'stale' },
    NEVER_CONTACTED: { value: 'never_contacted' },
  } as const satisfies Record<string, { value: RunnerStatus }>,
});

const RunnerRef = builder.objectRef<RunnerRow | CreatedRunner>('CiRunner').implement({
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (runner) => gid('Ci::Runner', runner.id) }),
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
    createdBy: t.field({
      type: UserRef,
      nullable: true,
      resolve: (runner, _args, ctx) => (runner.creator_id === null ? null : loadUser(ctx, runner.creator_id)),
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

const RunnerConnection = builder.connectionObject(
  { type: RunnerRef, name: 'CiRunnerConnection' },
  { name: 'CiRunnerEdge' },
);

builder.queryField('runner', (t) =>
  t.field({
    type: RunnerRef,
    nullable: true,
    description: 'Visible to administrators and to the owners of its group or project; null for others.',
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
      args: {
        type: t.arg({ type: TypeEnum }),
        status: t.arg({ type: StatusEnum }),
        paused: t.arg.boolean(),
        tagList: t.arg.stringList(),
        search: t.arg.string(),
      },
      resolve: (_root, args, ctx, info) =>
        ctx.actor.isAdmin
          ? listConnection(
              args,
              info,
              listRunners(ctx, {
                type: args.type ?? undefined,
                status: args.status ?? undefined,
                paused: args.paused ?? undefined,
                tags: args.tagList ?? undefined,
                search: args.search ?? undefined,
              }),
            )
          : null,
    },
    RunnerConnection,
  ),
);

mutationField('runnerCreate', {
  description: 'Creates a runner of the instance (administrators), of a group or of a project (its owners).',
  input: (t) => ({
    runnerType: t.field({ type: TypeEnum, required: true }),
    groupId: t.field({ type: 'GroupID' }),
    projectId: t.field({ type: 'ProjectID' }),
    description: t.string(),
    maintenanceNote: t.string(),
    paused: t.boolean(),
    locked: t.boolean({ description: 'Only affects runners of projects.' }),
    runUntagged: t.boolean(),
    tagList: t.stringList(),
    accessLevel: t.field({ type: AccessLevelEnum }),
    maximumTimeout: t.int(),
  }),
  payload: { runner: RunnerRef },
  run: async (ctx, input) => ({
    runner: await createRunner(ctx, {
      runner_type: input.runnerType,
      group_id: input.groupId,
      project_id: input.projectId,
      description: input.description,
      maintenance_note: input.maintenanceNote,
      paused: input.paused ?? undefined,
      locked: input.locked ?? undefined,
      run_untagged: input.runUntagged ?? undefined,
      tag_list: input.tagList ?? undefined,
      access_level: input.accessLevel ?? undefined,
      maximum_timeout: input.maximumTimeout,
    }),
  }),
});
