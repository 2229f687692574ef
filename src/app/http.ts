import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { Histogram, type Registry } from 'prom-client';
import { sendErrorPage, wantsPage } from '#pages/error-page.ts';
import { forRequest } from '#platform/caller/caller.ts';
import { trustOf } from '#platform/caller/trusted-proxies.ts';
import type { Context, Services } from '#platform/context.ts';
import type { Logger } from '#platform/log.ts';
import { splitTarget } from '#platform/urls.ts';
import { mountApiDocs } from '#rest/api-docs.ts';
import type { Credential } from '#rest/auth.ts';
import type { Deprecation } from '#rest/deprecation.ts';
import { answerError, methodNotAllowed, NO_SUCH_ROUTE, RestError } from '#rest/errors.ts';
import { methodsByPath } from '#rest/methods.ts';
import { openContext, readQuery } from '#rest/open-context.ts';
import { type RestDependencies, registerRoutes } from '#rest/register.ts';
import { sendError, sendJson } from '#rest/respond.ts';
import type { ApiVersion, Route } from '#rest/route.ts';
import { V4, V5 } from '#rest/v5.ts';
import { requireQueryOfV5, routeRemoved } from '#rest/v5-requests.ts';
import { Connections } from './connections.ts';
import { answerPreflight, isPreflight, showToOrigins } from './cross-origin.ts';
import { mountMetrics } from './metrics.ts';
import { boundConnections } from './open-files.ts';
import { rawAnswer } from './raw-answers.ts';

export interface HttpOptions extends RestDependencies {
  readonly routes: readonly Route[];
  /** Other interfaces (GraphQL, git, pages), each in a scope of its own with its own body parsers. */
  readonly mounts?: readonly Mount[];
  readonly metrics: Registry;
  /** One check for each component, for `/-/readiness`. Each resolves when its component is ready. */
  readonly readiness: Readonly<Record<string, () => Promise<void>>>;
  /**
   * Decides which requests may upgrade from HTTP; none by default. Other `Upgrade` headers are ignored (RFC 9110 §7.8).
   */
  readonly mayUpgrade?: (request: IncomingMessage) => boolean;
  /** The OpenAPI document of a version, built on the first request for it. */
  readonly openApi: (version: ApiVersion) => object;
  /** Counts the use of what is deprecated. Called after the answer. */
  readonly countDeprecated: (use: Pick<Deprecation, 'names' | 'actor'>) => void;
}

export interface MountDependencies {
  readonly services: Services;
  readonly versions: RestDependencies['versions'];
  /**
   * Authenticates the request by its headers and query, or by the given credential, and creates its context. Throws the
   * same errors as REST.
   */
  contextOf(request: FastifyRequest, credential?: Credential): Promise<Context>;
}

export type Mount = (fastify: FastifyInstance, dependencies: MountDependencies) => Promise<void> | void;

const MAX_URL_LENGTH = 16 * 1024;
const MAX_HEADER_BYTES = 64 * 1024;
const KEEP_ALIVE_MS = 72_000;
/** Counted from the opening of the connection, or from the first byte of a later request, to the end of the headers. */
const HEADERS_TIMEOUT_MS = 20_000;
const CHECK_CONNECTIONS_MS = 2_000;
const READINESS_TIMEOUT_MS = 3_000;

/** The HTTP server with all routes, not yet listening. `close()` stops accepting and finishes running requests. */
export const createHttp = async (options: HttpOptions): Promise<FastifyInstance> => {
  const { services } = options;
  const { log } = services;
  const isProxy = trustOf(services.config.trustedProxies);
  const fastify = Fastify({
    logger: false,
    genReqId: readRequestId,
    requestIdHeader: false,
    rewriteUrl: ({ url = '' }) => routedUrl(url),
    exposeHeadRoutes: false,
    // Routes parse their own input, and answers are written by rest/respond.ts. Fastify would load two compilers.
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    keepAliveTimeout: KEEP_ALIVE_MS,
    forceCloseConnections: 'idle',
    trustProxy: services.config.trustedProxies.length > 0 ? isProxy : false,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: CHECK_CONNECTIONS_MS,
      shouldUpgradeCallback: options.mayUpgrade ?? (() => false),
    },
    routerOptions: { maxParamLength: MAX_URL_LENGTH, ignoreTrailingSlash: true },
    frameworkErrors: (error, request, reply) => {
      reply.header('X-Request-Id', request.id);
      sendError(reply, error);
    },
    clientErrorHandler: (error, socket) => {
      if (error.code === 'ECONNRESET' || !socket.writable) return;
      socket.end(
        rawAnswer(error.code === 'HPE_HEADER_OVERFLOW' ? 431 : error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400),
      );
    },
  });
  // Added when the server listens, because until then Fastify reports errors to its caller. If a connection cannot be
  // accepted, for example for lack of file descriptors, only that connection is lost.
  fastify.addHook('onListen', async () => {
    fastify.server.on('error', (error) => log.error({ err: error }, 'a connection could not be accepted'));
  });
  const limits = { ...services.config, connections: boundConnections(services.config.connections, log) };
  const connections = new Connections(limits, isProxy, log);
  connections.attach(fastify.server);
  fastify.decorateRequest('abortController', null);
  fastify.decorateRequest('startedAt', 0);
  fastify.decorateRequest('userId', null);
  fastify.decorateRequest('response', null);
  fastify.decorateRequest('admitted', null);
  fastify.decorateRequest('apiVersion', 4);
  fastify.decorateRequest('deprecation', null);

  const record = requestRecorder(log, options.metrics);
  const methods = {
    4: methodsByPath(options.routes),
    5: methodsByPath(options.routes.filter(({ removedInV5 }) => removedInV5 === null)),
  };
  fastify.addHook('onRequest', (request, reply, done) => {
    request.startedAt = performance.now();
    request.response = reply.raw;
    const body = connections.watch(request.raw, reply.raw);
    // Set on the raw response, so that mounts that bypass Fastify send it too.
    reply.raw.setHeader('X-Request-Id', request.id);
    showToOrigins(request, reply);
    // The client expected another protocol after this response, so the connection ends with it.
    if (request.headers.upgrade !== undefined) reply.raw.setHeader('Connection', 'close');
    reply.raw.once('close', () => {
      if (!reply.raw.writableFinished) request.abortController?.abort();
      if (body) connections.forget(body);
      record(request, reply);
      if (request.deprecation) options.countDeprecated(request.deprecation);
    });
    if (isPreflight(request)) return void answerPreflight(request, reply);
    // An unknown path is refused before its body is parsed, so an invalid body does not change the error.
    const refuse = () => {
      const methodsOf = methods[request.apiVersion];
      const isUnknown = request.is404 || isShortened(request);
      return refuseUrl(request.raw.url ?? '') ?? (isUnknown ? noSuchRoute(request, methodsOf) : undefined);
    };
    if (!request.originalUrl.startsWith(V5)) return done(refuse());
    request.apiVersion = 5;
    admitV5(request, options).then(() => done(refuse()), done);
  });
  fastify.addHook('preHandler', (_request, _reply, done) => forRequest(done));
  fastify.setNotFoundHandler((request, reply) =>
    wantsPage(request) ? sendErrorPage(reply, 404) : sendJson(reply, 404, NO_SUCH_ROUTE),
  );
  fastify.setErrorHandler((error, request, reply) => {
    if (request.abortController?.signal.aborted || (request.raw.destroyed && !request.raw.complete)) {
      // The client has gone, and the error is a result of the abort.
      log.debug({ err: error, request_id: request.id }, 'request aborted by the client');
      return;
    }
    if (request.is404 && wantsPage(request)) return void sendErrorPage(reply, answerError(error).status);
    if (sendError(reply, error).unexpected) log.error({ err: error, request_id: request.id }, 'request failed');
  });

  await registerRoutes(fastify, options.routes, options);
  const dependencies: MountDependencies = {
    services,
    versions: options.versions,
    contextOf: (request, credential) => openContext(request, options, readQuery(request), { given: credential }),
  };
  for (const mount of options.mounts ?? []) await fastify.register(async (scope) => mount(scope, dependencies));
  await fastify.register(async (scope) => mountApiDocs(scope, { document: options.openApi }));
  mountProbes(fastify, options);
  // This port is public, so metrics need a token here. Without a token they are served only at a separate address, if
  // any.
  const { metricsAddress, metricsToken: token } = services.config;
  if (metricsAddress === null && token !== null) mountMetrics(fastify, { metrics: options.metrics, token });
  await fastify.ready();
  return fastify;
};

/** Closes the server. Cuts connections that are still open after `timeoutMs`. */
export const closeHttp = async (fastify: FastifyInstance, timeoutMs: number): Promise<void> => {
  const timer = setTimeout(() => fastify.server.closeAllConnections(), timeoutMs);
  // Busy connections become idle keep-alive connections after their response, and `close()` would wait for them.
  const idle = setInterval(() => fastify.server.closeIdleConnections(), IDLE_SWEEP_MS);
  try {
    await fastify.close();
  } finally {
    clearInterval(idle);
    clearTimeout(timer);
  }
};

/** Returns no compiler. Fastify only asks for one for a route with a schema. */
const noSchemas = () => () => {
  throw new Error('routes declare no Fastify schemas');
};

const IDLE_SWEEP_MS = 50;

const REQUEST_ID = /^[\w.:-]{1,128}$/;

/** Uses the client's own request id (runners send one), so that clients can find their requests in our logs. */
const readRequestId = ({ headers }: IncomingMessage): string => {
  const given = headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
};

/** Requests of version 5 take the routes of version 4, and are told apart by `apiVersion` (docs/decisions/0053). */
const routedUrl = (url: string): string => {
  if (!url.startsWith(V5)) return url;
  const path = url.slice(V5.length);
  // OAuth has no version, but section 9 of specification 2 removes names from this endpoint.
  return /^oauth\/token\/info(?:\?|$)/.test(path) ? `/${path}` : V4 + path;
};

/** Refuses requests for what version 5 does not have, before their caller is known. */
const admitV5 = async (request: FastifyRequest, { versions }: Pick<HttpOptions, 'versions'>): Promise<void> => {
  if (!(await versions()).isV5Enabled) throw new RestError(404, NO_SUCH_ROUTE);
  const { declared } = request.routeOptions.config;
  if (declared?.removedInV5) throw routeRemoved(declared, declared.removedInV5);
  requireQueryOfV5(readQuery(request));
};

const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:[/?]|$)/i;

const pathOf = (url: string): string => splitTarget(url).path;

const refuseUrl = (url: string): Error | undefined => {
  if (url.length > MAX_URL_LENGTH) return new RestError(414, { message: '414 Request-URI Too Large' });
  return DOT_SEGMENT.test(pathOf(url)) ? new RestError(400, { error: '400 Bad Request' }) : undefined;
};

const CHANGING: ReadonlySet<string> = new Set(['PUT', 'PATCH', 'DELETE']);

/**
 * Whether the request may change something other than what its path named. Clients resolve `..` before they send a path:
 * the deletion of a label of that name, `/projects/1/labels/..`, arrives as `DELETE /projects/1/`. Paths of other mounts
 * may end with a slash.
 */
const isShortened = ({ method, raw: { url = '' }, routeOptions }: FastifyRequest): boolean =>
  routeOptions.config.declared !== undefined && CHANGING.has(method) && pathOf(url).endsWith('/');

/** 405 for a known path that lacks the method, else 404. */
const noSuchRoute = (
  { method, raw: { url = '' } }: FastifyRequest,
  methodsOf: (path: string) => readonly string[],
): RestError => {
  const methods = methodsOf(pathOf(url));
  const isKnown = methods.length === 0 || methods.includes(method);
  return isKnown ? new RestError(404, NO_SUCH_ROUTE) : methodNotAllowed(methods);
};

const CLIENT_CLOSED_REQUEST = 499;

/**
 * Writes the access log and the request metrics. Records the declared route without the query: values may be secret.
 */
const requestRecorder = (log: Logger, metrics: Registry) => {
  const durations = new Histogram({
    name: 'millrace_http_request_duration_seconds',
    help: 'Duration of HTTP requests by route',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30],
    registers: [metrics],
  });
  return (request: FastifyRequest, reply: FastifyReply): void => {
    const url = request.routeOptions.url ?? 'unknown';
    const route = request.apiVersion === 5 ? url.replace(V4, V5) : url;
    const status = reply.raw.writableFinished ? reply.raw.statusCode : CLIENT_CLOSED_REQUEST;
    const durationMs = performance.now() - request.startedAt;
    durations.observe({ method: request.method, route, status }, durationMs / 1000);
    log.info(
      {
        request_id: request.id,
        method: request.method,
        route,
        status,
        duration_ms: Math.round(durationMs * 100) / 100,
        user_id: request.userId,
      },
      'request',
    );
  };
};

const mountProbes = (fastify: FastifyInstance, { readiness, services }: HttpOptions): void => {
  fastify.route({
    method: ['GET', 'HEAD'],
    url: '/-/liveness',
    handler: (_request, reply) => sendJson(reply, 200, { status: 'ok' }),
  });
  fastify.route({
    method: ['GET', 'HEAD'],
    url: '/-/readiness',
    handler: async (_request, reply) => {
      const checks = await Promise.all(
        Object.entries(readiness).map(async ([name, check]) => {
          try {
            await withTimeout(check(), READINESS_TIMEOUT_MS);
            return [name, { status: 'ok' }] as const;
          } catch (error) {
            services.log.warn({ err: error, check: name }, 'not ready');
            return [name, { status: 'failed' }] as const;
          }
        }),
      );
      const ready = checks.every(([, { status }]) => status === 'ok');
      return sendJson(reply, ready ? 200 : 503, { status: ready ? 'ok' : 'failed', ...Object.fromEntries(checks) });
    },
  });
};

const withTimeout = async (work: Promise<void>, timeoutMs: number): Promise<void> => {
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no response within ${timeoutMs} ms`)), timeoutMs);
  try {
    await Promise.race([work, promise]);
  } finally {
    clearTimeout(timer);
  }
};
