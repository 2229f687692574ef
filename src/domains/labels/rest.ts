import { type ContainerKind, getContainer } from '#domains/planning/container.ts';
import { subscribe, subscribedAmong } from '#domains/planning/subscriptions.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import type { Input } from '#rest/input.ts';
import { atLeastOneOf, boolean, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { createLabel, deleteLabel, updateLabel } from './commands.ts';
import { promoteLabel } from './promotion.ts';
import { getLabelAt, type LabelCounts, type LabelRow, labelCountsByIds, listLabels } from './queries.ts';
import { labelRecord, toLabel, toLabels } from './record.ts';

const tag = 'Labels';
const priority = integer({ min: 0, max: 2_147_483_647 }).nullish();
const description = text({ max: 10_000 }).nullish();
const one = { id: idOrPath(), name: text({ max: 255 }) };

type Container = '/groups/:id' | '/projects/:id';

const listInput = {
  id: idOrPath(),
  with_counts: boolean().default(false),
  include_ancestor_groups: boolean().default(true),
  search: text({ max: 1_000 }).optional(),
  archived: boolean().optional(),
};
const listing = { tag, auth: 'optional', paging: 'offset', item: labelRecord } as const;

const labelPage = async (
  ctx: Context,
  kind: ContainerKind,
  { id, with_counts, ...filter }: Input<typeof listInput> & { readonly include_descendant_groups?: boolean },
  page: PageRequest,
) => {
  const container = await getContainer(ctx, kind, id);
  const found = await readPage(listLabels(ctx, container, filter), page);
  const ids = found.items.map((label) => label.id);
  const counts = with_counts ? await labelCountsByIds(ctx, container, ids) : null;
  const subscribed = await subscribedAmong(ctx, 'label', ids);
  return {
    ...found,
    items: await toLabels(ctx, found.items, { subscribed, counts }),
  };
};

/** Only groups have groups below them. */
const listRoutes = [
  listRoute({
    ...listing,
    path: '/groups/:id/labels',
    summary: 'List the labels of a group',
    input: { ...listInput, include_descendant_groups: boolean().default(false) },
    run: (ctx, input, page) => labelPage(ctx, 'group', input, page),
  }),
  listRoute({
    ...listing,
    path: '/projects/:id/labels',
    summary: 'List the labels of a project',
    input: listInput,
    run: (ctx, input, page) => labelPage(ctx, 'project', input, page),
  }),
] satisfies readonly Route[];

/** The other routes for groups and projects differ only in their container. */
const routesOf = (kind: ContainerKind, path: Container): Route[] => [
  route({
    method: 'GET',
    path: `${path}/labels/:name`,
    tag,
    summary: `Get a label of a ${kind}, by id or name`,
    auth: 'optional',
    input: { ...one, include_ancestor_groups: boolean().default(true) },
    response: labelRecord,
    run: async (ctx, { id, name, include_ancestor_groups }) => {
      const { container, label } = await getLabelAt(ctx, kind, id, name, include_ancestor_groups);
      return labelFor(ctx, label, await labelCountsByIds(ctx, container, [label.id]));
    },
  }),
  route({
    method: 'POST',
    path: `${path}/labels`,
    tag,
    summary: `Create a label of a ${kind}`,
    input: { id: idOrPath(), name: text({ max: 255 }), color: text({ max: 30 }), description, priority },
    response: labelRecord,
    run: async (ctx, { id, name, ...input }) =>
      labelFor(ctx, await createLabel(ctx, await getContainer(ctx, kind, id), { ...input, title: name })),
  }),
  ...changesOf(kind, `${path}/labels/:name`),
  // Older clients (python-gitlab) send the label's name in the body.
  ...changesOf(kind, `${path}/labels`),
  subscription(kind, path, true),
  subscription(kind, path, false),
];

function subscription(kind: ContainerKind, path: Container, wanted: boolean): Route {
  return route({
    method: 'POST',
    path: `${path}/labels/:name/${wanted ? 'subscribe' : 'unsubscribe'}`,
    tag,
    summary: wanted ? `Subscribe to a label of a ${kind}` : `Unsubscribe from a label of a ${kind}`,
    description: wanted ? '304 when the caller is subscribed already.' : '304 when the caller is not subscribed.',
    input: one,
    response: labelRecord,
    run: async (ctx, { id, name }, http) => {
      const { label } = await getLabelAt(ctx, kind, id, name);
      if (!(await subscribe(ctx, 'label', label, wanted))) http.setStatus(304);
      return labelFor(ctx, label);
    },
  });
}

/** The second path is for older clients (python-gitlab), which send the label's name in the body. */
const promotionRoutes = (['/projects/:id/labels/:name/promote', '/projects/:id/labels/promote'] as const).map((path) =>
  route({
    method: 'PUT',
    path,
    tag,
    summary: 'Turn a label of a project into a label of its group',
    description:
      'Labels with the same title in other projects below the group are merged into it. Answers 409 if a group has one.',
    input: one,
    response: labelRecord,
    run: async (ctx, { id, name }) => labelFor(ctx, await promoteLabel(ctx, await getProject(ctx, id), name)),
  }),
);

const labelFor = async (ctx: Context, label: LabelRow, counts?: ReadonlyMap<number, LabelCounts>) => {
  const subscribed = await subscribedAmong(ctx, 'label', [label.id]);
  return toLabel(ctx, label, { subscribed, counts });
};

const changesOf = (kind: ContainerKind, at: `${Container}/labels/:name` | `${Container}/labels`): Route[] => [
  route({
    method: 'PUT',
    path: at,
    tag,
    summary: `Change a label of a ${kind}`,
    input: {
      ...one,
      new_name: text({ max: 255 }).optional(),
      color: text({ max: 30 }).optional(),
      description,
      priority,
      archived: boolean().optional(),
    },
    rules: [atLeastOneOf('new_name', 'color', 'description', 'priority', 'archived')],
    response: labelRecord,
    run: async (ctx, { id, name, new_name, ...input }) => {
      const { container, label } = await getLabelAt(ctx, kind, id, name, false);
      const changed = await updateLabel(ctx, container, label, { ...input, title: new_name });
      return labelFor(ctx, changed);
    },
  }),
  route({
    method: 'DELETE',
    path: at,
    tag,
    summary: `Delete a label of a ${kind}`,
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id, name }, http) => {
      const { container, label } = await getLabelAt(ctx, kind, id, name, false);
      await deleteLabel(ctx, container, label, unmodifiedSince(http));
    },
  }),
];

export const routes = [
  ...listRoutes,
  ...routesOf('group', '/groups/:id'),
  ...routesOf('project', '/projects/:id'),
  ...promotionRoutes,
] satisfies readonly Route[];
