import { z } from 'zod';
import { listPipelines } from '#domains/ci/queries.ts';
import { pipelineListRecord, toPipelineListed } from '#domains/ci/record.ts';
import { VARIABLE_TYPES } from '#domains/ci-variables/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, hash, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import {
  createSchedule,
  createScheduleVariable,
  deleteSchedule,
  deleteScheduleVariable,
  playSchedule,
  takeOwnership,
  updateSchedule,
  updateScheduleVariable,
} from './commands.ts';
import { MAX_INPUTS, SCHEDULE_SCOPES } from './model.ts';
import { getSchedule, listSchedules } from './queries.ts';
import {
  scheduleDetailsRecord,
  scheduleRecord,
  scheduleVariableRecord,
  toScheduleDetails,
  toSchedules,
  toScheduleVariable,
} from './record.ts';

const tag = 'Pipeline schedules';
const one = { id: idOrPath(), pipeline_schedule_id: integer({ min: 1 }) };
const variable = { ...one, key: text({ max: 255 }) };
const variable_type = oneOf(VARIABLE_TYPES).optional();
const cron = text().describe('Five fields: minute, hour, day of the month, month, day of the week.');
const options = {
  cron_timezone: text().optional().describe('`UTC` by default. An IANA name, or a name of Rails.'),
  active: boolean().optional(),
  inputs: list(hash({ name: text({ max: 255 }), value: z.unknown().optional(), destroy: boolean().optional() }), {
    max: MAX_INPUTS,
  })
    .optional()
    .describe('Inputs of the CI file. An update keeps those that it does not name.'),
};

export const routes: readonly Route[] = [
  listRoute({
    path: '/projects/:id/pipeline_schedules',
    tag,
    summary: 'List the pipeline schedules of a project',
    auth: 'optional',
    paging: 'offset',
    input: { id: idOrPath(), scope: oneOf(SCHEDULE_SCOPES).optional() },
    item: scheduleRecord,
    run: async (ctx, { id, scope }, page) => {
      const found = await readPage(listSchedules(ctx, await getProject(ctx, id), { scope }), page);
      return { ...found, items: await toSchedules(ctx, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/pipeline_schedules',
    tag,
    summary: 'Create a pipeline schedule',
    description: 'Its pipelines run with the rights of the caller.',
    input: { id: idOrPath(), description: text(), ref: text({ max: 1_000 }), cron, ...options },
    response: scheduleDetailsRecord,
    run: async (ctx, { id, ...given }) => {
      const project = await getProject(ctx, id);
      return toScheduleDetails(ctx, project, await createSchedule(ctx, project, given));
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id',
    tag,
    summary: 'Get a pipeline schedule',
    auth: 'optional',
    input: one,
    response: scheduleDetailsRecord,
    run: async (ctx, { id, pipeline_schedule_id }) => {
      const project = await getProject(ctx, id);
      return toScheduleDetails(ctx, project, await getSchedule(ctx, project, pipeline_schedule_id));
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id',
    tag,
    summary: 'Change a pipeline schedule',
    description: 'Only its owner may.',
    input: {
      ...one,
      description: text().optional(),
      ref: text({ max: 1_000 }).optional(),
      cron: cron.optional(),
      ...options,
    },
    response: scheduleDetailsRecord,
    run: async (ctx, { id, pipeline_schedule_id, ...given }) => {
      const project = await getProject(ctx, id);
      return toScheduleDetails(ctx, project, await updateSchedule(ctx, project, pipeline_schedule_id, given));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id',
    tag,
    summary: 'Delete a pipeline schedule',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id, pipeline_schedule_id }, http) => {
      await deleteSchedule(ctx, await getProject(ctx, id), pipeline_schedule_id, unmodifiedSince(http));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id/take_ownership',
    tag,
    summary: 'Become the owner of a pipeline schedule',
    input: one,
    response: scheduleDetailsRecord,
    run: async (ctx, { id, pipeline_schedule_id }) => {
      const project = await getProject(ctx, id);
      return toScheduleDetails(ctx, project, await takeOwnership(ctx, project, pipeline_schedule_id));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id/play',
    tag,
    summary: 'Start a pipeline of a schedule now',
    description: 'With the rights of the caller, and at most once a minute.',
    input: one,
    response: z.object({ message: z.string() }).meta({ id: 'PlayedPipelineSchedule' }),
    run: async (ctx, { id, pipeline_schedule_id }) => {
      await playSchedule(ctx, await getProject(ctx, id), pipeline_schedule_id);
      return { message: '201 Created' };
    },
  }),
  listRoute({
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id/pipelines',
    tag,
    summary: 'List the pipelines that a schedule started',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: pipelineListRecord,
    run: async (ctx, { id, pipeline_schedule_id }, page) => {
      const project = await getProject(ctx, id);
      const { id: schedule_id } = await getSchedule(ctx, project, pipeline_schedule_id);
      const found = await readPage(listPipelines(ctx, project, { schedule_id, sort: 'asc' }), page);
      return { ...found, items: found.items.map((row) => toPipelineListed(ctx, row)) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id/variables',
    tag,
    summary: 'Create a variable of a pipeline schedule',
    input: { ...one, key: text(), value: text(), variable_type },
    response: scheduleVariableRecord,
    run: async (ctx, { id, pipeline_schedule_id, ...given }) =>
      toScheduleVariable(
        ctx,
        await createScheduleVariable(ctx, await getProject(ctx, id), pipeline_schedule_id, given),
      ),
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id/variables/:key',
    tag,
    summary: 'Change a variable of a pipeline schedule',
    input: { ...variable, value: text().optional(), variable_type },
    response: scheduleVariableRecord,
    run: async (ctx, { id, pipeline_schedule_id, ...given }) =>
      toScheduleVariable(
        ctx,
        await updateScheduleVariable(ctx, await getProject(ctx, id), pipeline_schedule_id, given),
      ),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/pipeline_schedules/:pipeline_schedule_id/variables/:key',
    tag,
    summary: 'Delete a variable of a pipeline schedule',
    status: 202,
    input: variable,
    response: scheduleVariableRecord,
    run: async (ctx, { id, pipeline_schedule_id, key }) =>
      toScheduleVariable(ctx, await deleteScheduleVariable(ctx, await getProject(ctx, id), pipeline_schedule_id, key)),
  }),
];
