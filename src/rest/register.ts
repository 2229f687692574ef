import type { ServerResponse } from 'node:http';
import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { drainBody } from '#platform/concurrency/drain.ts';
import { type Actor, anonymous, type Context, type Services } from '#platform/context.ts';
import { boundArrivingBodies } from './arriving-bodies.ts';
import { requireAccess } from './auth.ts';
import { asFormError, isMultipart, MAX_BODY_BYTES, receiveForm, registerBodyParsers, releaseAll } from './body.ts';
import { deprecatedNames, noteDeprecated, type Versions } from './deprecation.ts';
import { toJson } from './encoded-json.ts';
import { FastifyExchange } from './exchange.ts';
import type { Parameters } from './nested.ts';
import {
  assumeContext,
  awaitsBody,
  type ContextDependencies,
  namesCaller,
  type OpenOptions,
  openContext,
  readQuery,
} from './open-context.ts';
import { forgetHeaders, sendDownload, sendNothing, sendPayload } from './respond.ts';
import type { ApiVersion, Download, Outcome, Route } from './route.ts';
import type { SpooledFile } from './upload.ts';
import { answerInV5 } from './v5-records.ts';
import { requireV5, watchedOf } from './v5-requests.ts';
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
    /** 5 for requests below `/api/v5`, which are routed like those below `/api/v4`. */
    apiVersion: ApiVersion;
  }
  interface FastifyContextConfig {
    maxBodyValues?: number;
    rawBody?: boolean;
    /** The declaration that the handler serves. */
    declared?: Route;
  }
}

export interface RestDependencies extends ContextDependencies {
  /** Returns what the operator has decided about the versions of the API. */
  readonly versions: () => Promise<Versions>;
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
    boundArrivingBodies(scope);
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

interface RestRequest {
  Params: Record<string, string>;
  Body: Parameters | Buffer | undefined;
}

type RestFastifyRequest = FastifyRequest<RestRequest>;

const registerRoute = (fastify: FastifyInstance, route: Route, dependencies: RestDependencies): void => {
  const { services } = dependencies;
  const readPath = pathReader(route.url);
  const watched = watchedOf(route);
  /** The credential is not read, and the request does not count: a runner polls more often than others may. */
  const own: OpenOptions = route.auth === 'own' ? { given: { kind: 'none' }, counted: true } : {};
  const noteUse = async (request: RestFastifyRequest, actor: Actor, sent: Parameters, isTokenInQuery: boolean) => {
    if (request.apiVersion === 5) return;
    const names = deprecatedNames(route, watched, sent, isTokenInQuery);
    await noteDeprecated(request, { names, actor, route }, dependencies);
  };
  /** A request that is refused before its handler has used what its URL says. Its body may not have been read. */
  const noting =
    <T>(work: (request: RestFastifyRequest, reply: FastifyReply) => Promise<T>) =>
    async (request: RestFastifyRequest, reply: FastifyReply): Promise<T> => {
      try {
        return await work(request, reply);
      } catch (error) {
        if (!request.deprecation) {
          const query = readQuery(request);
          await noteUse(request, request.admitted?.actor ?? anonymous, query, query.access_token !== undefined);
        }
        throw error;
      }
    };
  const exchangeOf = (request: RestFastifyRequest, reply: FastifyReply) =>
    new FastifyExchange(request, reply, services.urls.base, route.status);
  const handle = async (
    ctx: Context,
    request: RestFastifyRequest,
    reply: FastifyReply,
    sent: Parameters,
    isTokenInQuery: boolean,
  ) => {
    Object.assign(sent, readPath(request.params));
    await noteUse(request, ctx.actor, sent, isTokenInQuery);
    requireAccess(ctx.actor, route);
    if (request.apiVersion === 5) requireV5(watched, sent);
    const exchange = exchangeOf(request, reply);
    const work = async (): Promise<Answer> => {
      const outcome = await route.handle(ctx, sent, exchange);
      if (dependencies.checkResponses) checkOutcome(route, outcome);
      const { status } = exchange;
      if ('download' in outcome) return { status, download: outcome.download };
      if (!('body' in outcome) || status === 204) return { status };
      const body = request.apiVersion === 5 ? inV5(route, outcome.body, services) : outcome.body;
      return { status, payload: toJson(body) };
    };
    return route.kind === 'list' ? services.answers.inTurn(ctx.signal, work) : work();
  };
  /** Refuses unauthorised callers before their body is read. */
  const admit = noting(async (request, reply) => {
    const query = readQuery(request);
    if (route.auth !== 'own' && awaitsBody(request, query, services)) return;
    const ctx = await openContext(request, dependencies, query, own);
    request.admitted = ctx;
    requireAccess(ctx.actor, route);
    const early = { ...query, ...readPath(request.params) };
    await route.admit?.(ctx, early, exchangeOf(request, reply));
  });
  // Some streams start work that is not worth starting for a caller who may be refused.
  const isLazy = route.kind !== 'stream' || route.assumable === true;
  const mayAssume = route.method === 'GET' && isLazy && route.auth !== 'own';
  for (const url of routerPaths(route.url)) {
    fastify.route<RestRequest>({
      method: route.method === 'GET' ? ['GET', 'HEAD'] : route.method,
      url,
      bodyLimit: route.maxBodyBytes ?? MAX_BODY_BYTES,
      config: {
        declared: route,
        ...(route.maxBodyValues === null ? {} : { maxBodyValues: route.maxBodyValues }),
        ...(route.rawBody ? { rawBody: true } : {}),
      },
      ...(route.method === 'GET' ? {} : { onRequest: admit }),
      handler: noting(async (request, reply) => {
        const sent = readQuery(request);
        const isTokenInQuery = sent.access_token !== undefined;
        const assumed = mayAssume ? await assumeContext(request, dependencies, sent) : null;
        if (assumed?.callerCheck) {
          const work = () => handle(assumed, request, reply, sent, isTokenInQuery);
          const answer = await assumed.callerCheck.during(services.pool, work);
          if (answer) return send(reply, answer, services);
          forgetHeaders(reply);
          request.userId = null;
          request.deprecation = null;
        }
        const body = Buffer.isBuffer(request.body) ? null : (request.body ?? null);
        const multipartBody = body === null && !route.rawBody && isMultipart(request);
        const { admitted } = request;
        const ctx =
          admitted && (route.auth === 'own' || !namesCaller(body))
            ? admitted
            : await openContext(request, dependencies, sent, { body, counted: admitted !== null, ...own });
        if (body !== null) Object.assign(sent, body);
        let files: readonly SpooledFile[] = NO_FILES;
        try {
          if (multipartBody && route.method !== 'GET') {
            // Checks access before the form is read.
            requireAccess(ctx.actor, route);
            const early = { ...sent, ...readPath(request.params) };
            const exchange = exchangeOf(request, reply);
            const place = (await route.place?.(ctx, early, exchange)) ?? null;
            const form = await receiveForm(request, ctx, route.files, place).catch((error: unknown) => {
              throw asFormError(error);
            });
            files = form.files;
            Object.assign(sent, form.fields);
          }
          return await send(reply, await handle(ctx, request, reply, sent, isTokenInQuery), services);
        } finally {
          if (files.length > 0) await releaseAll(files);
        }
      }),
    });
  }
};

/** Makes the answer of version 5. */
const inV5 = ({ response }: Route, body: unknown, { urls }: Pick<Services, 'urls'>): unknown =>
  response ? answerInV5(response, body, urls.base) : body;

const NO_FILES: readonly SpooledFile[] = [];

/** An outcome that is ready to be sent. */
interface Answer {
  readonly status: number;
  readonly payload?: Buffer;
  readonly download?: Download;
}

const send = (
  reply: FastifyReply,
  { status, payload, download }: Answer,
  { answers }: Pick<Services, 'answers'>,
): FastifyReply | Promise<FastifyReply> => {
  if (download) return sendDownload(reply, status, download);
  if (!payload) return sendNothing(reply, status);
  answers.hold(reply.raw, reply.request.ip, payload.length);
  return sendPayload(reply, status, payload);
};

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
