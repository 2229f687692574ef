import { loadPipeline, PipelineRef } from '#domains/ci/graphql.ts';
import { CiVariableTypeEnum } from '#domains/ci-variables/graphql.ts';
import { readableValue, VARIABLE_TYPES, type VariableType } from '#domains/ci-variables/model.ts';
import { JUDGED, loadProject, ProjectRef, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { gid } from '#graphql/ids.ts';
import { jsonOrText } from '#graphql/json-or-text.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { createSchedule, deleteSchedule, playSchedule, takeOwnership, updateSchedule } from './commands.ts';
import {
  inputsOf,
  SCHEDULE_SCOPES,
  type ScheduleRow,
  type ScheduleScope,
  type ScheduleVariableRow,
  shortRef,
} from './model.ts';
import { mayChange } from './policy.ts';
import { findScheduleRow, getSchedule, listSchedulesBelow, variablesBySchedules } from './queries.ts';

const StatusEnum = builder.enumType('PipelineScheduleStatus', { values: upperCase(SCHEDULE_SCOPES) });

const VariableRef = builder.objectRef<ScheduleVariableRow>('PipelineScheduleVariable').implement({
  description: 'A variable that a schedule gives to its pipelines.',
  fields: (t) => ({
    key: t.exposeString('key', { nullable: false }),
    value: t.string({
      description: 'Null if it was encrypted with a lost key.',
      resolve: (row, _args, ctx) => readableValue(ctx, row),
    }),
    variableType: t.field({
      type: CiVariableTypeEnum,
      nullable: false,
      resolve: ({ variable_type }) => VARIABLE_TYPES.find((type) => type === variable_type) ?? 'env_var',
    }),
  }),
});

const InputRef = builder.objectRef<{ readonly name: string; readonly value?: unknown }>('CiInputs').implement({
  description: 'An input for the CI file.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    value: t.string({
      description: 'As JSON.',
      nullable: false,
      resolve: ({ value }) => JSON.stringify(value ?? null),
    }),
  }),
});

const loadVariables = loader(variablesBySchedules);

const ScheduleRef = builder.objectRef<ScheduleRow>('PipelineSchedule').implement({
  description: 'Starts pipelines at the times of a cron pattern.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Ci::PipelineSchedule', id) }),
    description: t.exposeString('description'),
    ref: t.exposeString('ref'),
    refForDisplay: t.string({ resolve: ({ ref }) => shortRef(ref).name }),
    cron: t.exposeString('cron', { nullable: false }),
    cronTimezone: t.exposeString('cron_timezone', { nullable: false }),
    active: t.exposeBoolean('active', { nullable: false }),
    nextRunAt: t.expose('next_run_at', { type: 'Time' }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    owner: t.field({
      type: UserRef,
      resolve: ({ owner_id }, _args, ctx) => (owner_id === null ? null : loadUser(ctx, owner_id)),
    }),
    project: t.field({ type: ProjectRef, resolve: ({ project_id }, _args, ctx) => loadProject(ctx, project_id) }),
    lastPipeline: t.field({
      type: PipelineRef,
      resolve: ({ last_pipeline_id }, _args, ctx) =>
        last_pipeline_id === null ? null : loadPipeline(ctx, last_pipeline_id),
    }),
    inputs: t.field({
      type: [InputRef],
      nullable: { list: false, items: false },
      resolve: (row) => [...inputsOf(row)],
    }),
    variables: t.field({
      type: [VariableRef],
      nullable: { list: true, items: false },
      description: 'Only for the owner; null for other callers.',
      resolve: async (row, _args, ctx) => {
        const project = await loadProject(ctx, row.project_id);
        return project && mayChange(ctx, project, row) ? [...((await loadVariables(ctx, row.id)) ?? [])] : null;
      },
    }),
  }),
});

const ScheduleConnection = builder.connectionObject(
  { type: ScheduleRef, name: 'PipelineScheduleConnection' },
  { name: 'PipelineScheduleEdge' },
);

interface ScheduleArguments extends ConnectionArguments {
  readonly status?: ScheduleScope | null | undefined;
  readonly ids?: readonly number[] | null | undefined;
}

const projectSchedules = batchedConnection((ctx, { status, ids }: ScheduleArguments) =>
  listSchedulesBelow(ctx, { scope: status, ids }),
);

projectField('pipelineSchedules', JUDGED, (t) =>
  t.connection(
    {
      type: ScheduleRef,
      nullable: true,
      args: { status: t.arg({ type: StatusEnum }), ids: t.arg({ type: ['CiPipelineScheduleID'] }) },
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'read_pipeline') ? projectSchedules(project.id, args, ctx, info) : null,
    },
    ScheduleConnection,
  ),
);

const VariableInput = builder.inputType('PipelineScheduleVariableInput', {
  fields: (t) => ({
    key: t.string({ required: true }),
    value: t.string(),
    variableType: t.field({ type: CiVariableTypeEnum }),
    destroy: t.boolean({ description: 'Deletes the variable. Only in updates.' }),
  }),
});

const InputInput = builder.inputType('PipelineScheduleInputInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    value: t.string({ description: 'As JSON. A text that is not JSON is taken as it is.' }),
    destroy: t.boolean({ description: 'Removes the input. Only in updates.' }),
  }),
});

const optionFields = (t: InputFields) => ({
  cronTimezone: t.string({ description: 'UTC by default. An IANA name, or a name of Rails.' }),
  active: t.boolean(),
  variables: t.field({ type: [VariableInput] }),
  inputs: t.field({ type: [InputInput] }),
});

type Given<T> = T | null | undefined;

interface Options {
  readonly cronTimezone?: Given<string>;
  readonly active?: Given<boolean>;
  readonly variables?: Given<
    readonly {
      readonly key: string;
      readonly value?: Given<string>;
      readonly variableType?: Given<VariableType>;
      readonly destroy?: Given<boolean>;
    }[]
  >;
  readonly inputs?: Given<
    readonly { readonly name: string; readonly value?: Given<string>; readonly destroy?: Given<boolean> }[]
  >;
}

const optionsOf = ({ cronTimezone, active, inputs }: Options) => ({
  cron_timezone: cronTimezone ?? undefined,
  active: active ?? undefined,
  inputs: inputs?.map(({ name, value, destroy }) => ({
    name,
    value: value == null ? null : jsonOrText(value),
    destroy: destroy ?? undefined,
  })),
});

const variablesOf = ({ variables }: Options) =>
  (variables ?? []).map(({ key, value, variableType, destroy }) => ({
    key,
    value: value ?? undefined,
    variable_type: variableType ?? undefined,
    destroy: destroy ?? undefined,
  }));

const projectOf = async (ctx: Context, id: number) => {
  const row = await findScheduleRow(ctx, id);
  if (!row) throw notFound('Pipeline Schedule');
  return getProject(ctx, { id: row.project_id });
};

mutationField('pipelineScheduleCreate', {
  description: 'Creates a pipeline schedule. Its pipelines run with the rights of the caller.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    description: t.string({ required: true }),
    cron: t.string({ required: true }),
    ref: t.string({ required: true }),
    ...optionFields(t),
  }),
  payload: { pipelineSchedule: ScheduleRef },
  run: async (ctx, { projectPath, description, cron, ref, ...given }) => ({
    pipelineSchedule: await createSchedule(
      ctx,
      await getProject(ctx, { path: projectPath }),
      { description, cron, ref, ...optionsOf(given) },
      variablesOf(given),
    ),
  }),
});

const which = (t: InputFields) => ({ id: t.field({ type: 'CiPipelineScheduleID', required: true }) });

mutationField('pipelineScheduleUpdate', {
  description: 'Changes a pipeline schedule. Only its owner may.',
  input: (t) => ({ ...which(t), description: t.string(), cron: t.string(), ref: t.string(), ...optionFields(t) }),
  payload: { pipelineSchedule: ScheduleRef },
  run: async (ctx, { id, description, cron, ref, ...given }) => ({
    pipelineSchedule: await updateSchedule(
      ctx,
      await projectOf(ctx, id),
      id,
      {
        description: description ?? undefined,
        cron: cron ?? undefined,
        ref: ref ?? undefined,
        ...optionsOf(given),
      },
      variablesOf(given),
    ),
  }),
});

mutationField('pipelineScheduleTakeOwnership', {
  description: 'Makes the caller the owner of a pipeline schedule.',
  input: which,
  payload: { pipelineSchedule: ScheduleRef },
  run: async (ctx, { id }) => ({ pipelineSchedule: await takeOwnership(ctx, await projectOf(ctx, id), id) }),
});

mutationField('pipelineSchedulePlay', {
  description: 'Starts a pipeline of a schedule now, with the rights of the caller.',
  input: which,
  payload: { pipelineSchedule: ScheduleRef, pipeline: PipelineRef },
  run: async (ctx, { id }) => {
    const project = await projectOf(ctx, id);
    const pipeline = await playSchedule(ctx, project, id);
    return { pipeline, pipelineSchedule: await getSchedule(ctx, project, id) };
  },
});

mutationField('pipelineScheduleDelete', {
  description: 'Deletes a pipeline schedule.',
  input: which,
  payload: {},
  run: async (ctx, { id }) => {
    await deleteSchedule(ctx, await projectOf(ctx, id), id);
    return {};
  },
});
