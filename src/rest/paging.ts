import { z } from 'zod';
import { badParameters } from '#platform/errors.ts';
import {
  DEFAULT_PER_PAGE,
  type KeysetCursor,
  type KeysetPageRequest,
  MAX_PER_PAGE,
  offsetPage,
  type Page,
  type PageRequest,
  type SortDirection,
} from '#platform/paging.ts';
import { RestError } from './errors.ts';
import { inputParser } from './input.ts';
import type { Parameters } from './nested.ts';
import { dateTime, integer, oneOf, text } from './params.ts';

/** How a list is paged. Every list supports offset pagination. `keyset` also allows `pagination=keyset`. */
export type Paging = 'offset' | KeysetPaging | NamePaging;

export interface KeysetPaging {
  /** The columns to order by. A cursor also holds `id`. */
  readonly keyset: Readonly<Record<string, KeysetColumn>>;
  /** The supported directions. The default order is the first column, descending if supported. */
  readonly sorts?: readonly SortDirection[];
  /** `id` continues with the route's own `id_after` or `id_before` parameter (projects) instead of an opaque cursor. */
  readonly continueBy?: 'cursor' | 'id';
  /** Refuses pages beyond the first 50,000 records with 405. Clients have to use keyset pagination there. */
  readonly shallowOffset?: boolean;
}

/**
 * Keyset pagination by name, for git data, which has no other key. `pagination=keyset` continues after `page_token`,
 * the last name on the previous page.
 */
export interface NamePaging {
  readonly keyset: 'name';
  /** The value of the route's `sort` input that orders by name. Keyset pagination is refused with any other value. */
  readonly sort?: string;
}

export type KeysetColumn = 'integer' | 'text' | 'time' | 'date';

const MAX_OFFSET = 50_000;

export const pageShape = {
  page: integer({ min: 1 }).default(1),
  per_page: integer({ min: 1 }).default(DEFAULT_PER_PAGE),
};
export const keysetShape = {
  ...pageShape,
  // `legacy` and `offset` (sent by gitbeaker) are names of the default.
  pagination: oneOf(['keyset', 'legacy', 'offset']).optional(),
  cursor: text({ max: 4_000 }).optional(),
};

export const nameKeysetShape = {
  ...pageShape,
  pagination: keysetShape.pagination,
  page_token: text({ max: 4_000 }).optional(),
};

const parseOffset = inputParser(pageShape);
const parseKeyset = inputParser(keysetShape);
const parseNameKeyset = inputParser(nameKeysetShape);

/**
 * Returns a function that reads the requested page. Invalid numbers are a 400, page sizes above 100 become 100, and an
 * order without keyset support is a 405.
 */
export const pageReader = (paging: Paging) => {
  if (paging === 'offset') {
    return (sent: Parameters): PageRequest => {
      if (sent.pagination === 'keyset') throw keysetUnavailable();
      const { page, per_page } = parseOffset(sent);
      return offsetPage(page, Math.min(per_page, MAX_PER_PAGE));
    };
  }
  if (paging.keyset === 'name') {
    return (sent: Parameters, input: Readonly<Record<string, unknown>>): PageRequest => {
      const { page, per_page, pagination, page_token } = parseNameKeyset(sent);
      const perPage = Math.min(per_page, MAX_PER_PAGE);
      if (pagination !== 'keyset') return offsetPage(page, perPage);
      if (paging.sort !== undefined && (input.sort ?? paging.sort) !== paging.sort) throw keysetUnavailable();
      const cursor = page_token ? { name: page_token } : null;
      return { kind: 'keyset', perPage, limit: perPage, order_by: 'name', sort: 'asc', cursor };
    };
  }
  const sorts = paging.sorts ?? ['asc', 'desc'];
  const columns = new Map(Object.entries(paging.keyset));
  const [firstColumn = 'id'] = columns.keys();
  return (sent: Parameters, input: Readonly<Record<string, unknown>>): PageRequest => {
    const { page, per_page, pagination, cursor } = parseKeyset(sent);
    const perPage = Math.min(per_page, MAX_PER_PAGE);
    if (pagination !== 'keyset') {
      if (paging.shallowOffset && page * perPage > MAX_OFFSET) throw offsetTooDeep();
      return offsetPage(page, perPage);
    }
    const order_by = typeof input.order_by === 'string' ? input.order_by : firstColumn;
    const sort = sorts.find((each) => each === (input.sort ?? (sorts.includes('desc') ? 'desc' : 'asc')));
    const column = columns.get(order_by);
    if (!column || !sort) throw keysetUnavailable();
    return {
      kind: 'keyset',
      perPage,
      limit: perPage,
      order_by,
      sort,
      cursor: cursor ? decodeCursor(cursor, order_by, column) : null,
    };
  };
};

interface PageResponse {
  readonly url: string;
  readonly externalUrl: string;
  setHeader(name: string, value: string): void;
}

/** Writes the paging headers (conventions §2). */
export const writePage = (http: PageResponse, request: PageRequest, page: Page<unknown>, paging: Paging): void => {
  const perPageText = `per_page=${request.perPage}`;
  if (request.kind === 'keyset') {
    if (!page.next) return;
    const [name, value] = continuation(request, page.next, paging);
    http.setHeader('Link', `${linkStart(http, name)}${perPageText}&${name}=${value}>; rel="next"`);
    return;
  }
  const { page: number, perPage } = request;
  const total = page.total ?? null;
  const lastPage = total === null ? null : Math.max(1, Math.ceil(total / perPage));
  const hasNext = lastPage === null ? (page.hasNext ?? page.items.length >= perPage) : number < lastPage;
  const start = linkStart(http, 'page');
  const link = (rel: string, to: number) => `${start}page=${to}&${perPageText}>; rel="${rel}"`;
  const links = number > 1 ? [link('prev', number - 1)] : [];
  if (hasNext) links.push(link('next', number + 1));
  links.push(link('first', 1));
  if (lastPage !== null) links.push(link('last', lastPage));
  http.setHeader('Link', links.join(', '));
  http.setHeader('X-Next-Page', hasNext ? String(number + 1) : '');
  http.setHeader('X-Page', String(number));
  http.setHeader('X-Per-Page', String(perPage));
  http.setHeader('X-Prev-Page', number > 1 ? String(number - 1) : '');
  if (total === null || lastPage === null) return;
  http.setHeader('X-Total', String(total));
  http.setHeader('X-Total-Pages', String(lastPage));
};

const continuation = (request: KeysetPageRequest, next: KeysetCursor, paging: Paging): readonly [string, string] => {
  if (paging !== 'offset' && paging.keyset === 'name') return ['page_token', encodeURIComponent(next.name ?? '')];
  if (paging !== 'offset' && 'continueBy' in paging && paging.continueBy === 'id') {
    return [request.sort === 'asc' ? 'id_after' : 'id_before', String(next.id)];
  }
  return ['cursor', encodeCursor(next)];
};

/**
 * Returns the start of a Link header: the request's URL without its paging parameters and without `replaced`. The
 * latter may be `id_after` or `id_before`, which are kept as filters otherwise.
 */
const linkStart = ({ url, externalUrl }: PageResponse, replaced: string): string => {
  const mark = url.indexOf('?');
  if (mark < 0) return `<${externalUrl}${url}?`;
  const kept = url
    .slice(mark + 1)
    .split('&')
    .filter((pair) => {
      const name = nameOf(pair);
      return name !== '' && name !== 'page' && name !== 'per_page' && name !== 'cursor' && name !== replaced;
    });
  // The query contains the client's bytes. Escape those that would end the URL early.
  const query = kept
    .map((pair) => `${pair}&`)
    .join('')
    .replace(/[<>"\s]/g, encodeURIComponent);
  return `<${externalUrl}${url.slice(0, mark)}?${query}`;
};

const nameOf = (pair: string): string => pair.split('=', 1)[0] ?? '';

/** Encodes a cursor as Base64url JSON of the sort columns and the direction `_kd`, where `n` means next. */
const encodeCursor = (cursor: KeysetCursor): string =>
  Buffer.from(JSON.stringify({ ...cursor, _kd: 'n' })).toString('base64url');

const decodeCursor = (encoded: string, order_by: string, type: KeysetColumn): KeysetCursor => {
  const parsed = cursorSchemas[type].safeParse(parseJson(Buffer.from(encoded, 'base64url').toString('utf8'), order_by));
  if (!parsed.success) throw badParameters('cursor is invalid');
  const { id, value } = parsed.data;
  return order_by === 'id' ? { id } : { [order_by]: value, id };
};

const cursorOf = <T extends z.ZodType<string | number>>(value: T) =>
  z.object({ id: integer(), value: value.nullable() });
const cursorSchemas = {
  integer: cursorOf(integer()),
  text: cursorOf(text()),
  time: cursorOf(z.string().refine((value) => dateTime().safeParse(value.replace(/\+00$/, 'Z')).success)),
  date: cursorOf(z.iso.date()),
} satisfies Record<KeysetColumn, z.ZodType>;

const parseJson = (json: string, order_by: string): unknown => {
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, order_by)) return null;
    return { id: Reflect.get(value, 'id'), value: Reflect.get(value, order_by) };
  } catch {
    return null;
  }
};

const keysetUnavailable = () =>
  new RestError(405, { error: 'Keyset pagination is not yet available for this type of request' });

const offsetTooDeep = () =>
  new RestError(405, {
    error: `Offset pagination has a maximum allowed offset of ${MAX_OFFSET} for requests that return objects of this type. Remaining records can be retrieved using keyset pagination.`,
  });
