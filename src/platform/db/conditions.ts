import { type RawBuilder, sql } from 'kysely';

/** Returns a condition that holds if all of them do. */
export const and = (all: readonly RawBuilder<unknown>[]): RawBuilder<unknown> =>
  all.length === 0 ? sql`true` : sql.join(all, sql` and `);
