import type { IncomingMessage } from 'node:http';
import { CloseCode, MessageType, type Server as Protocol, parseMessage } from 'graphql-ws';
import { WebSocket } from 'ws';
import { checkJson, JsonLimitError } from '#platform/json.ts';
import type { Logger } from '#platform/log.ts';
import type { Arrival } from './arriving.ts';
import { LIMITS } from './limits.ts';
import type { Seat } from './live-bounds.ts';

/** What the protocol hands to its hooks. */
export interface SocketExtra {
  readonly socket: WebSocket;
  readonly request: IncomingMessage;
  readonly seat: Seat;
  /** Aborts when the socket closes. */
  readonly signal: AbortSignal;
  /** As `Seat.turn`; nothing more is read of a socket for which much waits for its turn. */
  readonly turn: Seat['turn'];
}

/** Close code for those who have too much open. */
export const TOO_MANY = 4429;
const BEAT_MS = 12_000;
/** Operations of one socket that may wait to be begun before nothing more is read of it. */
const MAX_TURNS = 8;
/** A message has this long to arrive, and a second more for each so many bytes of it. */
const MESSAGE_GRACE_MS = 30_000;
const MESSAGE_MINIMUM_RATE = 1_024;

/** Closes the socket. A reason may have 123 bytes, or `close` throws. */
export const closeSocket = (socket: WebSocket, code: number, reason: string): void =>
  socket.close(code, Buffer.byteLength(reason) > 123 ? '' : reason);

/**
 * Speaks the protocol on one socket until it closes. What waits to be sent is counted on its seat; a socket that
 * holds too much, or is silent, is cut. What fails is logged and costs this socket alone.
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
    readonly arrival: Arrival;
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
    // A socket that breaks ends here; there is nobody to be told.
    await promise.catch(() => socket.terminate()).finally(() => seat.release(data.length));
  };

  /** There is no room for the message: its operation is refused, or the socket closed where it asks for none. */
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

  // After the socket's own listener: the messages in these bytes have been handled.
  const onData = (chunk: Buffer) => {
    if (!unfinished.piece(chunk.length)) socket.terminate();
  };
  request.socket.on('data', onData);
  const beat = setInterval(() => {
    // Of a socket that waits for its turn nothing is read, answers to pings neither.
    if (socket.isPaused) return;
    if (!isAlive || unfinished.isTooSlow()) return socket.terminate();
    isAlive = false;
    if (socket.readyState === WebSocket.OPEN) socket.ping();
  }, BEAT_MS);
  // The socket closes by itself; it is the client that broke the protocol.
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
          // Kept by the library until its operation is over.
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

/** The id of the operation that a message asks for. */
const operationOf = (text: string): string | null => {
  try {
    const message = parseMessage(text);
    return message.type === MessageType.Subscribe ? message.id : null;
  } catch {
    return null;
  }
};

/** Before a message is parsed that holds too much. Its length alone does not tell. */
const refuseJson = (text: string): string | null => {
  try {
    checkJson(text, LIMITS.json);
    return null;
  } catch (error) {
    if (error instanceof JsonLimitError) return `The message ${error.message}`;
    throw error;
  }
};

/** A message that is still arriving. Those that come in one piece are not counted. */
class Unfinished {
  readonly #arrival: Arrival;
  #bytes = 0;
  #since = 0;
  /** What the piece under way has brought of other things. */
  #ofOthers = 0;
  #sawEnd = false;

  constructor(arrival: Arrival) {
    this.#arrival = arrival;
  }

  /** A message has ended. */
  end(): void {
    this.#sawEnd = true;
    this.release();
  }

  /** A control frame came, which may be in the middle of a message. */
  control(length: number): void {
    this.#ofOthers += length + CONTROL_FRAME_BYTES;
  }

  /** Counts a piece once the messages in it have been handled. False where too much is arriving. */
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
