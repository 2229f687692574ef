import type { GraphQLResolveInfo } from 'graphql';
import { type CursorValues, decodeCursor, encodeCursor } from '#platform/cursor.ts';
import type { List } from '#platform/db/list.ts';
import { badRequest } from '#platform/errors.ts';
import { badInput } from './errors.ts';
import { nodesOf, type Selection, selectedFields } from './lookahead.ts';
import { countRows } from './row-count.ts';

/** The largest page size, and the default. Larger sizes are reduced to it without an error, as upstream does. */
export const MAX_PAGE_SIZE = 100;

/** The page that a query asks for. Fetch `limit` + 1 rows, so that `pageOf` can tell whether more rows follow. */
export interface PageWanted {
  readonly limit: number;
  /** `last`/`before`: the rows nearest before the cursor, or the end of the list. */
  readonly backwards: boolean;
  readonly after: CursorValues | null;
  readonly before: CursorValues | null;
  readonly wants: {
    readonly count: boolean;
    /** False when the query selects only the count, so no rows need to be fetched. */
    readonly rows: boolean;
    /** The fields of a row, through `nodes` and `edges { node }`. */
    readonly selection: Selection;
  };
}

export interface ListPage<Row> {
  /** In list order, even when paging backwards. */
  readonly rows: readonly Row[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
  /** Returns the values of the sort columns of a row. The unique column comes last. */
  readonly cursorOf: (row: Row) => CursorValues;
  /** A function is called only when the query selects the count. It may stop counting after `atMost + 1`. */
  readonly count: number | ((atMost?: number) => number | Promise<number>);
}

export interface ConnectionArguments {
  readonly first?: number | null | undefined;
  readonly last?: number | null | undefined;
  readonly after?: string | null | undefined;
  readonly before?: string | null | undefined;
}

/**
 * Resolves a connection field over a domain's list:
 *
 *     t.connection({ type: IssueRef, resolve: (project, args, ctx, info) =>
 *       connection(args, info, (page) => listIssues(ctx, project.id, page)) }, IssueConnection)
 *
 * @throws GraphQLError for a negative size, for `first` together with `last`, or as `countRows`
 * @throws DomainError `bad_request` for an invalid cursor
 */
export const connection = async <Row>(
  args: ConnectionArguments,
  info: GraphQLResolveInfo,
  list: (page: PageWanted) => ListPage<Row> | Promise<ListPage<Row>>,
): Promise<Connection<Row>> => {
  countRows(info, 0, 0);
  const wanted = pageWanted(args, info);
  const page = await list(wanted);
  countRows(info, page.rows.length, Object.keys(wanted.wants.selection).length);
  return new Connection(page);
};

/**
 * Returns the page of a connection field that `args` ask for.
 *
 * @throws GraphQLError and DomainError as `connection`, but counts no rows
 */
export const pageWanted = (args: ConnectionArguments, info: GraphQLResolveInfo): PageWanted => {
  const { first = null, last = null } = args;
  if (first !== null && last !== null) throw badInput('Can only provide either `first` or `last`, not both');
  const size = first ?? last ?? MAX_PAGE_SIZE;
  if (size < 0) throw badInput(`\`${first === null ? 'last' : 'first'}\` must not be negative`);
  const selection = selectedFields(info);
  const { nodes, edges, pageInfo, count } = selection;
  return {
    limit: Math.min(size, MAX_PAGE_SIZE),
    backwards: last !== null || (first === null && Boolean(args.before) && !args.after),
    after: args.after ? decodeCursor(args.after) : null,
    before: args.before ? decodeCursor(args.before) : null,
    wants: {
      count: count !== undefined,
      rows: nodes !== undefined || edges !== undefined || pageInfo !== undefined,
      selection: nodesOf(selection),
    },
  };
};

/**
 * Builds a page from the rows that a statement returned for `limit + 1`. The rows are in list order, or in reverse
 * order when `backwards` is set.
 */
export const pageOf = <Row>(
  page: PageWanted,
  fetched: readonly Row[],
  rest: Pick<ListPage<Row>, 'cursorOf' | 'count'>,
): ListPage<Row> => {
  const more = fetched.length > page.limit;
  const cut = more ? fetched.slice(0, page.limit) : fetched;
  return {
    rows: page.backwards ? cut.toReversed() : cut,
    hasNext: page.backwards ? page.before !== null : more,
    hasPrevious: page.backwards ? more : page.after !== null,
    ...rest,
  };
};

/**
 * Builds a page from the complete list of rows, which must be in list order.
 *
 * @throws DomainError `bad_request` if the row of a cursor is gone, because only its position shows which rows follow
 */
export const pageOfAll = <Row>(
  page: PageWanted,
  all: readonly Row[],
  cursorOf: (row: Row) => CursorValues,
): ListPage<Row> => {
  const indexOf = (cursor: CursorValues) => {
    const found = all.findIndex((row) => String(cursorOf(row)) === String(cursor));
    if (found === -1) throw badRequest('The item of the cursor is gone: start again at the first page');
    return found;
  };
  const start = page.after === null ? 0 : indexOf(page.after) + 1;
  const end = page.before === null ? all.length : indexOf(page.before);
  const from = page.backwards ? Math.max(start, end - page.limit) : start;
  const to = page.backwards ? end : Math.min(end, start + page.limit);
  return { rows: all.slice(from, to), hasNext: to < all.length, hasPrevious: from > 0, cursorOf, count: all.length };
};

/** The object from which connection types resolve. Cursors are encoded only when the query selects them. */
class Connection<Row> {
  readonly #page: ListPage<Row>;

  constructor(page: ListPage<Row>) {
    this.#page = page;
  }

  get edges(): Edge<Row>[] {
    const { rows, cursorOf } = this.#page;
    return rows.map((row) => new Edge(row, cursorOf));
  }

  get pageInfo() {
    const { rows, hasNext, hasPrevious, cursorOf } = this.#page;
    const cursor = (row: Row | undefined) => (row === undefined ? null : encodeCursor(cursorOf(row)));
    return {
      hasNextPage: hasNext,
      hasPreviousPage: hasPrevious,
      startCursor: cursor(rows[0]),
      endCursor: cursor(rows.at(-1)),
    };
  }

  /** @throws GraphQLError for a negative `atMost` */
  count = (atMost?: number): number | Promise<number> => {
    if (atMost !== undefined && atMost < 0) throw badInput('`limit` must not be negative');
    const { count } = this.#page;
    if (typeof count !== 'number') return count(atMost);
    return atMost === undefined ? count : Math.min(count, atMost + 1);
  };
}

class Edge<Row> {
  readonly node: Row;
  readonly #cursorOf: (row: Row) => CursorValues;

  constructor(node: Row, cursorOf: (row: Row) => CursorValues) {
    this.node = node;
    this.#cursorOf = cursorOf;
  }

  get cursor(): string {
    return encodeCursor(this.#cursorOf(this.node));
  }
}

/**
 * Resolves a connection field from a domain's lazy list (platform/db/list.ts). Counts only when the query selects the
 * count:
 *
 *     resolve: (project, args, ctx, info) => listConnection(args, info, listIssues(ctx, project.id, filter))
 */
export const listConnection = async <Row>(
  args: ConnectionArguments,
  info: GraphQLResolveInfo,
  list: List<Row> | Promise<List<Row>>,
): Promise<Connection<Row>> => {
  const page = pageWanted(args, info);
  const source = await list;
  const { limit, backwards, after, before } = page;
  const fetched = page.wants.rows ? await source.rows({ limit: limit + 1, backwards, after, before }) : [];
  return new Connection(
    pageOf(page, fetched, { cursorOf: source.cursorOf, count: (atMost) => source.count(upperBound(atMost)) }),
  );
};

/** The upper bound for `count`. Smaller counts are exact. */
const MAX_COUNT = 100_000;

/** Returns how far the items are counted. */
export const upperBound = (atMost = MAX_COUNT): number => Math.min(atMost, MAX_COUNT);
