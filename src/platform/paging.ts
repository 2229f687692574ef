import type { CursorValues } from './cursor.ts';
import type { List } from './db/list.ts';

/** Lists count their matches up to this limit. Beyond it the total is omitted (conventions §2). */
const COUNT_LIMIT = 10_000;

export const DEFAULT_PER_PAGE = 20;
export const MAX_PER_PAGE = 100;

export type SortDirection = 'asc' | 'desc';

/** The sort columns of the last row seen, by name. A keyset page continues after it. */
export type KeysetCursor = Readonly<Record<string, string | number | null>>;

export interface OffsetPageRequest {
  readonly kind: 'offset';
  /** Starts at 1. */
  readonly page: number;
  readonly perPage: number;
  /** `perPage`, for SQL. */
  readonly limit: number;
  readonly offset: number;
}

export interface KeysetPageRequest {
  readonly kind: 'keyset';
  readonly perPage: number;
  readonly limit: number;
  readonly order_by: string;
  readonly sort: SortDirection;
  /** Null on the first page. Contains `order_by` and, as the tie breaker, `id`. */
  readonly cursor: KeysetCursor | null;
}

/** The requested part of a list. */
export type PageRequest = OffsetPageRequest | KeysetPageRequest;

export interface Page<T> {
  readonly items: readonly T[];
  /** The number of all matches. Null or absent if it was not counted, or exceeds `COUNT_LIMIT`. */
  readonly total?: number | null;
  /** True if more rows follow. Only needed without a total; otherwise a full page is assumed to have a next one. */
  readonly hasNext?: boolean;
  /** Keyset: the sort columns of the last row if more rows follow, else null. */
  readonly next?: KeysetCursor | null;
}

export const offsetPage = (page: number, perPage: number): OffsetPageRequest => ({
  kind: 'offset',
  page,
  perPage,
  limit: perPage,
  offset: (page - 1) * perPage,
});

/** Cuts the requested page out of a list in memory (branches, archive entries). */
export const slicePage = <T>(all: readonly T[], page: PageRequest): Page<T> => {
  const offset = page.kind === 'offset' ? page.offset : 0;
  return { items: all.slice(offset, offset + page.limit), total: all.length };
};

/** Converts a count that stops at `COUNT_LIMIT + 1` to a total: null beyond the limit. */
const countedTotal = (count: number): number | null => (count > COUNT_LIMIT ? null : count);

/**
 * Reads the page of a REST request from a domain's list. Omits the total beyond `COUNT_LIMIT`. If the page contains the
 * end of the list, the total is known without counting.
 */
export const readPage = async <Row>(list: List<Row>, page: PageRequest): Promise<Page<Row>> => {
  if (page.kind === 'keyset') {
    const after = page.cursor ? cursorValues(page.cursor, page.order_by) : null;
    const rows = await list.rows({ limit: page.limit + 1, after });
    const items = rows.slice(0, page.limit);
    const last = items.at(-1);
    return { items, next: rows.length > page.limit && last ? namedCursor(list.cursorOf(last), page.order_by) : null };
  }
  const rows = await list.rows({ limit: page.limit + 1, offset: page.offset });
  const items = rows.slice(0, page.limit);
  const hasNext = rows.length > page.limit;
  if (!hasNext && (rows.length > 0 || page.offset === 0)) return { items, total: page.offset + rows.length, hasNext };
  return { items, total: countedTotal(await list.count(COUNT_LIMIT)), hasNext };
};

/** REST keyset cursors use names: `order_by` and `id`, or only `id`. */
const cursorValues = (cursor: KeysetCursor, orderBy: string): CursorValues =>
  orderBy === 'id' ? [cursor.id ?? null] : [cursor[orderBy] ?? null, cursor.id ?? null];

const namedCursor = (values: CursorValues, orderBy: string): KeysetCursor => {
  const named: Record<string, string | number> = {};
  const names = orderBy === 'id' ? ['id'] : [orderBy, 'id'];
  for (const [i, name] of names.entries()) {
    const value = values[i];
    if (typeof value === 'string' || typeof value === 'number') named[name] = value;
  }
  return named;
};
