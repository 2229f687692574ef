import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { type PageRequest, readPage } from '#platform/paging.ts';
import { only } from '#platform/values/only.ts';
import { idOrPath, integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { getResourceEvent, listResourceEvents, type ResourceEventKind } from '../history.ts';
import { eventRecords, toLabelEvents, toMilestoneEvents, toStateEvents } from '../record.ts';
import type { Tracked } from '../tracked.ts';

const place = { id: idOrPath(), iid: integer({ min: 1, max: 2_147_483_647 }) };

type TrackedPath = `/projects/:id/${'issues' | 'merge_requests'}/:iid`;
interface Named {
  readonly id: IdOrPath;
  readonly iid: number;
}
interface NamedEvent extends Named {
  readonly event_id: number;
}
type Find = (ctx: Context, input: Named) => Promise<Tracked>;

/** The resource events of an issue or a merge request. */
export const eventRoutes = (at: TrackedPath, tag: string, what: string, find: Find): Route[] => {
  const all = <const K extends ResourceEventKind>(kind: K) =>
    ({
      path: `${at}/resource_${kind}_events`,
      tag,
      summary: `List the ${kind} events of ${what}`,
      description: 'Oldest first.',
      auth: 'optional',
      paging: 'offset',
      input: place,
      item: eventRecords[kind],
    }) as const;
  const single = <const K extends ResourceEventKind>(kind: K) =>
    ({
      method: 'GET',
      path: `${at}/resource_${kind}_events/:event_id`,
      tag,
      summary: `Get a ${kind} event of ${what}`,
      auth: 'optional',
      input: { ...place, event_id: integer() },
      response: eventRecords[kind],
    }) as const;
  const page = async (ctx: Context, input: Named, kind: ResourceEventKind, request: PageRequest) =>
    readPage(listResourceEvents(ctx, await find(ctx, input), kind), request);
  const row = async (ctx: Context, input: NamedEvent, kind: ResourceEventKind) => [
    await getResourceEvent(ctx, await find(ctx, input), kind, input.event_id),
  ];
  return [
    listRoute({
      ...all('state'),
      run: async (ctx, input, request) => {
        const found = await page(ctx, input, 'state', request);
        return { ...found, items: await toStateEvents(ctx, found.items) };
      },
    }),
    listRoute({
      ...all('label'),
      run: async (ctx, input, request) => {
        const found = await page(ctx, input, 'label', request);
        return { ...found, items: await toLabelEvents(ctx, found.items) };
      },
    }),
    listRoute({
      ...all('milestone'),
      run: async (ctx, input, request) => {
        const found = await page(ctx, input, 'milestone', request);
        return { ...found, items: await toMilestoneEvents(ctx, found.items) };
      },
    }),
    route({
      ...single('state'),
      run: async (ctx, input) => only(await toStateEvents(ctx, await row(ctx, input, 'state'))),
    }),
    route({
      ...single('label'),
      run: async (ctx, input) => only(await toLabelEvents(ctx, await row(ctx, input, 'label'))),
    }),
    route({
      ...single('milestone'),
      run: async (ctx, input) => only(await toMilestoneEvents(ctx, await row(ctx, input, 'milestone'))),
    }),
  ];
};
