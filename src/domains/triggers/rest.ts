import { z } from 'zod';
import { pipelineRecord, toPipeline } from '#domains/ci/record.ts';
import { getProject } from '#domains/projects/queries.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { badParameters } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { only } from '#platform/values/only.ts';
import { hasOnlyTexts } from '#rest/only-texts.ts';
import { anyHash, idOrPath, integer, text } from '#rest/params.ts';
import { type Exchange, listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { createTrigger, deleteTrigger, updateTrigger } from './commands.ts';
import { type Firing, fireTrigger } from './firing.ts';
import { shownToken, type TriggerRow } from './model.ts';
import { getTrigger, listTriggers } from './queries.ts';

const tag = 'Pipeline triggers';
const one = { id: idOrPath(), trigger_id: integer({ min: 1 }) };

const triggerRecord = z
  .object({
    id: z.int(),
    token: z.string().nullable().describe('Whole only for the owner. Null if it was encrypted with a lost key.'),
    description: z.string(),
    created_at: z.string(),
    updated_at: z.string(),
    last_used: z.string().nullable(),
    owner: userBasicRecord.nullable(),
  })
  .meta({ id: 'PipelineTrigger' });

const toTriggers = async (ctx: Context, rows: readonly TriggerRow[]): Promise<z.output<typeof triggerRecord>[]> => {
  const users = await userBasicsByIds(
    ctx,
    rows.map(({ owner_id }) => owner_id),
  );
  return rows.map((row) => {
    return {
      id: row.id,
      token: shownToken(ctx, row),
      description: row.description,
      created_at: isoTime(row.created_at),
      updated_at: isoTime(row.updated_at),
      last_used: isoTime(row.last_used_at),
      owner: users.get(row.owner_id) ?? null,
    };
  });
};

const toTrigger = async (ctx: Context, row: TriggerRow): Promise<z.output<typeof triggerRecord>> =>
  only(await toTriggers(ctx, [row]));

const firing = {
  token: text({ max: 255 }).describe('Of a trigger of the project, or of a running job.'),
  variables: z.unknown().optional().describe('`variables[KEY]=value`. Variables of the pipeline.'),
  inputs: anyHash().optional().describe('`inputs[name]=value`. Inputs of the CI file.'),
};

const fire = async (
  ctx: Context,
  {
    id,
    variables,
    ...rest
  }: Omit<Firing, 'variables'> & { readonly id: Parameters<typeof fireTrigger>[1]; readonly variables?: unknown },
  http: Exchange,
) => {
  if (variables !== undefined && (typeof variables !== 'object' || variables === null || Array.isArray(variables)))
    throw badParameters('variables needs to be a map of key-valued strings');
  const given = {
    ...rest,
    inputs_are_texts: hasOnlyTexts(http),
    variables: variables && { ...variables },
    hook: http.headers['x-gitlab-event']?.toString(),
  };
  return toPipeline(ctx, await fireTrigger(ctx, id, given));
};

export const routes: readonly Route[] = [
  listRoute({
    path: '/projects/:id/triggers',
    tag,
    summary: 'List the pipeline triggers of a project',
    paging: 'offset',
    input: { id: idOrPath() },
    item: triggerRecord,
    run: async (ctx, { id }, page) => {
      const found = await readPage(listTriggers(ctx, await getProject(ctx, id)), page);
      return { ...found, items: await toTriggers(ctx, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/triggers',
    tag,
    summary: 'Create a pipeline trigger',
    description: 'Its pipelines run with the rights of the caller.',
    input: { id: idOrPath(), description: text() },
    response: triggerRecord,
    run: async (ctx, { id, description }) =>
      toTrigger(ctx, await createTrigger(ctx, await getProject(ctx, id), description)),
  }),
  route({
    method: 'GET',
    path: '/projects/:id/triggers/:trigger_id',
    tag,
    summary: 'Get a pipeline trigger',
    input: one,
    response: triggerRecord,
    run: async (ctx, { id, trigger_id }) =>
      toTrigger(ctx, await getTrigger(ctx, await getProject(ctx, id), trigger_id)),
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/triggers/:trigger_id',
    tag,
    summary: 'Change a pipeline trigger',
    description: 'Only its owner may.',
    input: { ...one, description: text().optional() },
    response: triggerRecord,
    run: async (ctx, { id, trigger_id, description }) =>
      toTrigger(ctx, await updateTrigger(ctx, await getProject(ctx, id), trigger_id, description)),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/triggers/:trigger_id',
    tag,
    summary: 'Delete a pipeline trigger',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id, trigger_id }, http) =>
      deleteTrigger(ctx, await getProject(ctx, id), trigger_id, unmodifiedSince(http)),
  }),
  ...(['/projects/:id/trigger/pipeline', '/projects/:id/ref/:ref/trigger/pipeline'] as const).map((path) =>
    route({
      method: 'POST',
      path,
      tag,
      summary: 'Start a pipeline with a token',
      description: 'The pipeline runs with the rights of the owner of the trigger, or of the user of the job.',
      auth: 'optional',
      jobTokens: true,
      input: { id: idOrPath(), ref: text({ max: 1_000 }).describe('A branch or tag.'), ...firing },
      response: pipelineRecord,
      run: (ctx, input, http) => fire(ctx, input, http),
    }),
  ),
];
