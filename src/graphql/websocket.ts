import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ExecutionArgs, type ExecutionResult, GraphQLError } from 'graphql';
import { CloseCode, handleProtocols } from 'graphql-ws';
import { useServer } from 'graphql-ws/use/ws';
import { type RawData, WebSocket, WebSocketServer } from 'ws';
import { forRequest, nameCaller } from '#platform/caller.ts';
import type { Context } from '#platform/context.ts';
import { checkJson, JsonLimitError } from '#platform/json.ts';
import type { Logger } from '#platform/log.ts';
import { splitTarget } from '#platform/urls.ts';
import { type Caller, type ContextOf, type Rejection, rejectionOf } from './caller.ts';
import { type Engine, type GraphqlParams, Refused } from './engine.ts';
import type { Frame } from './frame.ts';
import { LIMITS } from './limits.ts';
import type { LiveHub, LiveSink } from './live.ts';
import { readParams } from './params.ts';

export interface WebsocketOptions {
  readonly engine: Engine;
  readonly hub: LiveHub;
  readonly contextOf: ContextOf;
  /** Where a request came from, proxies of ours left out. */
  readonly addressOf: (request: IncomingMessage) => string;
  readonly log: Logger;
}

export const GRAPHQL_PATH = '/api/graphql';

/** Frames that may wait for a slow reader before its socket is cut. */
const MAX_QUEUED = 1_000;
const KEEP_ALIVE_MS = 12_000;
/** By the HTTP status of the refusal; 4403 for the others. */
const CLOSE_CODES: Readonly<Record<number, number>> = { 401: 4401, 500: 4500 };

/** Whether a request asks for the GraphQL socket. The server must let no other upgrade through. */
export const asksForSocket = ({ url = '', headers }: IncomingMessage): boolean =>
  headers.upgrade?.toLowerCase() === 'websocket' && splitTarget(url).path === GRAPHQL_PATH;

/**
 * Speaks graphql-transport-ws on every upgrade that the server lets through: see `asksForSocket`. Returns a function that
 * closes all sockets.
 */
export const attachWebsocket = (server: Server, options: WebsocketOptions): (() => Promise<void>) => {
  const { engine, hub, contextOf, addressOf, log } = options;
  const sockets = new WebSocketServer({
    noServer: true,
    WebSocket: BoundedSocket,
    maxPayload: LIMITS.bodyBytes,
    perMessageDeflate: false,
    handleProtocols: (protocols) => handleProtocols(protocols),
  });

  const onUpgrade = (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    // Node has removed its own listener, and an error that nobody listens for ends the process.
    socket.on('error', () => socket.destroy());
    try {
      if (isForeign(request)) {
        socket.once('finish', () => socket.destroy());
        socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
        return;
      }
      sockets.handleUpgrade(request, socket, head, (websocket) => sockets.emit('connection', websocket, request));
    } catch (error) {
      log.error({ err: error }, 'a WebSocket could not be opened');
      socket.destroy();
    }
  };
  server.on('upgrade', onUpgrade);

  /** What the library catches itself it prints past our log, and tells the client. */
  const refusalOf = (error: unknown): Rejection => {
    try {
      return rejectionOf(error);
    } catch {
      log.error({ err: error }, 'a WebSocket request failed');
      return { status: 500, message: 'Internal server error' };
    }
  };

  const operations = new WeakMap<ExecutionArgs, GraphqlParams>();
  /** One per socket, aborted when it closes. */
  const closing = new WeakMap<object, AbortSignal>();
  const signalOf = (socket: WebSocket): AbortSignal => {
    let signal = closing.get(socket);
    if (!signal) {
      const controller = new AbortController();
      socket.once('close', () => controller.abort());
      signal = controller.signal;
      closing.set(socket, signal);
    }
    return signal;
  };

  const protocol = useServer(
    {
      schema: engine.schema,
      isProd: true,
      onConnect: async ({ extra, connectionParams }) => {
        try {
          await contextOf(callerOf(extra.request, connectionParams, addressOf, signalOf(extra.socket)));
          return true;
        } catch (error) {
          const { status, message } = refusalOf(error);
          // A reason may have 123 bytes; a longer one makes `close` throw.
          const reason = Buffer.byteLength(message) > 123 ? '' : message;
          extra.socket.close(CLOSE_CODES[status] ?? 4403, reason);
          return false;
        }
      },
      // Asked anew for each operation: a token may have been revoked while the socket stood open.
      onSubscribe: async ({ extra, connectionParams, subscriptions }, _id, payload) => {
        const params = readParams(payload);
        if (params instanceof Refused) return params.errors;
        if (Object.keys(subscriptions).length > LIMITS.operationsPerSocket) {
          return [new GraphQLError(`The socket exceeds the limit of ${LIMITS.operationsPerSocket} operations at once`)];
        }
        let ctx: Context;
        try {
          ctx = await contextOf(callerOf(extra.request, connectionParams, addressOf, signalOf(extra.socket)));
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
        operations.set(args, params);
        return args;
      },
      execute: (args) => start(args),
      subscribe: (args) => start(args),
    },
    sockets,
    KEEP_ALIVE_MS,
  );

  const start = async (args: ExecutionArgs): Promise<ExecutionResult | AsyncIterableIterator<ExecutionResult>> => {
    const params = operations.get(args);
    const ctx = args.contextValue;
    if (!params || !isContext(ctx)) throw new Error('the operation was not prepared');
    const prepared = engine.prepare(params);
    if (prepared instanceof Refused) return { errors: prepared.errors };
    const bound = engine.bind(ctx, prepared, params.variables);
    if (bound instanceof Refused) return { errors: bound.errors };
    if (prepared.operation.operation !== 'subscription') {
      return forRequest(() => {
        nameCaller(ctx.actor, ctx.client);
        return engine.run(ctx, prepared, bound);
      });
    }
    const queue = new FrameQueue();
    const end = await hub.subscribe(ctx, prepared, bound, queue);
    if (end instanceof Refused) return { errors: end.errors };
    return queue.results(end);
  };

  return async () => {
    server.off('upgrade', onUpgrade);
    await protocol.dispose();
    for (const socket of sockets.clients) socket.terminate();
    sockets.close();
  };
};

/** Closes before a message is parsed that holds too much. Its length alone does not tell. */
class BoundedSocket extends WebSocket {
  override emit(event: string | symbol, ...args: unknown[]): boolean {
    if (event === 'message' && isRawData(args[0])) {
      try {
        checkJson(String(args[0]), LIMITS.json);
      } catch (error) {
        if (!(error instanceof JsonLimitError)) throw error;
        this.close(CloseCode.BadRequest, `The message ${error.message}`);
        return true;
      }
    }
    return super.emit(event, ...args);
  }
}

const isRawData = (value: unknown): value is RawData => Buffer.isBuffer(value);

/** A hub's sink read as an async iterable. */
class FrameQueue implements LiveSink {
  readonly #frames: Frame[] = [];
  #ended: 'complete' | 'dropped' | null = null;
  #wake: () => void = () => undefined;
  #drained: () => void = () => undefined;

  send(frame: Frame): void {
    if (this.#frames.push(frame) > MAX_QUEUED) this.drop();
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
    this.#wake();
    this.#drained();
  }

  /** Written out rather than a generator: its `return` must end a wait for the next event. */
  results(end: () => void): AsyncIterableIterator<ExecutionResult> {
    const next = async (): Promise<IteratorResult<ExecutionResult>> => {
      for (;;) {
        if (this.#ended === 'dropped') {
          end();
          throw new GraphQLError('The connection is too slow; resume with the last cursor');
        }
        const frame = this.#frames.shift();
        if (frame) return { value: frame.result, done: false };
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
        this.#drained();
        return Promise.resolve({ value: undefined, done: true });
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }
}

const isContext = (value: unknown): value is Context => typeof value === 'object' && value !== null && 'actor' in value;

/** A page of another origin may open a socket, and the browser would send this origin's cookies along. */
const isForeign = ({ headers }: IncomingMessage): boolean => {
  if (headers.origin === undefined || headers.cookie === undefined) return false;
  return !URL.canParse(headers.origin) || new URL(headers.origin).host !== headers.host;
};

/** Browsers cannot set headers on a WebSocket: credentials may come with the connection's first message. */
const callerOf = (
  request: IncomingMessage,
  connectionParams: Readonly<Record<string, unknown>> | undefined,
  addressOf: WebsocketOptions['addressOf'],
  signal: AbortSignal,
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
    // What comes by it may change something: a session's cookie alone does not do.
    method: 'POST',
    headers,
    url: request.url ?? '/',
    ip: addressOf(request),
    requestId: randomUUID(),
    signal,
    setHeader: () => undefined,
  };
};
