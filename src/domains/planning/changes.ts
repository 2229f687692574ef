import { z } from 'zod';
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
    const told = (value: Json) => (name.endsWith('_at') && typeof value === 'string' ? isoTime(value) : value);
    changes[name] = { previous: told(previous), current: told(current) };
  }
  return changes;
};

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
