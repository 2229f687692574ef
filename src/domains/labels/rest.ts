import { getPlace, type PlaceKind, requirePlaceAbility } from '#domains/planning/place.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, boolean, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { createLabel, deleteLabel, updateLabel } from './commands.ts';
import { getLabel, labelCountsByIds, listLabels } from './queries.ts';
import { labelRecord, toLabel } from './record.ts';

const tag = 'Labels';
const priority = integer({ min: 0, max: 2_147_483_647 }).nullish();
const description = text({ max: 10_000 }).nullish();
const one = { id: idOrPath(), name: text({ max: 255 }) };

type Place = '/groups/:id' | '/projects/:id';

/** The routes for groups and projects differ only in their place. */
const routesOf = (kind: PlaceKind, path: Place): Route[] => [
  listRoute({
    path: `${path}/labels`,
    tag,
    summary: `List the labels of a ${kind}`,
    auth: 'optional',
    paging: 'offset',
    input: {
      id: idOrPath(),
      with_counts: boolean().default(false),
      include_ancestor_groups: boolean().default(true),
      include_descendant_groups: boolean().default(false),
      search: text({ max: 1_000 }).optional(),
      archived: boolean().optional(),
    },
    item: labelRecord,
    run: async (ctx, { id, with_counts, ...filter }, page) => {
      const place = await getPlace(ctx, kind, id);
      requirePlaceAbility(ctx, place, 'read_label');
      const found = await readPage(listLabels(ctx, place, filter), page);
      const ids = found.items.map((label) => label.id);
      const counts = with_counts ? await labelCountsByIds(ctx, place, ids) : null;
      return { ...found, items: found.items.map((label) => toLabel(label, counts?.get(label.id))) };
    },
  }),
  route({
    method: 'GET',
    path: `${path}/labels/:name`,
    tag,
    summary: `Get a label of a ${kind}, by id or name`,
    auth: 'optional',
    input: { ...one, include_ancestor_groups: boolean().default(true) },
    response: labelRecord,
    run: async (ctx, { id, name, include_ancestor_groups }) => {
      const place = await getPlace(ctx, kind, id);
      requirePlaceAbility(ctx, place, 'read_label');
      const label = await getLabel(ctx, place, name, include_ancestor_groups);
      return toLabel(label, (await labelCountsByIds(ctx, place, [label.id])).get(label.id));
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
      toLabel(await createLabel(ctx, await getPlace(ctx, kind, id), { ...input, title: name })),
  }),
  ...changesOf(kind, `${path}/labels/:name`),
  // Older clients (python-gitlab) send the label's name in the body.
  ...changesOf(kind, `${path}/labels`),
];

const changesOf = (kind: PlaceKind, at: `${Place}/labels/:name` | `${Place}/labels`): Route[] => [
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
      const place = await getPlace(ctx, kind, id);
      requirePlaceAbility(ctx, place, 'read_label');
      const label = await getLabel(ctx, place, name, false);
      return toLabel(await updateLabel(ctx, place, label, { ...input, title: new_name }));
    },
  }),
  route({
    method: 'DELETE',
    path: at,
    tag,
    summary: `Delete a label of a ${kind}`,
    input: one,
    response: null,
    run: async (ctx, { id, name }) => {
      const place = await getPlace(ctx, kind, id);
      requirePlaceAbility(ctx, place, 'read_label');
      await deleteLabel(ctx, place, await getLabel(ctx, place, name, false));
    },
  }),
];

export const routes = [
  ...routesOf('group', '/groups/:id'),
  ...routesOf('project', '/projects/:id'),
] satisfies readonly Route[];
