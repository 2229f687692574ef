import type { CursorValues } from '../cursor.ts';
import type { List, Window } from './list.ts';

type Part<Row> = Pick<List<Row>, 'rows' | 'count'>;

/**
 * Reads the window of a list that consists of all rows of `first` and then all rows of `second`, which is sorted by its
 * last key alone. An order in which rows without a value come last then needs an index of those that have one, instead of
 * two for all rows.
 */
export const chainedRows = async <Row>(
  { first, second }: { readonly first: Part<Row>; readonly second: Part<Row> },
  isInSecond: (cursor: CursorValues) => boolean,
  { limit, offset = 0, after = null, before = null, backwards = false }: Window,
): Promise<Row[]> => {
  const rows: Row[] = [];
  let skip = offset;
  for (const part of backwards ? [second, first] : [first, second]) {
    const isSecond = part === second;
    // The whole part is on the other side of a cursor.
    if ((after && !isSecond && isInSecond(after)) || (before && isSecond && !isInSecond(before))) continue;
    const within = (cursor: CursorValues | null): CursorValues | null => {
      if (cursor === null || isInSecond(cursor) !== isSecond) return null;
      return isSecond ? cursor.slice(-1) : cursor;
    };
    const window: Window = { limit: limit - rows.length, after: within(after), before: within(before), backwards };
    const found = await part.rows({ ...window, offset: skip });
    rows.push(...found);
    if (rows.length >= limit) break;
    if (skip > 0) skip = found.length > 0 ? 0 : Math.max(0, skip - (await part.count(skip)));
  }
  return rows;
};
