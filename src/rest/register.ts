import type { ServerResponse } from 'node:http';
import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { CallerCheck } from '#platform/caller-check.ts';
import type { Actor, Client, Context, Services } from '#platform/context.ts';
import { drainBody } from '#platform/drain.ts';
import { readChainId } from '#platform/event-chain.ts';
import { splitTarget } from '#platform/urls.ts';
import {
  type Assume,
  type Authenticate,
  type Credential,
  hasCredential,
  type RequestInfo,
  readCaller,
  readSudo,
  requireAccess,
} from './auth.ts';
import {
  asFormError,
  isMultipart,
  MAX_BODY_BYTES,
  NOBODYS_BODY_BYTES,
  receiveForm,
  registerBodyParsers,
  releaseAll,
} from './body.ts';
import { toJson } from './encoded-json.ts';
import { type Parameters, parseForm } from './nested.ts';
import { forgetHeaders, sendDownload, sendJson, sendNothing } from './respond.ts';
import type { Exchange, Outcome, Route } from './route.ts';
import type { SpooledFile } from './upload.ts';
import { pathReader, routerPaths } from './wildcards.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Aborts the work when the client disconnects. Created with the context. */
    abortController: AbortController | null;
    /** `performance.now()` at the start of the request. */
    startedAt: number;
    /** For the access log. */
    userId: number | null;
    /** The raw response. Headers set here remain even if the response becomes an error. */
    response: ServerResponse | null;
    /** The request's context, if it was created before the body was read. */
    admitted: Context | null;
  }
  interface FastifyContextConfig {
    maxBodyValues?: number;
  }
}

interface ContextRequest {
  readonly actor: Actor;
  readonly requestId: string;
  readonly chainId: string | null;
  readonly client: Client;
  readonly signal: AbortSignal;
  readonly callerCheck?: CallerCheck | undefined;
}

export type Throttle = (request: {
  /** Null when the credential was invalid. */
  readonly actor: Actor | null;
  readonly ip: string;
  /** True for pages and git, false for REST and GraphQL. */
  readonly web: boolean;
  setHeader(name: string, value: string): void;
}) => Promise<void>;

export interface RestDependencies {
  readonly services: Services;
  readonly authenticate: Authenticate;
  /** Lets reads run for an assumed caller while the credential is re-checked. Such requests are not counted. */
  readonly assume?: Assume;
  /** Counts the request. Throws when its caller has made too many. */
  readonly throttle?: Throttle;
  readonly createContext: (request: ContextRequest) => Context;
  /** Validates each response against its record, and answers 500 on a mismatch. For tests. */
  readonly checkResponses?: boolean;
}

/** Serves the declared routes. */
export const registerRoutes = async (
  fastify: FastifyInstance,
  routes: readonly Route[],
  dependencies: RestDependencies,
): Promise<void> => {
  for (const route of routes) if (route.method === 'GET') registerRoute(fastify, route, dependencies);
  // GET requests have no body, so they are registered outside this scope and skip its hooks.
  await fastify.register(async (scope) => {
    registerBodyParsers(scope);
    await scope.register(multipart);
    scope.addHook('onSend', (request, reply, payload, done) => {
      if (!request.raw.complete) {
        reply.removeHeader('connection');
        drainBody(request.raw);
      }
      done(null, payload);
    });
    for (const route of routes) if (route.method !== 'GET') registerRoute(scope, route, dependencies);
  });
};

type ContextDependencies = Pick<
  RestDependencies,
  'services' | 'authenticate' | 'assume' | 'throttle' | 'createContext'
>;

interface OpenOptions {
  readonly body?: Parameters | null;
  /** True when the request was already counted. */
  readonly counted?: boolean;
  /** Replaces the credential of the request. */
  readonly given?: Credential | undefined;
}

/** Authenticates the caller and creates the request's context. The credential may also be in the query or the body. */
export const openContext = async (
  request: FastifyRequest,
  dependencies: ContextDependencies,
  query: Parameters,
  { body = null, given, counted = false }: OpenOptions = {},
): Promise<Context> => {
  const sent = body === null ? query : { ...query, ...body };
  let actor: Actor;
  try {
    const credential = given ?? readCaller(request, sent, dependencies.services);
    actor = await dependencies.authenticate(credential, infoOf(request, query, sent));
  } catch (error) {
    // Failed credentials count as anonymous, so guessing is rate limited.
    if (!counted) await count(request, dependencies, null);
    throw error;
  }
  if (!counted) await count(request, dependencies, actor);
  return contextOf(request, dependencies, actor);
};

/** Returns the context of the assumed caller, which is still to be confirmed, or null. */
const assumeContext = async (
  request: FastifyRequest,
  dependencies: ContextDependencies,
  query: Parameters,
): Promise<Context | null> => {
  const { services, assume } = dependencies;
  let assumed: Awaited<ReturnType<Assume>> = null;
  try {
    assumed = (await assume?.(readCaller(request, query, services), infoOf(request, query, query))) ?? null;
  } catch {
    // `openContext` reports the invalid credential.
  }
  return assumed && contextOf(request, dependencies, assumed.actor, assumed.callerCheck);
};

const infoOf = (request: FastifyRequest, query: Parameters, sent: Parameters): RequestInfo => ({
  method: request.method,
  route: request.routeOptions.url ?? '',
  ip: request.ip,
  userAgent: request.headers['user-agent'] ?? null,
  requestId: request.id,
  sudo: readSudo(request.headers, sent),
  tokenInQuery: hasCredential(query),
});

const count = (request: FastifyRequest, { throttle }: ContextDependencies, actor: Actor | null) =>
  throttle?.({
    actor,
    ip: request.ip,
    web: !(request.routeOptions.url ?? '').startsWith('/api/'),
    setHeader: (name, value) => request.response?.setHeader(name, value),
  });

const contextOf = (
  request: FastifyRequest,
  { createContext, services }: ContextDependencies,
  actor: Actor,
  callerCheck?: CallerCheck,
): Context => {
  request.userId = actor.userId;
  request.abortController ??= new AbortController();
  return createContext({
    actor,
    requestId: request.id,
    client: { ip: request.ip, userAgent: request.headers['user-agent'] ?? null },
    chainId: readChainId(services.secretKey, request.headers['x-gitlab-event-uuid']),
    signal: request.abortController.signal,
    callerCheck,
  });
};

/** The query as parameters; 400 when it is malformed. */
export const readQuery = ({ raw: { url = '' } }: FastifyRequest): Parameters => parseForm(splitTarget(url).query);

interface RestRequest {
  Params: Record<string, string>;
  Body: Parameters | undefined;
}

type RestFastifyRequest = FastifyRequest<RestRequest>;

const registerRoute = (fastify: FastifyInstance, route: Route, dependencies: RestDependencies): void => {
  const { services } = dependencies;
  const readPath = pathReader(route.url);
  const handle = async (ctx: Context, request: RestFastifyRequest, reply: FastifyReply, sent: Parameters) => {
    requireAccess(ctx.actor, route);
    Object.assign(sent, readPath(request.params));
    const exchange = new FastifyExchange(request, reply, services.urls.base, route.status);
    const outcome = await route.handle(ctx, sent, exchange);
    if (dependencies.checkResponses) checkOutcome(route, outcome);
    return { status: exchange.status, outcome };
  };
  /** Refuses unauthorised callers before their body is read. */
  const admit = async (request: RestFastifyRequest): Promise<void> => {
    const query = readQuery(request);
    if (mayCarryCredential(request) && isNobody(request, query, services)) return;
    const ctx = await openContext(request, dependencies, query);
    requireAccess(ctx.actor, route);
    request.admitted = ctx;
  };
  // Streams start to send before the caller can be confirmed, so they never use an assumed caller.
  const mayAssume = route.method === 'GET' && route.kind !== 'stream';
  for (const url of routerPaths(route.url)) {
    fastify.route<RestRequest>({
      method: route.method === 'GET' ? ['GET', 'HEAD'] : route.method,
      url,
      bodyLimit: route.maxBodyBytes ?? MAX_BODY_BYTES,
      config: route.maxBodyValues === null ? {} : { maxBodyValues: route.maxBodyValues },
      ...(route.method === 'GET' ? {} : { onRequest: admit }),
      handler: async (request, reply) => {
        const sent = readQuery(request);
        const assumed = mayAssume ? await assumeContext(request, dependencies, sent) : null;
        if (assumed) {
          const answer = await whileAssumed(assumed, () => handle(assumed, request, reply, sent));
          if (answer) return send(reply, answer.status, answer.outcome);
          forgetHeaders(reply);
          request.userId = null;
        }
        const body = request.body ?? null;
        const multipartBody = body === null && isMultipart(request);
        const { admitted } = request;
        const ctx =
          admitted && !namesCaller(body)
            ? admitted
            : await openContext(request, dependencies, sent, { body, counted: admitted !== null });
        if (body !== null) Object.assign(sent, body);
        let files: readonly SpooledFile[] = NO_FILES;
        try {
          if (multipartBody && route.method !== 'GET') {
            // Checks access before the form is read.
            requireAccess(ctx.actor, route);
            const form = await receiveForm(request, ctx, route.files).catch((error: unknown) => {
              throw asFormError(error);
            });
            files = form.files;
            Object.assign(sent, form.fields);
          }
          const { status, outcome } = await handle(ctx, request, reply, sent);
          return await send(reply, status, outcome);
        } finally {
          if (files.length > 0) await releaseAll(files);
        }
      },
    });
  }
};

const mayCarryCredential = ({ headers }: FastifyRequest): boolean =>
  headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) <= NOBODYS_BODY_BYTES;

const isNobody = (request: FastifyRequest, query: Parameters, services: Services): boolean => {
  try {
    return readCaller(request, query, services).kind === 'none';
  } catch {
    // `openContext` reports the invalid credential.
    return false;
  }
};

/** Returns whether the body carries a credential or a sudo user. */
const namesCaller = (body: Parameters | null): boolean =>
  body !== null && (hasCredential(body) || body.sudo !== undefined);

/**
 * Runs `work` for an assumed caller and confirms the caller. Returns or throws the outcome of `work`, or returns null
 * when the assumption was wrong.
 */
const whileAssumed = async <T>({ callerCheck, services }: Context, work: () => Promise<T>): Promise<T | null> => {
  const holds = () => callerCheck?.holds(services.pool) ?? true;
  try {
    const done = await work();
    return (await holds()) ? done : null;
  } catch (error) {
    if (await holds()) throw error;
    return null;
  }
};

const NO_FILES: readonly SpooledFile[] = [];

const send = (reply: FastifyReply, status: number, outcome: Outcome): FastifyReply | Promise<FastifyReply> => {
  if ('download' in outcome) return sendDownload(reply, status, outcome.download);
  return 'body' in outcome && status !== 204 ? sendJson(reply, status, outcome.body) : sendNothing(reply, status);
};

class FastifyExchange implements Exchange {
  readonly externalUrl: string;
  status: number;
  readonly #request: RestFastifyRequest;
  readonly #reply: FastifyReply;

  constructor(request: RestFastifyRequest, reply: FastifyReply, externalUrl: string, status: number) {
    this.#request = request;
    this.#reply = reply;
    this.externalUrl = externalUrl;
    this.status = status;
  }

  get method() {
    return this.#request.method;
  }
  get url() {
    return this.#request.raw.url ?? '';
  }
  get headers() {
    return this.#request.headers;
  }
  get ip() {
    return this.#request.ip;
  }
  setHeader(name: string, value: string) {
    this.#reply.header(name, value);
  }
  setStatus(status: number) {
    this.status = status;
  }
}

const checkOutcome = (route: Route, outcome: Outcome): void => {
  if (!route.response || !('body' in outcome)) return;
  const result = (route.kind === 'list' ? route.response.array() : route.response).safeParse(
    route.kind === 'list' ? JSON.parse(toJson(outcome.body).toString()) : outcome.body,
  );
  if (!result.success)
    throw new Error(
      `${route.method} ${route.path} returned a response that does not match its record: ${result.error.message}`,
    );
};
