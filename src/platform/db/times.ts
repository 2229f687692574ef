import { type RawBuilder, sql } from 'kysely';

/**
 * Records show their times in milliseconds, and columns keep microseconds. So all filters by time (`x_after` and
 * `x_before`) include the millisecond that they name: a client that goes on from the time of the last record that it
 * has seen may get that record again, but misses none.
 *
 * @param time ISO 8601 in milliseconds, or a reference to it
 */
export const atOrAfter = (column: RawBuilder<unknown>, time: unknown): RawBuilder<boolean> =>
  sql<boolean>`${column} >= ${time}::timestamptz`;

/** As `atOrAfter`. */
export const atOrBefore = (column: RawBuilder<unknown>, time: unknown): RawBuilder<boolean> =>
  sql<boolean>`${column} < ${time}::timestamptz + interval '1 millisecond'`;
