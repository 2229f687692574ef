import { type ContainerKind, getContainer } from '#domains/planning/container.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import type { Input } from '#rest/input.ts';
import { atLeastOneOf, boolean, commaList, date, dateTime, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { createMilestone, deleteMilestone, promoteMilestone, updateMilestone } from './commands.ts';
import { MILESTONE_STATE_EVENTS, MILESTONE_STATES } from './model.ts';
import { getMilestoneAt, listMilestones } from './queries.ts';
import { milestoneRecord, toMilestone } from './record.ts';

const tag = 'Milestones';
const one = { id: idOrPath(), milestone_id: integer() };
const details = {
  description: text({ max: 1_048_576 }).nullish(),
  due_date: date().nullish(),
  start_date: date().nullish(),
};

const listInput = {
  id: idOrPath(),
  iids: commaList(integer(), { max: 1_000 }).optional(),
  state: oneOf([...MILESTONE_STATES, 'all']).optional(),
  title: text({ max: 255 }).optional(),
  search: text({ max: 1_000 }).optional(),
  include_ancestors: boolean().default(false),
  include_parent_milestones: boolean().optional().describe('The older name of `include_ancestors`.'),
  updated_after: dateTime().optional(),
  updated_before: dateTime().optional(),
};
const listing = { tag, auth: 'optional', paging: 'offset', item: milestoneRecord } as const;

const milestonePage = async (
  ctx: Context,
  kind: ContainerKind,
  input: Input<typeof listInput> & { readonly include_descendants?: boolean },
  page: PageRequest,
) => {
  const { id, state, include_parent_milestones, ...filter } = input;
  const list = listMilestones(ctx, await getContainer(ctx, kind, id), {
    ...filter,
    include_ancestors: include_parent_milestones ?? filter.include_ancestors,
    state: state === 'all' ? null : state,
  });
  const found = await readPage(list, page);
  return { ...found, items: found.items.map((milestone) => toMilestone(ctx, milestone)) };
};

/** Only groups have groups below them. */
const listRoutes = [
  listRoute({
    ...listing,
    path: '/groups/:id/milestones',
    summary: 'List the milestones of a group',
    input: { ...listInput, include_descendants: boolean().default(false) },
    run: (ctx, input, page) => milestonePage(ctx, 'group', input, page),
  }),
  listRoute({
    ...listing,
    path: '/projects/:id/milestones',
    summary: 'List the milestones of a project',
    input: listInput,
    run: (ctx, input, page) => milestonePage(ctx, 'project', input, page),
  }),
] satisfies readonly Route[];

/** The other routes for groups and projects differ only in their container. */
const routesOf = (kind: ContainerKind, path: '/groups/:id' | '/projects/:id'): Route[] => [
  route({
    method: 'GET',
    path: `${path}/milestones/:milestone_id`,
    tag,
    summary: `Get a milestone of a ${kind}`,
    auth: 'optional',
    input: one,
    response: milestoneRecord,
    run: async (ctx, { id, milestone_id }) =>
      toMilestone(ctx, (await getMilestoneAt(ctx, kind, id, milestone_id)).milestone),
  }),
  route({
    method: 'POST',
    path: `${path}/milestones`,
    tag,
    summary: `Create a milestone of a ${kind}`,
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { id: idOrPath(), title: text({ max: 255 }), ...details },
    response: milestoneRecord,
    run: async (ctx, { id, ...input }) =>
      toMilestone(ctx, await createMilestone(ctx, await getContainer(ctx, kind, id), input)),
  }),
  route({
    method: 'PUT',
    path: `${path}/milestones/:milestone_id`,
    tag,
    summary: `Change, close or activate a milestone of a ${kind}`,
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      ...one,
      ...details,
      title: text({ max: 255 }).optional(),
      state_event: oneOf(MILESTONE_STATE_EVENTS).optional(),
    },
    rules: [atLeastOneOf('title', 'description', 'due_date', 'start_date', 'state_event')],
    response: milestoneRecord,
    run: async (ctx, { id, milestone_id, ...input }) => {
      const { container, milestone } = await getMilestoneAt(ctx, kind, id, milestone_id);
      return toMilestone(ctx, await updateMilestone(ctx, container, milestone, input));
    },
  }),
  route({
    method: 'DELETE',
    path: `${path}/milestones/:milestone_id`,
    tag,
    summary: `Delete a milestone of a ${kind}`,
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id, milestone_id }, http) => {
      const { container, milestone } = await getMilestoneAt(ctx, kind, id, milestone_id);
      await deleteMilestone(ctx, container, milestone, unmodifiedSince(http));
    },
  }),
];

const promotion = route({
  method: 'POST',
  path: '/projects/:id/milestones/:milestone_id/promote',
  tag,
  summary: 'Turn a milestone of a project into one of its group',
  description: 'Its issues and merge requests keep it. Refused if a milestone of the group has its title.',
  status: 200,
  input: one,
  response: milestoneRecord,
  run: async (ctx, { id, milestone_id }) =>
    toMilestone(ctx, await promoteMilestone(ctx, await getProject(ctx, id), milestone_id)),
});

export const routes = [
  promotion,
  ...listRoutes,
  ...routesOf('group', '/groups/:id'),
  ...routesOf('project', '/projects/:id'),
] satisfies readonly Route[];
