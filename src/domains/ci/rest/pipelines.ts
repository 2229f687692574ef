import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { hasOnlyTexts } from '#rest/only-texts.ts';
import { anyHash, hash, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { cancelPipeline, deletePipeline, getPipelineVariables, renamePipeline, retryPipeline } from '../commands.ts';
import { createPipeline } from '../create.ts';
import { pipelineRecord, toPipeline } from '../record.ts';

const tag = 'Pipelines';
const ofPipeline = { id: idOrPath(), pipeline_id: integer({ min: 1 }) };

const variableRecord = z
  .object({
    key: z.string(),
    value: z.string().nullable().describe('Null if it was encrypted with a lost key.'),
    variable_type: z.string(),
    raw: z.boolean(),
  })
  .meta({ id: 'PipelineVariable' });

export const pipelineRoutes = [
  route({
    method: 'POST',
    path: '/projects/:id/pipeline',
    tag,
    summary: 'Create a pipeline',
    description:
      'Runs the CI file of the branch or tag. `variables` needs the role that the project setting `ci_pipeline_variables_minimum_override_role` names, if `restrict_user_defined_variables` is set.',
    input: {
      id: idOrPath(),
      ref: text({ max: 1_000 }).describe('A branch or tag.'),
      variables: list(
        hash({ key: text(), value: text(), variable_type: oneOf(['env_var', 'file']).default('env_var') }),
      )
        .default([])
        .describe('At most 1,000, with values of at most 10,000 characters.'),
      inputs: anyHash().optional().describe('Values for `spec:inputs` of the CI file.'),
    },
    response: pipelineRecord,
    run: async (ctx, { id, ...wanted }, http) => {
      const project = await getProject(ctx, id);
      const given = { ...wanted, inputs_are_texts: hasOnlyTexts(http) };
      return toPipeline(ctx, await createPipeline(ctx, project, { ...given, source: 'api' }));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/pipelines/:pipeline_id/variables',
    tag,
    summary: 'Get the variables that were given to a pipeline',
    input: ofPipeline,
    response: z.array(variableRecord),
    run: async (ctx, { id, pipeline_id }) => [
      ...(await getPipelineVariables(ctx, await getProject(ctx, id), pipeline_id)),
    ],
  }),
  route({
    method: 'POST',
    path: '/projects/:id/pipelines/:pipeline_id/retry',
    tag,
    summary: 'Run the failed and canceled jobs of a pipeline again',
    input: ofPipeline,
    response: pipelineRecord,
    run: async (ctx, { id, pipeline_id }) =>
      toPipeline(ctx, await retryPipeline(ctx, await getProject(ctx, id), pipeline_id)),
  }),
  route({
    method: 'POST',
    path: '/projects/:id/pipelines/:pipeline_id/cancel',
    tag,
    summary: 'Cancel the jobs of a pipeline',
    status: 200,
    input: ofPipeline,
    response: pipelineRecord,
    run: async (ctx, { id, pipeline_id }) =>
      toPipeline(ctx, await cancelPipeline(ctx, await getProject(ctx, id), pipeline_id)),
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/pipelines/:pipeline_id/metadata',
    tag,
    summary: 'Rename a pipeline',
    jobTokens: true,
    input: { ...ofPipeline, name: text() },
    response: pipelineRecord,
    run: async (ctx, { id, pipeline_id, name }) =>
      toPipeline(ctx, await renamePipeline(ctx, await getProject(ctx, id), pipeline_id, name)),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/pipelines/:pipeline_id',
    tag,
    summary: 'Delete a pipeline with its jobs and child pipelines',
    refusals: MODIFIED,
    input: ofPipeline,
    response: null,
    run: async (ctx, { id, pipeline_id }, http) =>
      deletePipeline(ctx, await getProject(ctx, id), pipeline_id, unmodifiedSince(http)),
  }),
] satisfies readonly Route[];
