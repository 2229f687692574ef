import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { GraphQLError, type GraphQLSchema, type OperationTypeNode } from 'graphql';
import type { Plugin } from 'graphql-yoga';
import type { Caches } from '#platform/cache.ts';
import type { Answers } from '#platform/caller/answers.ts';
import { HeldBytes, type Hold } from '#platform/caller/held-bytes.ts';
import { drainBody } from '#platform/concurrency/drain.ts';
import type { Actor, Context } from '#platform/context.ts';
import type { EventFeed } from '#platform/event-log/feed.ts';
import type { Logger } from '#platform/log.ts';
import { splitTarget } from '#platform/urls.ts';
import { MIB } from '#platform/values/units.ts';
import { type Assume, type Caller, type ContextOf, rejectionOf } from './caller.ts';
import { Engine, Refused } from './engine.ts';
import { maskError } from './errors.ts';
import { sendGraphiql } from './graphiql.ts';
import { TOKEN_PATH } from './graphiql-session.ts';
import { answer, answerAssumed, answerJson, responseType } from './json-answers.ts';
import { LIMITS } from './limits.ts';
import { LiveHub, type LiveOptions, type RightsCheck } from './live.ts';
import { LiveBounds, type LiveLimits } from './live-bounds.ts';
import { readBody, readParams, readQuery } from './params.ts';
import { answerByEvents, EventStreams } from './sse.ts';
import { attachWebsocket, GRAPHQL_PATH, type WebsocketOptions } from './websocket.ts';

/** The Retry-After of rate limit refusals. */
const RETRY_AFTER_SECONDS = 30;
const EXPLORER_PATH = '/-/graphql-explorer';

export interface GraphqlOptions {
  /** Limits what is answered at a time. */
  readonly answers: Answers;
  readonly schema: GraphQLSchema;
  /** Authenticates a caller; see caller.ts for what it may throw. */
  readonly contextOf: ContextOf;
  /** Lets queries run while the credential is re-checked. */
  readonly assume?: Assume;
  /** Creates a context for a subscriber to resolve one event. */
  readonly contextFor: (actor: Actor) => Promise<Context>;
  readonly feed: EventFeed;
  /** Returns the viewers who may see an event. */
  readonly mayStillSee: RightsCheck;
  /** Returns the events of a history page that a viewer may see. */
  readonly seenBy: LiveOptions['seenBy'];
  /** Returns the subscribers whose credentials are still valid. */
  readonly stillValid: LiveOptions['stillValid'];
  /** The kinds of events after which a project or group is gone. */
  readonly endings: LiveOptions['endings'];
  readonly graphiqlEnabled: () => Promise<boolean>;
  /** Returns the CSRF token of the session whose cookie was sent, or null. */
  readonly csrfTokenOf: (headers: IncomingHttpHeaders) => string | null;
  readonly addressOf: WebsocketOptions['addressOf'];
  /** Counts the use of deprecated fields and arguments. */
  readonly countDeprecated?: (use: { readonly names: readonly string[]; readonly actor: Actor }) => void;
  /** The caches of this process. */
  readonly caches: Caches;
  /** The limits on streams in this process. */
  readonly limits: LiveLimits;
  readonly log: Logger;
}

export interface GraphqlMount {
  /** Returns the number of subscriptions that are open in this process. */
  subscribers(): number;
}

/**
 * Mounts GraphQL. GET requests and JSON go directly to the engine. Event streams and WebSockets go to live.ts. Other
 * forms of GraphQL over HTTP (urlencoded, `application/graphql`) go through Yoga to the same engine.
 */
export const mountGraphql = async (fastify: FastifyInstance, options: GraphqlOptions): Promise<GraphqlMount> => {
  const engine = new Engine(options.schema, options.caches, options.countDeprecated);
  const { log, contextOf, graphiqlEnabled, answers } = options;
  const hub = new LiveHub({
    engine,
    feed: options.feed,
    mayStillSee: options.mayStillSee,
    seenBy: options.seenBy,
    stillValid: options.stillValid,
    endings: options.endings,
    contextFor: options.contextFor,
    log,
  });
  const streams = new EventStreams();
  const bounds = new LiveBounds(options.limits);
  const arriving = new HeldBytes({ bytesPerAddress: 8 * MIB, bytesInAll: 32 * MIB });
  let yoga: ReturnType<typeof yogaOver> | undefined;

  await fastify.register(async (scope) => {
    // Bodies are read in the handler, which counts them as they arrive and parses most of them only once.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));

    scope.route({
      method: ['GET', 'POST'],
      url: GRAPHQL_PATH,
      handler: async (request, reply) => {
        const { headers } = request;
        if (request.method !== 'POST' && headers.accept?.includes('text/html') && (await graphiqlEnabled())) {
          return sendGraphiql(request, reply);
        }
        const body = request.method === 'POST' ? await readBytes(request, arriving.from(request.ip)) : null;
        if (body === 'too large' || body === 'too much') {
          drainBody(request.raw);
          if (body === 'too large') return answerTooLarge(reply, LIMITS.bodyBytes);
          return answer(reply.header('retry-after', RETRY_AFTER_SECONDS), 429, [
            'Too many large requests are arriving from your address',
          ]);
        }
        const isJson =
          body !== null && JSON_TYPE.test(headers['content-type'] ?? '') && headers['content-encoding'] === undefined;
        const events = isJson || body === null ? eventStreamIn(headers.accept) : 'refused';
        let sent: ReturnType<typeof readBody> | undefined;
        const read = () =>
          (sent ??= isJson ? readBody(body) : readQuery(new URLSearchParams(splitTarget(request.url).query)));
        const isStream =
          events === 'preferred' || (events === 'accepted' && operationOf(engine, read()) === 'subscription');
        const caller = callerOf(request, reply);
        let ctx: Context;
        try {
          const assumed = isJson && !isStream ? await options.assume?.(caller) : null;
          if (isJson && assumed && (await answerAssumed({ engine, answers }, assumed, request, reply, read())))
            return reply;
          ctx = await contextOf(caller);
        } catch (error) {
          return reject(reply, error);
        }

        if (isStream) {
          const params = read();
          if (Array.isArray(params)) return answer(reply, 400, ['A batch cannot be answered by an event stream']);
          if (params instanceof Refused) return answer(reply, 400, messagesOf(params));
          if (body === null && operationOf(engine, params) === 'mutation')
            return answer(reply.header('allow', 'POST'), 405, ['Mutations need a POST request']);
          const seat = bounds.enter(request.ip);
          const refusal = typeof seat === 'string' ? seat : seat.identify(ctx.actor.userId);
          if (typeof seat === 'string' || refusal !== null) {
            if (typeof seat !== 'string') seat.leave();
            return answer(reply.header('retry-after', RETRY_AFTER_SECONDS), 429, [String(refusal)]);
          }
          reply.hijack();
          // If the client is gone already, no event would ever close the stream.
          if (reply.raw.destroyed) {
            seat.leave();
            return reply;
          }
          const stream = streams.open(reply.raw, reply.getHeaders(), seat);
          try {
            await answerByEvents({ engine, hub, answers }, ctx, params, stream);
          } catch (error) {
            stream.fail(maskError(error, { log, requestId: request.id }));
          }
          return reply;
        }
        try {
          if (isJson || body === null) return await answerJson({ engine, answers }, ctx, request, reply, read());
          // Yoga parses these bodies without limits on their values.
          if (body.length > LIMITS.formBytes) return answerTooLarge(reply, LIMITS.formBytes);
          yoga ??= yogaOver(engine);
          return await answerByYoga({ yoga: await yoga, answers }, ctx, request, reply, body);
        } catch (error) {
          return reject(reply, error);
        }
      },
    });

    scope.route({
      method: ['PUT', 'PATCH', 'DELETE'],
      url: GRAPHQL_PATH,
      handler: (_request, reply) =>
        answer(reply.header('allow', 'GET, POST'), 405, ['GraphQL takes GET and POST requests']),
    });

    scope.get(TOKEN_PATH, (request, reply) =>
      reply.header('cache-control', 'no-store').send({ token: options.csrfTokenOf(request.headers) }),
    );
    scope.get(EXPLORER_PATH, async (request, reply) =>
      (await graphiqlEnabled()) ? sendGraphiql(request, reply) : answer(reply, 404, ['The explorer is turned off']),
    );
  });

  const detach = attachWebsocket(fastify.server, {
    engine,
    hub,
    bounds,
    arriving,
    answers,
    contextOf,
    addressOf: options.addressOf,
    log,
  });
  fastify.addHook('preClose', async () => {
    hub.stop();
    streams.close();
    await detach();
  });
  return { subscribers: () => hub.size };
};

const JSON_TYPE = /^application\/(?:graphql\+)?json\s*(;|$)/i;
interface YogaContext {
  readonly ctx: Context;
}

/**
 * Yoga handles the request and response formats, and the engine replaces its execution. Loaded on first use: Yoga is a
 * quarter of all modules, and most hubs get only JSON requests.
 */
const yogaOver = async (engine: Engine) => {
  const { createYoga } = await import('graphql-yoga');
  const useEngine: Plugin<YogaContext, YogaContext> = {
    onParams: async ({ params, context, setResult }) => {
      const read = readParams(params);
      const result = read instanceof Refused ? read : await engine.execute(context.ctx, read);
      setResult(
        result instanceof Refused ? { errors: result.errors.map((error) => withStatus(error, result.status)) } : result,
      );
    },
  };
  return createYoga<YogaContext>({
    schema: engine.schema,
    graphqlEndpoint: GRAPHQL_PATH,
    plugins: [useEngine],
    // The engine or Fastify already does these.
    parserAndValidationCache: false,
    maxRequestBodySize: false,
    maskedErrors: false,
    multipart: false,
    cors: false,
    graphiql: false,
    landingPage: false,
    logging: false,
  });
};

/** Yoga takes the status of a response from its errors. With `spec` it stays 200 for plain JSON. */
const withStatus = (error: GraphQLError, status: number | undefined): GraphQLError =>
  new GraphQLError(error.message, {
    nodes: error.nodes,
    source: error.source,
    positions: error.positions,
    path: error.path,
    extensions: { ...error.extensions, http: { status: status ?? 400, spec: status === undefined } },
  });

const answerByYoga = async (
  { yoga, answers }: { readonly yoga: Awaited<ReturnType<typeof yogaOver>>; readonly answers: Answers },
  ctx: Context,
  request: FastifyRequest,
  reply: FastifyReply,
  body: Buffer,
): Promise<FastifyReply> => {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers))
    if (value !== undefined) headers.set(name, String(value));
  const { response, bytes } = await answers.inTurn(ctx.signal, async () => {
    const response = await yoga.fetch(
      new Request(`http://local${GRAPHQL_PATH}?${splitTarget(request.url).query}`, {
        method: request.method,
        headers,
        body: new Uint8Array(body),
      }),
      { ctx },
    );
    return { response, bytes: Buffer.from(await response.arrayBuffer()) };
  });
  answers.hold(reply.raw, request.ip, bytes.length);
  for (const [name, value] of response.headers) if (name !== 'content-length') reply.header(name, value);
  reply.code(response.status);
  return reply.send(bytes);
};

const messagesOf = ({ errors }: Refused): string[] => errors.map(({ message }) => message);

/** Answers a refused request. Rethrows unexpected errors. */
const reject = (reply: FastifyReply, error: unknown): FastifyReply => {
  const { status, message, retryAfterSeconds } = rejectionOf(error);
  if (retryAfterSeconds !== undefined) reply.header('retry-after', retryAfterSeconds);
  return answer(reply, status, [message]);
};

const answerTooLarge = (reply: FastifyReply, maxBytes: number): FastifyReply =>
  answer(reply, 413, [`The body exceeds the limit of ${maxBytes} bytes`]);

/**
 * Says whether the Accept header has event streams, and before any form of JSON. Clients such as urql send one header
 * for all operations: they get queries and mutations as JSON, and only subscriptions as events.
 */
const eventStreamIn = (accept = ''): 'preferred' | 'accepted' | 'refused' => {
  const types = accept.split(',').map((part) => part.split(';', 1)[0]?.trim().toLowerCase() ?? '');
  const place = types.indexOf('text/event-stream');
  if (place === -1) return 'refused';
  return responseType(types.slice(0, place).join()) === null || place === 0 ? 'preferred' : 'accepted';
};

/** Returns the kind of the operation. Null if the request cannot run, or is a batch. */
const operationOf = (engine: Engine, params: ReturnType<typeof readBody>): OperationTypeNode | null => {
  if (Array.isArray(params) || params instanceof Refused) return null;
  const prepared = engine.prepare(params);
  return prepared instanceof Refused ? null : prepared.operation.operation;
};

/** Returns the body, or the reason why it was not read to the end. */
const readBytes = async (
  { raw, headers }: FastifyRequest,
  arrival: Hold,
): Promise<Buffer | 'too large' | 'too much'> => {
  if (Number(headers['content-length'] ?? 0) > LIMITS.bodyBytes) return 'too large';
  const { promise, resolve, reject } = Promise.withResolvers<Buffer | 'too large' | 'too much'>();
  const chunks: Buffer[] = [];
  let length = 0;
  const giveUp = (why: 'too large' | 'too much') => {
    raw.off('data', onData);
    chunks.length = 0;
    resolve(why);
  };
  const onData = (chunk: Buffer) => {
    const before = length;
    length += chunk.length;
    if (length > LIMITS.bodyBytes) return giveUp('too large');
    // Small bodies are never refused.
    const counted = length > SMALL_BODY_BYTES ? length - (before > SMALL_BODY_BYTES ? before : 0) : 0;
    if (counted > 0 && !arrival.add(counted)) return giveUp('too much');
    chunks.push(chunk);
  };
  raw.on('data', onData);
  raw.once('end', () => resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks)));
  raw.once('error', reject);
  try {
    return await promise;
  } finally {
    arrival.release();
  }
};

/** Bodies up to this size are not counted while they arrive. */
const SMALL_BODY_BYTES = 64 * 1024;

const callerOf = (request: FastifyRequest, { raw }: FastifyReply): Caller => {
  const gone = new AbortController();
  raw.once('close', () => {
    if (!raw.writableFinished) gone.abort();
  });
  return {
    transport: 'http',
    method: request.method,
    headers: request.headers,
    url: request.url,
    ip: request.ip,
    requestId: request.id,
    signal: gone.signal,
    setHeader: (name, value) => raw.setHeader(name, value),
  };
};
