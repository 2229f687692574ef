import { GraphQLError, type GraphQLResolveInfo } from 'graphql';
import { type CursorValues, decodeCursor, encodeCursor } from '#platform/cursor.ts';
import type { List } from '#platform/db/list.ts';
import { nodesOf, type Selection, selectedFields } from './lookahead.ts';

/** Larger pages are cut to this without an error, as upstream does; it is also the default. */
export const MAX_PAGE_SIZE = 100;

/** What a list is asked for. Fetch `limit` rows and one more to know whether others follow (`pageOf`). */
export interface PageWanted {
  readonly limit: number;
  /** `last`/`before`: the rows nearest before the cursor, or the end of the list. */
  readonly backwards: boolean;
  readonly after: CursorValues | null;
  readonly before: CursorValues | null;
  readonly wants: {
    readonly count: boolean;
    /** False when only the count is asked for: spare the rows. */
    readonly rows: boolean;
    /** The fields of a row, through `nodes` and `edges { node }`. */
    readonly selection: Selection;
  };
}

export interface ListPage<Row> {
  /** In the order of the list, also when paging backwards. */
  readonly rows: readonly Row[];
  readonly hasNext: boolean;
  readonly hasPrevious: boolean;
  /** The sort columns of a row, the unique one last. */
  readonly cursorOf: (row: Row) => CursorValues;
  /** As a function it is only called when the count is selected. */
  readonly count: number | (() => number | Promise<number>);
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
 * @throws GraphQLError for negative sizes and `first` beside `last`, DomainError `bad_request` for a bad cursor.
 */
export const connection = async <Row>(
  args: ConnectionArguments,
  info: GraphQLResolveInfo,
  list: (page: PageWanted) => ListPage<Row> | Promise<ListPage<Row>>,
): Promise<Connection<Row>> => new Connection(await list(pageWanted(args, selectedFields(info))));

/** The page that `args` ask for, where `selection` is what is selected of the connection. For lists fetched ahead. */
const pageWanted = (args: ConnectionArguments, selection: Selection): PageWanted => {
  const { first = null, last = null } = args;
  if (first !== null && last !== null) throw badPage('Can only provide either `first` or `last`, not both');
  const size = first ?? last ?? MAX_PAGE_SIZE;
  if (size < 0) throw badPage(`\`${first === null ? 'last' : 'first'}\` must not be negative`);
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
 * A page from the rows a statement gave for `limit + 1`: in the order of the list, or against it when `backwards`
 * (the statement sorts the other way round then).
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

/** A page out of rows that are all at hand, already in the order of the list. */
export const pageOfAll = <Row>(
  page: PageWanted,
  all: readonly Row[],
  cursorOf: (row: Row) => CursorValues,
): ListPage<Row> => {
  const indexOf = (cursor: CursorValues | null) =>
    cursor === null ? -1 : all.findIndex((row) => String(cursorOf(row)) === String(cursor));
  const start = indexOf(page.after) + 1;
  const found = indexOf(page.before);
  const end = found === -1 ? all.length : found;
  const from = page.backwards ? Math.max(start, end - page.limit) : start;
  const to = page.backwards ? end : Math.min(end, start + page.limit);
  return { rows: all.slice(from, to), hasNext: to < all.length, hasPrevious: from > 0, cursorOf, count: all.length };
};

/** What the connection types of the builder resolve from. Cursors are only made when they are selected. */
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

  count = (): number | Promise<number> => {
    const { count } = this.#page;
    return typeof count === 'number' ? count : count();
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

const badPage = (message: string) => new GraphQLError(message, { extensions: { code: 'BAD_USER_INPUT' } });

/**
 * Resolves a connection field from a domain's lazy list (platform/db/list.ts), counting only when the count is selected:
 *
 *     resolve: (project, args, ctx, info) => listConnection(args, info, listIssues(ctx, project.id, filter))
 */
export const listConnection = async <Row>(
  args: ConnectionArguments,
  info: GraphQLResolveInfo,
  list: List<Row> | Promise<List<Row>>,
): Promise<Connection<Row>> => {
  const page = pageWanted(args, selectedFields(info));
  const source = await list;
  const { limit, backwards, after, before } = page;
  const fetched = page.wants.rows ? await source.rows({ limit: limit + 1, backwards, after, before }) : [];
  return new Connection(pageOf(page, fetched, { cursorOf: source.cursorOf, count: () => source.count(MAX_COUNT) }));
};

/** Counting stops here: a connection's `count` is exact up to it. */
const MAX_COUNT = 100_000;
