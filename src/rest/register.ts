import type { ServerResponse } from 'node:http';
import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Actor, Client, Context, Services } from '#platform/context.ts';
import { type Authenticate, type Credential, hasCredential, readCaller, readSudo, requireAccess } from './auth.ts';
import { asFormError, isMultipart, MAX_BODY_BYTES, receiveForm, registerBodyParsers, releaseAll } from './body.ts';
import { type Parameters, parseForm } from './nested.ts';
import { sendDownload, sendJson, sendNothing } from './respond.ts';
import type { Exchange, Outcome, Route } from './route.ts';
import type { SpooledFile } from './upload.ts';
import { toJson } from './written.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** Aborts the work for a client that has gone. Made when a context is. */
    abortController: AbortController | null;
    /** `performance.now()` when the request came. */
    startedAt: number;
    /** For the access log. */
    userId: number | null;
    /** The answer to come: headers set here stay, also when it becomes an error. */
    response: ServerResponse | null;
  }
}

interface ContextRequest {
  readonly actor: Actor;
  readonly requestId: string;
  readonly chainId: string | null;
  readonly client: Client;
  readonly signal: AbortSignal;
}

export type Throttle = (request: {
  /** Null where the credential did not count. */
  readonly actor: Actor | null;
  readonly ip: string;
  /** Pages and git; else REST and GraphQL. */
  readonly web: boolean;
  setHeader(name: string, value: string): void;
}) => Promise<void>;

export interface RestDependencies {
  readonly services: Services;
  readonly authenticate: Authenticate;
  /** Counts the request; throws where its caller has made too many. */
  readonly throttle?: Throttle;
  readonly createContext: (request: ContextRequest) => Context;
  /** Holds each answer against its record, 500 where it does not fit: for tests. */
  readonly checkResponses?: boolean;
}

/** Serves the declared routes. */
export const registerRoutes = async (
  fastify: FastifyInstance,
  routes: readonly Route[],
  dependencies: RestDependencies,
): Promise<void> => {
  for (const route of routes) if (route.method === 'GET') registerRoute(fastify, route, dependencies);
  // Reading bodies is no concern of GET: its requests are spared the hooks.
  await fastify.register(async (scope) => {
    registerBodyParsers(scope);
    await scope.register(multipart);
    for (const route of routes) if (route.method !== 'GET') registerRoute(scope, route, dependencies);
  });
};

/** Finds out who asks and makes the request's one context. Query and body may carry the credential too. */
export const openContext = async (
  request: FastifyRequest,
  dependencies: Pick<RestDependencies, 'services' | 'authenticate' | 'throttle' | 'createContext'>,
  query: Parameters,
  body: Parameters | null = null,
  given?: Credential,
): Promise<Context> => {
  const { services, authenticate, throttle, createContext } = dependencies;
  const { headers, ip } = request;
  const route = request.routeOptions.url ?? '';
  const sent = body === null ? query : { ...query, ...body };
  const client = { ip, userAgent: headers['user-agent'] ?? null };
  const count = (actor: Actor | null) =>
    throttle?.({
      actor,
      ip,
      web: !route.startsWith('/api/'),
      setHeader: (name, value) => request.response?.setHeader(name, value),
    });
  let actor: Actor;
  try {
    actor = await authenticate(given ?? readCaller(request, sent, services), {
      method: request.method,
      route,
      ...client,
      requestId: request.id,
      sudo: readSudo(headers, sent),
      tokenInQuery: hasCredential(query),
    });
  } catch (error) {
    // Whoever tries one credential after the other is a caller without one.
    await count(null);
    throw error;
  }
  await count(actor);
  request.userId = actor.userId;
  request.abortController ??= new AbortController();
  return createContext({
    actor,
    requestId: request.id,
    client,
    chainId: readChainId(headers['x-gitlab-event-uuid']),
    signal: request.abortController.signal,
  });
};

/** The query as parameters; 400 when it is malformed. */
export const readQuery = ({ raw: { url = '' } }: FastifyRequest): Parameters => {
  const mark = url.indexOf('?');
  return parseForm(mark < 0 ? '' : url.slice(mark + 1));
};

interface RestRequest {
  Params: Record<string, string>;
  Body: Parameters | undefined;
}

const registerRoute = (fastify: FastifyInstance, route: Route, dependencies: RestDependencies): void => {
  const { services } = dependencies;
  const wildcard = /\*([A-Za-z_]+)$/.exec(route.path)?.[1] ?? null;
  fastify.route<RestRequest>({
    method: route.method === 'GET' ? ['GET', 'HEAD'] : route.method,
    url: wildcard === null ? route.url : route.url.slice(0, -wildcard.length),
    bodyLimit: route.maxBodyBytes ?? MAX_BODY_BYTES,
    handler: async (request, reply) => {
      const sent = readQuery(request);
      const body = request.body ?? null;
      const multipartBody = body === null && isMultipart(request);
      const ctx = await openContext(request, dependencies, sent, body);
      if (body !== null) Object.assign(sent, body);
      requireAccess(ctx.actor, route);
      let files: readonly SpooledFile[] = NO_FILES;
      try {
        if (multipartBody && route.method !== 'GET') {
          const form = await receiveForm(request, ctx, route.files).catch((error: unknown) => {
            throw asFormError(error);
          });
          files = form.files;
          Object.assign(sent, form.fields);
        }
        for (const name in request.params)
          sent[name === '*' && wildcard !== null ? wildcard : name] = request.params[name];
        const exchange = new FastifyExchange(request, reply, services.urls.base, route.status);
        const outcome = await route.handle(ctx, sent, exchange);
        if (dependencies.checkResponses) checkOutcome(route, outcome);
        return await send(reply, exchange.status, outcome);
      } finally {
        if (files.length > 0) await releaseAll(files);
      }
    },
  });
};

const NO_FILES: readonly SpooledFile[] = [];

const send = (reply: FastifyReply, status: number, outcome: Outcome): FastifyReply | Promise<FastifyReply> => {
  if ('download' in outcome) return sendDownload(reply, status, outcome.download);
  return 'body' in outcome && status !== 204 ? sendJson(reply, status, outcome.body) : sendNothing(reply, status);
};

class FastifyExchange implements Exchange {
  readonly externalUrl: string;
  status: number;
  readonly #request: FastifyRequest<RestRequest>;
  readonly #reply: FastifyReply;

  constructor(request: FastifyRequest<RestRequest>, reply: FastifyReply, externalUrl: string, status: number) {
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

/** The id of a chain of hooks and the requests they cause; others' ideas of one start a new chain. */
const readChainId = (header: string | string[] | undefined): string | null =>
  typeof header === 'string' && /^[\w-]{1,64}$/.test(header) ? header : null;

const checkOutcome = (route: Route, outcome: Outcome): void => {
  if (!route.response || !('body' in outcome)) return;
  const result = (route.kind === 'list' ? route.response.array() : route.response).safeParse(
    route.kind === 'list' ? JSON.parse(toJson(outcome.body)) : outcome.body,
  );
  if (!result.success)
    throw new Error(`${route.method} ${route.path} answers what is not its record: ${result.error.message}`);
};
