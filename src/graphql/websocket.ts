import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ExecutionArgs, type ExecutionResult, GraphQLError } from 'graphql';
import { CloseCode, type ConnectionInitMessage, handleProtocols, makeServer } from 'graphql-ws';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Answers } from '#platform/caller/answers.ts';
import { forRequest, nameCaller } from '#platform/caller/caller.ts';
import type { HeldBytes } from '#platform/caller/held-bytes.ts';
import type { Context } from '#platform/context.ts';
import type { Logger } from '#platform/log.ts';
import { splitTarget } from '#platform/urls.ts';
import { type Caller, type ContextOf, type Rejection, rejectionOf } from './caller.ts';
import { type Engine, type GraphqlParams, Refused } from './engine.ts';
import type { Frame } from './frame.ts';
import { LIMITS } from './limits.ts';
import type { LiveHub } from './live.ts';
import type { LiveBounds, Seat } from './live-bounds.ts';
import type { LiveSink } from './live-member.ts';
import { readParams } from './params.ts';
import { closeSocket, type SocketExtra, serveSocket, TOO_MANY } from './socket.ts';

export interface WebsocketOptions {
  readonly engine: Engine;
  readonly hub: LiveHub;
  readonly bounds: LiveBounds;
  readonly arriving: HeldBytes;
  readonly answers: Answers;
  readonly contextOf: ContextOf;
  /** Returns the client's address, without our own proxies. */
  readonly addressOf: (request: IncomingMessage) => string;
  readonly log: Logger;
}

export const GRAPHQL_PATH = '/api/graphql';

/** Frames that may be queued for a slow reader before its socket is cut. */
const MAX_QUEUED = 1_000;
/** Characters of the first message's payload, which is kept as long as the socket is open. */
const MAX_CONNECTION_PARAMS = 16_384;
/** How long sockets may take to close when the hub stops. */
const CLOSE_MS = 1_000;
/** Close codes by the HTTP status of the refusal. All other statuses use 4403. */
const CLOSE_CODES: Readonly<Record<number, number>> = { 401: 4401, 500: CloseCode.InternalServerError };

/** Returns whether a request is an upgrade to the GraphQL socket. The server must refuse all other upgrades. */
export const asksForSocket = ({ url = '', headers }: IncomingMessage): boolean =>
  headers.upgrade?.toLowerCase() === 'websocket' && splitTarget(url).path === GRAPHQL_PATH;

/**
 * Speaks graphql-transport-ws on every upgrade that the server accepts (see `asksForSocket`). Returns a function that
 * closes all sockets.
 */
export const attachWebsocket = (server: Server, options: WebsocketOptions): (() => Promise<void>) => {
  const { engine, hub, bounds, arriving, answers, contextOf, addressOf, log } = options;
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: LIMITS.bodyBytes,
    perMessageDeflate: false,
    handleProtocols: (protocols) => handleProtocols(protocols),
  });

  const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // Node has removed its own listener, and an unhandled error event would end the process.
    socket.on('error', () => socket.destroy());
    try {
      if (isForeign(request)) {
        socket.once('finish', () => socket.destroy());
        socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
        return;
      }
      sockets.handleUpgrade(request, socket, head, (websocket) => open(websocket, request));
    } catch (error) {
      log.error({ err: error }, 'a WebSocket could not be opened');
      socket.destroy();
    }
  };
  server.on('upgrade', onUpgrade);

  /** Handles all errors here: graphql-ws would print them outside our log and send them to the client. */
  const refusalOf = (error: unknown): Rejection => {
    try {
      return rejectionOf(error);
    } catch {
      log.error({ err: error }, 'a WebSocket request failed');
      return { status: 500, message: 'Internal server error' };
    }
  };

  const operations = new WeakMap<ExecutionArgs, { readonly params: GraphqlParams; readonly extra: SocketExtra }>();
  const protocol = makeServer<ConnectionInitMessage['payload'], SocketExtra>({
    schema: engine.schema,
    onConnect: async ({ extra, connectionParams }) => {
      const { socket, seat } = extra;
      if (connectionParams && JSON.stringify(connectionParams).length > MAX_CONNECTION_PARAMS) {
        closeSocket(socket, CloseCode.BadRequest, `The payload exceeds ${MAX_CONNECTION_PARAMS} characters`);
        return false;
      }
      try {
        const { actor } = await extra.turn(() => contextOf(callerOf(extra, connectionParams, addressOf)));
        const refusal = seat.identify(actor.userId);
        if (refusal === null) return true;
        closeSocket(socket, TOO_MANY, refusal);
      } catch (error) {
        const { status, message } = refusalOf(error);
        closeSocket(socket, CLOSE_CODES[status] ?? CloseCode.Forbidden, message);
      }
      return false;
    },
    // Authenticates each operation again, because a token may have been revoked while the socket was open.
    onSubscribe: async ({ extra, connectionParams, subscriptions }, _id, payload) => {
      const params = readParams(payload);
      if (params instanceof Refused) return params.errors;
      if (Object.keys(subscriptions).length > LIMITS.operationsPerSocket) {
        return [new GraphQLError(`The socket exceeds the limit of ${LIMITS.operationsPerSocket} operations at once`)];
      }
      let ctx: Context;
      try {
        ctx = await extra.turn(() => contextOf(callerOf(extra, connectionParams, addressOf)));
      } catch (error) {
        return [new GraphQLError(refusalOf(error).message)];
      }
      const prepared = engine.prepare(params);
      if (prepared instanceof Refused) return prepared.errors;
      const args: ExecutionArgs = {
        schema: engine.schema,
        document: prepared.document,
        operationName: params.operationName,
        contextValue: ctx,
      };
      operations.set(args, { params, extra });
      return args;
    },
    execute: (args) => begin(args),
    subscribe: (args) => begin(args),
  });

  const begin = (args: ExecutionArgs): Promise<Begun> => {
    const operation = operations.get(args);
    const ctx = args.contextValue;
    if (!operation || !isContext(ctx)) throw new Error('the operation was not prepared');
    const { params, extra } = operation;
    return extra.turn(() => run(ctx, params, extra.seat));
  };

  const run = async (ctx: Context, params: GraphqlParams, seat: Seat): Promise<Begun> => {
    const prepared = engine.prepare(params);
    if (prepared instanceof Refused) return { errors: prepared.errors };
    const bound = engine.bind(ctx, prepared, params.variables);
    if (bound instanceof Refused) return { errors: bound.errors };
    if (prepared.operation.operation !== 'subscription') {
      return forRequest(() => {
        nameCaller(ctx.actor, ctx.client);
        const work = () => engine.run(ctx, prepared, bound);
        return prepared.operation.operation === 'query' ? answers.inTurn(ctx.signal, work) : work();
      });
    }
    const queue = new FrameQueue(seat);
    const end = await hub.subscribe(ctx, prepared, bound, queue);
    if (end instanceof Refused) return { errors: end.errors };
    return queue.results(end);
  };

  const open = (socket: WebSocket, request: IncomingMessage) => {
    const address = addressOf(request);
    const seat = bounds.enter(address);
    if (typeof seat !== 'string') {
      return serveSocket(socket, { request, seat, arrival: arriving.from(address), protocol, log });
    }
    socket.on('error', () => undefined);
    closeSocket(socket, TOO_MANY, seat);
  };

  return async () => {
    server.off('upgrade', onUpgrade);
    const left = [...sockets.clients];
    const closed = left.map((socket) => new Promise((resolve) => socket.once('close', resolve)));
    for (const socket of left) socket.close(1001, 'Going away');
    await Promise.race([Promise.all(closed), sleep(CLOSE_MS, undefined, { ref: false })]);
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  };
};

type Begun = ExecutionResult | AsyncIterableIterator<ExecutionResult>;

/** A sink whose frames are read as an async iterable. */
class FrameQueue implements LiveSink {
  readonly seat: Seat;
  readonly #frames: Frame[] = [];
  #ended: 'complete' | 'dropped' | null = null;
  #wake: () => void = () => undefined;
  #drained: () => void = () => undefined;

  constructor(seat: Seat) {
    this.seat = seat;
  }

  send(frame: Frame): void {
    if (this.#ended) return;
    if (this.#frames.length >= MAX_QUEUED || !this.seat.hold(frame.json.length)) this.drop();
    else this.#frames.push(frame);
    this.#wake();
  }

  ready(): Promise<void> {
    if (this.#frames.length === 0 || this.#ended) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#drained = resolve;
    return promise;
  }

  complete(): void {
    this.#ended ??= 'complete';
    this.#wake();
  }

  drop(): void {
    this.#ended ??= 'dropped';
    this.#clear();
    this.#wake();
    this.#drained();
  }

  #clear(): void {
    for (const frame of this.#frames.splice(0)) this.seat.release(frame.json.length);
  }

  /** Not a generator, because `return` must end a pending wait for the next event. */
  results(end: () => void): AsyncIterableIterator<ExecutionResult> {
    const next = async (): Promise<IteratorResult<ExecutionResult>> => {
      for (;;) {
        if (this.#ended === 'dropped') {
          end();
          throw new GraphQLError('The connection is too slow; resume with the last cursor');
        }
        const frame = this.#frames.shift();
        if (frame) {
          this.seat.release(frame.json.length);
          return { value: frame.result, done: false };
        }
        this.#drained();
        if (this.#ended) return { value: undefined, done: true };
        const { promise, resolve } = Promise.withResolvers<void>();
        this.#wake = resolve;
        await promise;
      }
    };
    const iterator: AsyncIterableIterator<ExecutionResult> = {
      next,
      return: () => {
        end();
        this.complete();
        this.#clear();
        this.#drained();
        return Promise.resolve({ value: undefined, done: true });
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }
}

const isContext = (value: unknown): value is Context => typeof value === 'object' && value !== null && 'actor' in value;

/**
 * Refuses sockets from other origins that carry cookies: a foreign page can open one, and browsers send this origin's
 * cookies.
 */
const isForeign = ({ headers }: IncomingMessage): boolean => {
  if (headers.origin === undefined || headers.cookie === undefined) return false;
  return !URL.canParse(headers.origin) || new URL(headers.origin).host !== headers.host;
};

/** Reads credentials from the connection's first message too, because browsers cannot set headers on a WebSocket. */
const callerOf = (
  { request, signal }: Pick<SocketExtra, 'request' | 'signal'>,
  connectionParams: Readonly<Record<string, unknown>> | undefined,
  addressOf: WebsocketOptions['addressOf'],
): Caller => {
  const headers = { ...request.headers };
  const given: Readonly<Record<string, unknown>> = Object.fromEntries(
    Object.entries(connectionParams ?? {}).map(([name, value]) => [name.toLowerCase(), value]),
  );
  const nested = typeof given.headers === 'object' && given.headers !== null ? Object.entries(given.headers) : [];
  const credentials = { ...given, ...Object.fromEntries(nested.map(([name, value]) => [name.toLowerCase(), value])) };
  for (const name of ['authorization', 'private-token', 'x-csrf-token'] as const) {
    const value = credentials[name];
    if (typeof value === 'string' && value !== '') headers[name] = value;
  }
  const token = credentials.token;
  if (typeof token === 'string' && token !== '') headers['private-token'] = token;
  return {
    transport: 'websocket',
    // Any operation may be a mutation, so a session cookie needs its CSRF token.
    method: 'POST',
    headers,
    url: request.url ?? '/',
    ip: addressOf(request),
    requestId: randomUUID(),
    signal,
    setHeader: () => undefined,
  };
};
