import type { IncomingMessage } from 'node:http';
import { CloseCode, MessageType, type Server as Protocol, parseMessage } from 'graphql-ws';
import { WebSocket } from 'ws';
import type { Hold } from '#platform/caller/held-bytes.ts';
import type { Logger } from '#platform/log.ts';
import { checkJson, JsonLimitError } from '#platform/values/json.ts';
import { LIMITS } from './limits.ts';
import type { Seat } from './live-bounds.ts';

/** The data that the protocol passes to its hooks. */
export interface SocketExtra {
  readonly socket: WebSocket;
  readonly request: IncomingMessage;
  readonly seat: Seat;
  /** Aborts when the socket closes. */
  readonly signal: AbortSignal;
  /** Like `Seat.turn`. Also pauses reading from a socket while many of its operations wait. */
  readonly turn: Seat['turn'];
}

/** Close code for clients that exceed a limit. */
export const TOO_MANY = 4429;
const BEAT_MS = 12_000;
/** Number of waiting operations at which reading from the socket pauses. */
const MAX_TURNS = 8;
/** Time limit for an incomplete message: a fixed grace period plus one second per this many bytes. */
const MESSAGE_GRACE_MS = 30_000;
const MESSAGE_MINIMUM_RATE = 1_024;

/** Closes the socket. Omits a reason longer than 123 bytes, because `close` would throw. */
export const closeSocket = (socket: WebSocket, code: number, reason: string): void =>
  socket.close(code, Buffer.byteLength(reason) > 123 ? '' : reason);

/**
 * Speaks the protocol on one socket until it closes. Counts queued bytes on the socket's seat, and terminates a socket
 * that holds too much or is silent. Failures are logged and affect only this socket.
 */
export const serveSocket = (
  socket: WebSocket,
  {
    request,
    seat,
    arrival,
    protocol,
    log,
  }: Pick<SocketExtra, 'request' | 'seat'> & {
    readonly arrival: Hold;
    readonly protocol: Protocol<SocketExtra>;
    readonly log: Logger;
  },
): void => {
  const gone = new AbortController();
  const unfinished = new Unfinished(arrival);
  let isAlive = true;
  const fail = (error: unknown) => {
    log.error({ err: error }, 'a message of a WebSocket failed');
    closeSocket(socket, CloseCode.InternalServerError, 'Internal server error');
  };
  const send = async (data: string): Promise<void> => {
    if (socket.readyState !== WebSocket.OPEN) return;
    if (!seat.hold(data.length)) return socket.terminate();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    socket.send(data, (error) => (error ? reject(error) : resolve()));
    // A broken socket is terminated. There is no client left to notify.
    await promise.catch(() => socket.terminate()).finally(() => seat.release(data.length));
  };

  /** Refuses the operation of a message that exceeds the memory limits. Closes the socket if the message has none. */
  const refuse = async (text: string): Promise<void> => {
    const message = seat.refusesBytes(text.length) ?? 'The streams hold too much';
    const id = operationOf(text);
    if (id === null) return closeSocket(socket, TOO_MANY, message);
    const payload = [{ message, extensions: { code: 'QUERY_LIMIT_EXCEEDED' } }];
    await send(JSON.stringify({ type: MessageType.Error, id, payload }));
  };

  let turns = 0;
  const turn: SocketExtra['turn'] = async (work) => {
    if (++turns === MAX_TURNS) socket.pause();
    try {
      return await seat.turn(work);
    } finally {
      if (turns-- === MAX_TURNS) socket.resume();
    }
  };

  // Runs after the socket's own listener, so the messages in these bytes have been handled.
  const onData = (chunk: Buffer) => {
    if (!unfinished.piece(chunk.length)) socket.terminate();
  };
  request.socket.on('data', onData);
  const beat = setInterval(() => {
    // Nothing is read from a paused socket, not even its pongs.
    if (socket.isPaused) return;
    if (!isAlive || unfinished.isTooSlow()) return socket.terminate();
    isAlive = false;
    if (socket.readyState === WebSocket.OPEN) socket.ping();
  }, BEAT_MS);
  // `ws` closes the socket by itself. The error is the client's.
  socket.on('error', (error) => log.debug({ err: error }, 'a WebSocket broke the protocol'));
  socket.on('ping', (data: Buffer) => unfinished.control(data.length));
  socket.on('pong', (data: Buffer) => {
    isAlive = true;
    unfinished.control(data.length);
  });

  const closed = protocol.opened(
    {
      protocol: socket.protocol,
      send,
      close: (code = CloseCode.InternalServerError, reason = '') => closeSocket(socket, code, reason),
      onMessage: (handle) => {
        socket.on('message', (data) => {
          unfinished.end();
          const text = String(data);
          const refusal = refuseJson(text);
          if (refusal !== null) return closeSocket(socket, CloseCode.BadRequest, refusal);
          // graphql-ws keeps the message until its operation is over.
          if (!seat.hold(text.length)) return refuse(text).catch(fail);
          handle(text)
            .catch(fail)
            .finally(() => seat.release(text.length));
        });
      },
    },
    { socket, request, seat, signal: gone.signal, turn },
  );
  socket.once('close', (code: number, reason: Buffer) => {
    clearInterval(beat);
    request.socket.off('data', onData);
    gone.abort();
    unfinished.release();
    seat.leave();
    closed(code, String(reason)).catch((error: unknown) => log.error({ err: error }, 'a WebSocket failed to close'));
  });
};

/** Returns the id of the operation that a message starts, or null. */
const operationOf = (text: string): string | null => {
  try {
    const message = parseMessage(text);
    return message.type === MessageType.Subscribe ? message.id : null;
  } catch {
    return null;
  }
};

/**
 * Checks a message before it is parsed, because a short text may hold too many values. Returns the reason for a
 * refusal, or null.
 */
const refuseJson = (text: string): string | null => {
  try {
    checkJson(text, LIMITS.json);
    return null;
  } catch (error) {
    if (error instanceof JsonLimitError) return `The message ${error.message}`;
    throw error;
  }
};

/** A message that is still arriving. Messages that arrive in one chunk are not counted. */
class Unfinished {
  readonly #arrival: Hold;
  #bytes = 0;
  #since = 0;
  /** Bytes of control frames in the current chunk. */
  #ofOthers = 0;
  #sawEnd = false;

  constructor(arrival: Hold) {
    this.#arrival = arrival;
  }

  /** Marks the end of a message. */
  end(): void {
    this.#sawEnd = true;
    this.release();
  }

  /** Counts a control frame, which may arrive in the middle of a message. */
  control(length: number): void {
    this.#ofOthers += length + CONTROL_FRAME_BYTES;
  }

  /** Counts a chunk after the messages in it have been handled. Returns false when too much is arriving. */
  piece(length: number): boolean {
    const bytes = this.#sawEnd ? 0 : Math.max(0, length - this.#ofOthers);
    this.#sawEnd = false;
    this.#ofOthers = 0;
    if (bytes === 0) return true;
    if (this.#bytes === 0) this.#since = performance.now();
    this.#bytes += bytes;
    return this.#arrival.add(bytes);
  }

  isTooSlow(): boolean {
    const allowedMs = MESSAGE_GRACE_MS + (this.#bytes / MESSAGE_MINIMUM_RATE) * 1_000;
    return this.#bytes > 0 && performance.now() - this.#since > allowedMs;
  }

  release(): void {
    this.#bytes = 0;
    this.#arrival.release();
  }
}

/** Two bytes of header, four of the mask. */
const CONTROL_FRAME_BYTES = 6;
