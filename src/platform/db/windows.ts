import { type RawBuilder, sql } from 'kysely';
import { type SlotValues, slot } from './compiled.ts';
import type { Window } from './list.ts';

// The parts of compiled statements (compiled.ts) that cut a window out of rows. Rows are sorted by a key, if there is
// one, and then by their id.

/** Returns a key for the parts of the window that determine the text of a statement. */
export const windowShape = ({ limit, offset, after, before, backwards }: Window): string =>
  `${limit}${offset === undefined ? '' : offset > 0 ? 'o' : 'f'}${after ? 'a' : ''}${before ? 'b' : ''}${backwards ? 'r' : ''}`;

/** Returns the values for the slots that the window of a statement uses. */
export const windowValues = ({ offset, after, before }: Window): SlotValues => ({
  offset,
  ...cursorValues('after', after),
  ...cursorValues('before', before),
});

const cursorValues = (name: string, cursor: Window['after']) => ({
  [`${name}_0`]: cursor?.[0] ?? null,
  [`${name}_1`]: cursor?.[1] ?? null,
});

/** Returns the `order by`. */
export const sorted = (key: RawBuilder<unknown> | null, id: RawBuilder<unknown>, up: boolean): RawBuilder<unknown> => {
  const direction = sql.raw(up ? 'asc' : 'desc');
  return sql`order by ${key ? sql`${key} ${direction}, ` : sql``}${id} ${direction}`;
};

/** Returns the `limit`, and the `offset` if there is one. */
export const limitTo = (window: Window): RawBuilder<unknown> =>
  // A literal: a generic plan would assume a tenth of the table.
  sql`limit ${sql.lit(window.limit)}${window.offset ? sql` offset ${slot('offset')}::bigint` : sql``}`;

/** Returns the conditions that the cursors of the window set. */
export const betweenCursors = (
  ascending: boolean,
  { after, before }: Window,
  key: RawBuilder<unknown> | null,
  id: RawBuilder<unknown>,
): RawBuilder<unknown>[] => {
  const row = key ? sql`(${key}, ${id})` : id;
  const cursor = (name: string) =>
    key ? sql`(${slot(`${name}_0`)}, ${slot(`${name}_1`)})` : sql`${slot(`${name}_0`)}`;
  const comparison = (larger: boolean) => sql.raw(larger ? '>' : '<');
  const all: RawBuilder<unknown>[] = [];
  if (after) all.push(sql`${row} ${comparison(ascending)} ${cursor('after')}`);
  if (before) all.push(sql`${row} ${comparison(!ascending)} ${cursor('before')}`);
  return all;
};
