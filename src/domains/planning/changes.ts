import { sql } from 'kysely';
import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { hookTime, isoTime } from '#platform/time.ts';

/**
 * The changes of an update by attribute, in events and webhook bodies. `previous` is absent if fewer people could see
 * it than see the event.
 */
export const changesSchema = z.record(z.string(), z.object({ previous: z.json().optional(), current: z.json() }));
export type Changes = z.output<typeof changesSchema>;
type Json = Changes[string]['current'];

/**
 * Returns the columns of `wanted` whose value differs from `before`. Compares times in the form of the row, and returns
 * them in the form of records.
 */
export const differences = (
  before: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, Json | undefined>>,
): Changes => {
  const changes: Changes = {};
  for (const [name, current] of Object.entries(wanted)) {
    const previous = z.json().parse(before[name] ?? null);
    if (current === undefined || previous === current) continue;
    const shown = (value: Json) => (name.endsWith('_at') && typeof value === 'string' ? isoTime(value) : value);
    changes[name] = { previous: shown(previous), current: shown(current) };
  }
  return changes;
};

/** Returns the new values by column. */
export const newValues = (changes: Changes): Record<string, Json> =>
  Object.fromEntries(Object.entries(changes).map(([name, { current }]) => [name, current]));

/** Returns the columns that say who changed, edited, closed or reopened an issue or merge request, and when. */
export const changeStamps = ({ actor }: Pick<Context, 'actor'>, { state, title, description }: Changes) => ({
  ...(state?.current === 'closed' ? { closed_at: sql<string>`now()`, closed_by_id: actor.userId } : {}),
  ...(state && state.current !== 'closed' ? { closed_at: null, closed_by_id: null } : {}),
  ...(title || description ? { last_edited_at: sql<string>`now()`, last_edited_by_id: actor.userId } : {}),
  updated_at: sql<string>`now()`,
  updated_by_id: actor.userId,
});

/** Returns the changes for webhook bodies: times in the webhook format, and the state by its number. */
export const hookChanges = (changes: Changes, stateIds: Readonly<Record<string, number>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(changes).map(([name, { previous, current }]) => {
      const shown = (value: unknown) => {
        if (typeof value !== 'string') return value;
        if (name === 'state') return stateIds[value];
        return name.endsWith('_at') ? hookTime(value) : value;
      };
      return [name === 'state' ? 'state_id' : name, { previous: shown(previous), current: shown(current) }];
    }),
  );
