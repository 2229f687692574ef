import { getGroup } from '#domains/groups/queries.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { only } from '#platform/values/only.ts';
import { atLeastOneOf, boolean, commaList, exclusive, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { type Exchange, listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { changedInV5, removedInV5 } from '#rest/v5.ts';
import { assignRunner, deleteRunner, resetRunnerToken, unassignRunner, updateRunner } from '../management.ts';
import { listManagers } from '../manager-queries.ts';
import { CONTACT_STATUSES, RUNNER_ACCESS_LEVELS, RUNNER_TYPES, type RunnerStatus, type RunnerType } from '../model.ts';
import { getRunner, listRunners, type RunnersOf } from '../queries.ts';
import { managerRecord, runnerDetailRecord, runnerRecord, toManager, toRunnerDetail, toRunners } from '../record.ts';
import { createdRunnerRecord } from '../rest.ts';

const tag = 'Runners';
const paging = 'offset';
const one = { id: integer({ min: 1 }) };

const STATUSES = ['online', 'offline', 'stale', 'never_contacted', 'not_connected', 'active', 'paused'] as const;

const filters = {
  type: oneOf(RUNNER_TYPES).optional(),
  status: changedInV5(
    oneOf(STATUSES)
      .optional()
      .describe('`not_connected` means `never_contacted`. `active` and `paused` are older forms of `paused`.'),
    {
      note: `must be one of ${CONTACT_STATUSES.join(', ')}: use \`paused\` for the rest`,
      to: oneOf(CONTACT_STATUSES).optional().describe('The last contact.'),
    },
  ),
  paused: boolean().optional(),
  tag_list: commaList(text()).optional().describe('Runners that have all of these tags.'),
};

interface Filters {
  readonly type?: RunnerType | undefined;
  readonly status?: (typeof STATUSES)[number] | undefined;
  readonly paused?: boolean | undefined;
  readonly tag_list?: readonly string[] | undefined;
}

const pageOfRunners = async (
  ctx: Context,
  of: RunnersOf,
  { type, status, paused, tag_list }: Filters,
  page: PageRequest,
  { apiVersion }: Exchange,
) => {
  const isState = status === 'active' || status === 'paused';
  const list = listRunners(ctx, of, {
    type,
    ...(apiVersion === 5
      ? { contact: CONTACT_STATUSES.find((each) => each === status) }
      : { status: statusOf(status) }),
    paused: paused ?? (isState ? status === 'paused' : undefined),
    tags: tag_list,
  });
  const found = await readPage(list, page);
  return { ...found, items: await toRunners(ctx, found.items) };
};

const statusOf = (status: (typeof STATUSES)[number] | undefined): RunnerStatus | undefined => {
  if (status === 'active' || status === 'paused') return undefined;
  return status === 'not_connected' ? 'never_contacted' : status;
};

const changes = {
  description: text().nullish(),
  active: removedInV5(boolean().optional().describe('The opposite of `paused`.'), { replacedBy: 'paused' }),
  paused: boolean().optional(),
  locked: boolean().optional(),
  run_untagged: boolean().optional(),
  tag_list: commaList(text()).optional(),
  access_level: oneOf(RUNNER_ACCESS_LEVELS).optional(),
  maximum_timeout: integer({ max: 2_147_483_647 }).nullish(),
  maintenance_note: text().nullish(),
};
const changeRules = [
  exclusive('active', 'paused'),
  atLeastOneOf(
    ...(['description', 'active', 'paused', 'locked', 'run_untagged', 'tag_list'] as const),
    ...(['access_level', 'maximum_timeout', 'maintenance_note'] as const),
  ),
] as const;

export const runnerManagementRoutes = [
  listRoute({
    path: '/runners',
    tag,
    summary: 'List the runners of your groups and projects',
    description: 'Those of the groups that the caller owns, and of the projects that they maintain.',
    paging,
    input: filters,
    item: runnerRecord,
    run: (ctx, input, page, http) => pageOfRunners(ctx, { kind: 'mine' }, input, page, http),
  }),
  listRoute({
    path: '/runners/all',
    tag,
    summary: 'List all runners',
    admin: true,
    paging,
    input: filters,
    item: runnerRecord,
    run: (ctx, input, page, http) => pageOfRunners(ctx, { kind: 'all' }, input, page, http),
  }),
  listRoute({
    path: '/projects/:id/runners',
    tag,
    summary: 'List the runners that may take jobs of a project',
    paging,
    input: { ...filters, id: idOrPath() },
    item: runnerRecord,
    run: async (ctx, { id, ...input }, page, http) =>
      pageOfRunners(ctx, { kind: 'project', project: await getProject(ctx, id) }, input, page, http),
  }),
  listRoute({
    path: '/groups/:id/runners',
    tag,
    summary: 'List the runners of a group, and those that it inherits',
    paging,
    input: { ...filters, id: idOrPath() },
    item: runnerRecord,
    run: async (ctx, { id, ...input }, page, http) =>
      pageOfRunners(ctx, { kind: 'group', group: await getGroup(ctx, id) }, input, page, http),
  }),
  route({
    method: 'GET',
    path: '/runners/:id',
    tag,
    summary: 'Get a runner',
    input: one,
    response: runnerDetailRecord,
    run: async (ctx, { id }) => toRunnerDetail(ctx, await getRunner(ctx, id)),
  }),
  route({
    method: 'PUT',
    path: '/runners/:id',
    tag,
    summary: 'Change a runner',
    description: '`locked` only affects project runners.',
    input: { ...one, ...changes },
    rules: changeRules,
    response: runnerDetailRecord,
    run: async (ctx, { id, active, paused, ...input }) =>
      toRunnerDetail(
        ctx,
        await updateRunner(ctx, id, { ...input, paused: paused ?? (active === undefined ? undefined : !active) }),
      ),
  }),
  route({
    method: 'DELETE',
    path: '/runners/:id',
    tag,
    summary: 'Delete a runner',
    description: 'Its token ends. Only administrators delete a runner that serves more than one project.',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id }, http) => deleteRunner(ctx, id, unmodifiedSince(http)),
  }),
  listRoute({
    path: '/runners/:id/managers',
    tag,
    summary: 'List the processes that run jobs with the token of a runner',
    paging,
    input: one,
    item: managerRecord,
    run: async (ctx, { id }, page) => {
      const runner = await getRunner(ctx, id);
      const found = await readPage(listManagers(ctx, runner.id), page);
      return { ...found, items: found.items.map(toManager) };
    },
  }),
  route({
    method: 'POST',
    path: '/runners/:id/reset_authentication_token',
    tag,
    summary: 'Replace the authentication token of a runner',
    description: 'The old token ends at once.',
    input: one,
    response: createdRunnerRecord.omit({ id: true }).meta({ id: 'RunnerToken' }),
    run: async (ctx, { id }) => {
      const { token, token_expires_at } = await resetRunnerToken(ctx, id);
      return { token, token_expires_at: isoTime(token_expires_at) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/runners',
    tag,
    summary: 'Let a project runner take jobs of another project',
    description: 'The caller maintains both projects, and the runner is not locked.',
    input: { id: idOrPath(), runner_id: integer({ min: 1 }) },
    response: runnerRecord,
    run: async (ctx, { id, runner_id }) =>
      only(await toRunners(ctx, [await assignRunner(ctx, await getProject(ctx, id), runner_id)])),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/runners/:runner_id',
    tag,
    summary: 'Take a project from a project runner',
    description: 'Not from the project that owns the runner: delete the runner instead.',
    input: { id: idOrPath(), runner_id: integer({ min: 1 }) },
    response: null,
    run: async (ctx, { id, runner_id }) => unassignRunner(ctx, await getProject(ctx, id), runner_id),
  }),
] satisfies readonly Route[];
