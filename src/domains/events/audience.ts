import type { Actor, Context } from '#platform/context.ts';
import type { AnyEventDefinition, EventRow } from '#platform/events.ts';
import { classOf, momentOf, readingsOf } from './visibility.ts';

/** Decides who may read which events at this moment, with one statement for all subscribers or for a page of history. */
export interface Audiences {
  /** Returns the indexes of the viewers who may read the event. */
  audienceOf(ctx: Context, viewers: readonly Actor[], event: EventRow): Promise<ReadonlySet<number>>;
  /** Returns the indexes of the events that the viewer may read. */
  eventsSeenBy(ctx: Context, viewer: Actor, events: readonly EventRow[]): Promise<ReadonlySet<number>>;
}

/**
 * Applies the rules of visibility.ts. Administrators read everything. Only administrators read events of kinds without a
 * definition, because nothing says what part of the project those are about.
 */
export const audiencesOf = (definitions: readonly AnyEventDefinition[]): Audiences => {
  const byKind = new Map(definitions.map((definition) => [definition.kind, definition]));

  const read = async (ctx: Context, viewers: readonly Actor[], events: readonly EventRow[]): Promise<Read[]> => {
    const found: Read[] = [];
    for (const [viewer, { isAdmin }] of viewers.entries())
      if (isAdmin) found.push(...events.map((_, event) => ({ viewer, event })));
    const classes = distinct(
      viewers.map((viewer) => (viewer.isAdmin ? null : classOf(viewer))),
      ({ open_from, closed, labels }) => `${open_from} ${closed} ${labels}`,
    );
    // A page of history is mostly about a few subjects, so equal moments are checked once.
    const moments = distinct(
      events.map((event) => {
        const definition = byKind.get(event.kind);
        return definition ? momentOf(event, definition.part(event.payload)) : null;
      }),
      JSON.stringify,
    );
    if (classes.length === 0 || moments.length === 0) return found;
    const people = classes.map(({ indexes }) => byUser(viewers, indexes));
    const readings = await readingsOf(
      ctx,
      classes.map(({ value }, n) => ({ ...value, user_ids: [...(people[n]?.keys() ?? [])] })),
      moments.map(({ value }) => value),
    );
    for (const reading of readings) {
      const all = classes[reading.class]?.indexes;
      const those = reading.user_id === null ? all : people[reading.class]?.get(reading.user_id);
      for (const viewer of those ?? [])
        for (const event of moments[reading.moment]?.indexes ?? []) found.push({ viewer, event });
    }
    return found;
  };

  return {
    audienceOf: async (ctx, viewers, event) => new Set((await read(ctx, viewers, [event])).map(({ viewer }) => viewer)),
    eventsSeenBy: async (ctx, viewer, events) => new Set((await read(ctx, [viewer], events)).map(({ event }) => event)),
  };
};

/** The index of a viewer, and of an event they may read. */
interface Read {
  readonly viewer: number;
  readonly event: number;
}

/** Returns the distinct values by key, each with the indexes at which it occurs. Skips nulls. */
const distinct = <T extends object>(values: readonly (T | null)[], keyOf: (value: T) => string) => {
  const found = new Map<string, { readonly value: T; readonly indexes: number[] }>();
  for (const [index, value] of values.entries()) {
    if (value === null) continue;
    const key = keyOf(value);
    const known = found.get(key);
    if (known) known.indexes.push(index);
    else found.set(key, { value, indexes: [index] });
  }
  return [...found.values()];
};

/** Returns the indexes of signed-in viewers by user id. One user may subscribe several times. */
const byUser = (viewers: readonly Actor[], indexes: readonly number[]): ReadonlyMap<number, readonly number[]> => {
  const found = new Map<number, number[]>();
  for (const index of indexes) {
    const userId = viewers[index]?.userId ?? null;
    if (userId === null) continue;
    const known = found.get(userId);
    if (known) known.push(index);
    else found.set(userId, [index]);
  }
  return found;
};
