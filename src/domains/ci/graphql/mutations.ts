import { CiVariableTypeEnum } from '#domains/ci-variables/graphql.ts';
import { getProject } from '#domains/projects/queries.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { jsonOrText } from '#graphql/json-or-text.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import {
  cancelJob,
  cancelPipeline,
  deletePipeline,
  playJob,
  retryJob,
  retryPipeline,
  unscheduleJob,
} from '../commands.ts';
import { createPipeline } from '../create.ts';
import { requestPipeline } from '../creation/requests.ts';
import { JobRef, PipelineRef } from '../graphql.ts';
import { jobsByIds, pipelinesByIds } from '../queries.ts';

const VariableInput = builder.inputType('CiVariableInput', {
  fields: (t) => ({
    key: t.string({ required: true }),
    value: t.string({ required: true }),
    variableType: t.field({ type: CiVariableTypeEnum, description: 'Only for pipelines.' }),
  }),
});

const InputInput = builder.inputType('CiInputsInput', {
  fields: (t) => ({
    name: t.string({ required: true }),
    value: t.string({ required: true, description: 'As JSON. A text that is not JSON is taken as it is.' }),
  }),
});

const ofPipeline = (t: InputFields) => ({ id: t.field({ type: 'CiPipelineID', required: true }) });
const ofJob = (t: InputFields) => ({ id: t.field({ type: 'JobID', required: true }) });

const projectOfPipeline = async (ctx: Context, id: number) => {
  const row = (await pipelinesByIds(ctx, [id])).get(id);
  if (!row) throw notFound('Pipeline');
  return getProject(ctx, { id: row.project_id });
};

const projectOfJob = async (ctx: Context, id: number) => {
  const row = (await jobsByIds(ctx, [id])).get(id);
  if (!row) throw notFound();
  return getProject(ctx, { id: row.project_id });
};

mutationField('pipelineCreate', {
  description: 'Runs the CI file of a branch or tag.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    ref: t.string({ required: true }),
    variables: t.field({ type: [VariableInput] }),
    inputs: t.field({ type: [InputInput] }),
    async: t.boolean({
      description:
        'True: the pipeline is created later. The answer has `requestId`, and `Project.ciPipelineCreationRequest` has the outcome.',
    }),
  }),
  payload: { pipeline: PipelineRef, requestId: 'String' },
  run: async (ctx, { projectPath, ref, variables, inputs, async }) => {
    const project = await getProject(ctx, { path: projectPath });
    const wanted = {
      ref,
      variables: (variables ?? []).map(({ key, value, variableType }) => ({
        ...{ key, value, variable_type: variableType ?? undefined },
      })),
      inputs: Object.fromEntries((inputs ?? []).map(({ name, value }) => [name, jsonOrText(value)])),
    };
    if (async) return { requestId: await requestPipeline(ctx, project, wanted) };
    return { pipeline: await createPipeline(ctx, project, { ...wanted, source: 'web' }) };
  },
});

mutationField('pipelineCancel', {
  description: 'Cancels the jobs of a pipeline.',
  input: ofPipeline,
  payload: { pipeline: PipelineRef },
  run: async (ctx, { id }) => ({ pipeline: await cancelPipeline(ctx, await projectOfPipeline(ctx, id), id) }),
});

mutationField('pipelineRetry', {
  description: 'Runs the failed and canceled jobs of a pipeline again.',
  input: ofPipeline,
  payload: { pipeline: PipelineRef },
  run: async (ctx, { id }) => ({ pipeline: await retryPipeline(ctx, await projectOfPipeline(ctx, id), id) }),
});

mutationField('pipelineDestroy', {
  description: 'Deletes a pipeline with its jobs and child pipelines.',
  input: ofPipeline,
  payload: {},
  run: async (ctx, { id }) => {
    await deletePipeline(ctx, await projectOfPipeline(ctx, id), id);
    return {};
  },
});

const withVariables = (t: InputFields) => ({ ...ofJob(t), variables: t.field({ type: [VariableInput] }) });

interface GivenVariable {
  readonly key: string;
  readonly value: string;
  readonly variableType?: string | null | undefined;
}

const variablesOf = (variables: readonly GivenVariable[] | null | undefined) =>
  (variables ?? []).map(({ key, value, variableType }) => {
    if (variableType != null) throw badRequest('variableType is only for pipelines');
    return { key, value };
  });

mutationField('jobPlay', {
  description: 'Starts a manual job, or a delayed one before its time.',
  input: withVariables,
  payload: { job: JobRef },
  run: async (ctx, { id, variables }) => ({
    job: await playJob(ctx, await projectOfJob(ctx, id), id, variablesOf(variables)),
  }),
});

mutationField('jobRetry', {
  description: 'Runs a job again. The answer has the new job.',
  input: withVariables,
  payload: { job: JobRef },
  run: async (ctx, { id, variables }) => ({
    job: await retryJob(ctx, await projectOfJob(ctx, id), id, variablesOf(variables)),
  }),
});

mutationField('jobCancel', {
  description: 'Cancels a job.',
  input: (t) => ({
    ...ofJob(t),
    force: t.boolean({
      description: 'Ends a job that is being canceled without waiting for its runner. Maintainers only.',
    }),
  }),
  payload: { job: JobRef },
  run: async (ctx, { id, force }) => ({
    job: await cancelJob(ctx, await projectOfJob(ctx, id), id, { force: force ?? false }),
  }),
});

mutationField('jobUnschedule', {
  description: 'Turns a delayed job into a manual one.',
  input: ofJob,
  payload: { job: JobRef },
  run: async (ctx, { id }) => ({ job: await unscheduleJob(ctx, await projectOfJob(ctx, id), id) }),
});
