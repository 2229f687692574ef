import type { IncomingHttpHeaders } from 'node:http';
import type { Readable } from 'node:stream';
import type { z } from 'zod';
import { JOB_TOKEN_SCOPE, type RouteScope, type TokenScope } from '#platform/caller/token-scopes.ts';
import type { Context } from '#platform/context.ts';
import type { Page, PageRequest } from '#platform/paging.ts';
import type { EncodedJson } from './encoded-json.ts';
import { type Input, inputParser, type NoInput, type Rule, type Shape, shapeOf } from './input.ts';
import type { Parameters } from './nested.ts';
import { type Paging, pageReader, writePage } from './paging.ts';
import { kindOf } from './param-kind.ts';
import type { Part } from './ranges.ts';
import type { FileOptions, FilePlace } from './upload.ts';
import type { Replacement } from './v5.ts';

/**
 * The body limit of routes that accept a text of a million characters, which is several times as long when escaped in
 * JSON.
 */
export const TEXT_BODY_BYTES = 8 * 1024 * 1024;

/**
 * Declares a route once. Validation, types and its part of the OpenAPI document follow from the declaration.
 *
 * `run` gets the parsed parameters of path, body and query in one object and returns the record of `response` (nothing
 * for `response: null`, status 204; undefined for an empty body, if the record is optional). It throws DomainErrors and does not deal with statuses. The compiler refuses a
 * path parameter without a schema in `input`, and a result that does not fit the record.
 */
export const route = <const P extends string, R extends z.ZodType | null, S extends Shape = NoInput>(
  declaration: Declaration<P, S> &
    InputOf<P, S> & {
      readonly response: R;
      run(ctx: Context, input: Input<S>, http: Exchange): Promise<Result<R>>;
      /**
       * Decides about the uploaded file before it arrives. Gets the parameters of path and query as they were sent, and
       * refuses the file by throwing. Only for routes with one file.
       */
      place?(ctx: Context, sent: Parameters, http: Exchange): Promise<FilePlace>;
      /** Refuses a request by throwing, before its body arrives. Gets the parameters of path and query as they were sent. */
      admit?(ctx: Context, sent: Parameters, http: Exchange): Promise<void>;
    },
): Route => {
  const shape = shapeOf<S>(declaration);
  const parse = inputParser(shape, declaration.rules);
  const { response, place, admit } = declaration;
  return {
    ...describe(declaration, shape),
    kind: 'record',
    status: declaration.status ?? (response === null ? 204 : declaration.method === 'POST' ? 201 : 200),
    response,
    paging: null,
    ...(place ? { place } : {}),
    ...(admit ? { admit } : {}),
    handle: async (ctx, sent, http) => {
      const body = await declaration.run(ctx, parse(sent), http);
      return response === null || body === undefined ? NOTHING : { body };
    },
  };
};

/**
 * Declares a list. `run` gets the requested page and returns its items. Paging parameters and headers are added here
 * (conventions §2). With `paging: { keyset }`, the route's `order_by` and `sort` inputs select the order.
 */
export const listRoute = <const P extends string, R extends z.ZodType, S extends Shape = NoInput>(
  declaration: Omit<Declaration<P, S>, 'method'> &
    InputOf<P, S> & {
      readonly item: R;
      readonly paging: Paging;
      run(
        ctx: Context,
        input: Input<S>,
        page: PageRequest,
        http: Exchange,
      ): Promise<Page<z.output<R> | EncodedJson<z.output<R>>>>;
    },
): Route => {
  const shape = shapeOf<S>(declaration);
  const parse = inputParser(shape, declaration.rules);
  const readPage = pageReader(declaration.paging);
  return {
    ...describe({ ...declaration, method: 'GET' }, shape),
    kind: 'list',
    status: declaration.status ?? 200,
    response: declaration.item,
    paging: declaration.paging,
    handle: async (ctx, sent, http) => {
      const input = parse(sent);
      const request = readPage(sent, input);
      const page = await declaration.run(ctx, input, request, http);
      writePage(http, request, page, declaration.paging);
      return { body: page.items };
    },
  };
};

/** Declares a download. HEAD gets only the headers, and a `stream` function is not called then. */
export const streamRoute = <const P extends string, S extends Shape = NoInput>(
  declaration: Declaration<P, S> &
    InputOf<P, S> & {
      /** The content type of every file, if it does not depend on the file. */
      readonly contentType?: string;
      /**
       * `run` only reads, and opens the content in a function. The caller may be assumed while it runs (decision 17).
       */
      readonly assumable?: true;
      run(ctx: Context, input: Input<S>, http: Exchange): Promise<Download>;
    },
): Route => {
  const shape = shapeOf<S>(declaration);
  const parse = inputParser(shape, declaration.rules);
  return {
    ...describe(declaration, shape),
    kind: 'stream',
    status: declaration.status ?? 200,
    response: null,
    paging: null,
    contentType: declaration.contentType ?? null,
    ...(declaration.assumable ? { assumable: true } : {}),
    handle: async (ctx, sent, http) => ({ download: await declaration.run(ctx, parse(sent), http) }),
  };
};

export type Auth = 'required' | 'optional' | 'own';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

interface Declaration<P extends string, S extends Shape> {
  readonly method: Method;
  /**
   * The path below `/api/v4`: `/projects/:id/issues/:issue_iid`. One segment may be `*name`, which takes one or
   * more segments.
   */
  readonly path: P;
  /** The path starts at the root of the host instead. */
  readonly root?: true;
  /** With `root`: version 5 serves the path below `/api/v5` too, with its own rules. */
  readonly v5?: '/api/v5';
  readonly tag: string;
  readonly summary: string;
  readonly description?: string;
  /**
   * `required` by default. `optional` admits anonymous callers. For `own` the credential of the request is not read,
   * and the caller is anonymous: the route checks a token of its own, such as that of a runner.
   */
  readonly auth?: Auth;
  /**
   * A token needs one of these scopes. The default is `api`, and for GET also `read_api`. An empty list admits every
   * valid token.
   */
  readonly scopes?: readonly TokenScope[];
  /** Accepts the tokens of CI jobs too. */
  readonly jobTokens?: true;
  /** Admits only administrators. Others get 403. */
  readonly admin?: boolean;
  readonly status?: number;
  /** Statuses of refusals beside 400, 401, 403 and 404, with their meaning, for the OpenAPI document. */
  readonly refusals?: Readonly<Record<number, string>>;
  /** Conditions on several parameters: `[exclusive('a', 'b')]`. */
  readonly rules?: readonly Rule<NoInfer<keyof S & string>>[];
  /** The body limit, if it differs from `MAX_BODY_BYTES`. Uploaded files do not count. */
  readonly maxBodyBytes?: number;
  /** The limit on JSON values, if it differs from `MAX_BODY_VALUES`. */
  readonly maxBodyValues?: number;
  /** The body is no parameters: `run` gets its bytes as `http.body`. It may have any type but JSON and forms. */
  readonly rawBody?: true;
  /** Version 5 does not have the route. It is deprecated in version 4. */
  readonly removedInV5?: Replacement;
  /** The route is deprecated, but stays in version 5. */
  readonly deprecated?: Replacement;
}

type InputOf<P extends string, S extends Shape> = [PathNames<P>] extends [never]
  ? { readonly input?: S }
  : { readonly input: S & Readonly<Record<PathNames<P>, z.ZodType>> };

// biome-ignore lint/suspicious/noConfusingVoidType: it stands as the promised value of an async function.
type Result<R extends z.ZodType | null> = R extends z.ZodType ? z.output<R> : void;

type PathNames<P extends string> = P extends `${infer Segment}/${infer Rest}`
  ? SegmentName<Segment> | PathNames<Rest>
  : SegmentName<P>;
type SegmentName<S extends string> = S extends `${string}:${infer Name}` | `*${infer Name}`
  ? Name extends `${infer Word}.${string}`
    ? Word
    : Name
  : never;

/** The parts of the HTTP request that a handler can read, and of the response that it can set, besides its result. */
export interface Exchange {
  readonly method: string;
  /** The path and query as sent. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly ip: string;
  /** The configured URL of the hub, without a trailing slash. */
  readonly externalUrl: string;
  /** The version of the API that the client called: `/api/v5` is a preview. */
  readonly apiVersion: ApiVersion;
  /** The bytes of a `rawBody`. Empty for other routes. */
  readonly body: Buffer;
  setHeader(name: string, value: string): void;
  /** Replaces the declared status. */
  setStatus(status: number): void;
}

export type ApiVersion = 4 | 5;

export interface Download {
  /** The content. A file that is in memory needs no stream. */
  readonly stream: Readable | (() => Readable | Promise<Readable | Buffer>);
  /** Opens a part of the file, for clients that send `Range`. Requires `size`. */
  readonly part?: (part: Part) => Readable | Promise<Readable | Buffer>;
  /** Size in bytes, if known. Sent as Content-Length. */
  readonly size?: number;
  readonly contentType: string;
  /** Sends the file as an attachment of this name. */
  readonly filename?: string;
  /** `attachment` by default if there is a filename. */
  readonly disposition?: 'attachment' | 'inline';
  readonly headers?: Readonly<Record<string, string>>;
  /** Where the client gets the file instead, with a redirect (302). */
  readonly location?: string | null;
  /** Quoted, as in the header. A client that already has this version gets 304. */
  readonly etag?: string;
}

export type Outcome = { readonly body: unknown } | { readonly download: Download } | typeof NOTHING;

/** A declared route with its types erased. Lists of these make up the API. */
export interface Route {
  readonly kind: 'record' | 'list' | 'stream';
  readonly method: Method;
  readonly path: string;
  /** The path from the root of the host. */
  readonly url: string;
  /** The same in version 5. */
  readonly v5Url: string;
  readonly pathNames: readonly string[];
  readonly tag: string;
  readonly summary: string;
  readonly description: string | null;
  readonly auth: Auth;
  readonly scopes: readonly RouteScope[];
  readonly admin: boolean;
  readonly status: number;
  readonly refusals: Readonly<Record<number, string>>;
  readonly shape: Shape;
  /** The schema of the record, or of an item of a list. Null when the response is not JSON. */
  readonly response: z.ZodType | null;
  readonly paging: Paging | null;
  /** The parameters that are files. */
  readonly files: ReadonlyMap<string, FileOptions>;
  readonly maxBodyBytes: number | null;
  readonly maxBodyValues: number | null;
  /** The content type of a download, if it does not depend on the file. */
  readonly contentType?: string | null;
  /** A download whose caller may be assumed. */
  readonly assumable?: true;
  /** Decides about the uploaded file before it arrives. */
  readonly place?: (ctx: Context, sent: Parameters, http: Exchange) => Promise<FilePlace>;
  readonly admit?: (ctx: Context, sent: Parameters, http: Exchange) => Promise<void>;
  readonly rawBody: boolean;
  readonly removedInV5: Replacement | null;
  /** Set if the route is deprecated in version 4, also if version 5 removes it. */
  readonly deprecated: Replacement | null;
  handle(ctx: Context, sent: Parameters, http: Exchange): Promise<Outcome>;
}

/** A path in the OpenAPI document that is served outside this folder, with its own formats and errors. */
export type Endpoint = Omit<Route, 'kind' | 'handle' | 'place' | 'admit'> & {
  readonly kind: 'elsewhere';
  /** The prefix of the path. Null: the root of the host. */
  readonly server: string | null;
};

/** Declares an `Endpoint`. `response: null` means a redirect for status 302, and a page otherwise. */
export const endpoint = (
  declaration: Declaration<string, never> & {
    readonly input?: Shape;
    readonly response: z.ZodType | null;
    readonly server?: string;
  },
): Endpoint => ({
  ...describe(declaration, shapeOf(declaration)),
  kind: 'elsewhere',
  server: declaration.server ?? null,
  status: declaration.status ?? 200,
  response: declaration.response,
  paging: null,
});

const API_PREFIX = '/api/v4';
const V5_PREFIX = '/api/v5';
const NOTHING = { nothing: true } as const;

const describe = (declaration: Declaration<string, never>, shape: Shape) => {
  const files = new Map<string, FileOptions>();
  for (const [name, schema] of Object.entries(shape)) {
    const file = kindOf(schema)?.file;
    if (file) files.set(name, file);
  }
  const scopes: readonly TokenScope[] =
    declaration.scopes ?? (declaration.method === 'GET' ? READ_SCOPES : WRITE_SCOPES);
  return {
    method: declaration.method,
    path: declaration.path,
    url: (declaration.root ? '' : API_PREFIX) + declaration.path,
    v5Url: (declaration.root ? (declaration.v5 ?? '') : V5_PREFIX) + declaration.path,
    pathNames: [...declaration.path.matchAll(/[:*]([A-Za-z_]+)/g)].map((match) => match[1] ?? ''),
    tag: declaration.tag,
    summary: declaration.summary,
    description: declaration.description ?? null,
    auth: declaration.auth ?? 'required',
    scopes: declaration.jobTokens ? ([...scopes, JOB_TOKEN_SCOPE] as const) : scopes,
    admin: declaration.admin ?? false,
    refusals: declaration.refusals ?? {},
    shape,
    files,
    maxBodyBytes: declaration.maxBodyBytes ?? null,
    maxBodyValues: declaration.maxBodyValues ?? null,
    rawBody: declaration.rawBody ?? false,
    removedInV5: declaration.removedInV5 ?? null,
    deprecated: declaration.removedInV5 ?? declaration.deprecated ?? null,
  } as const;
};

const READ_SCOPES = ['api', 'read_api'] as const satisfies readonly TokenScope[];
const WRITE_SCOPES = ['api'] as const satisfies readonly TokenScope[];
