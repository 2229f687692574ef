import type { ServerResponse } from 'node:http';
import type { ExecutionResult, GraphQLError } from 'graphql';
import type { Answers } from '#platform/caller/answers.ts';
import type { Context } from '#platform/context.ts';
import { type Engine, type GraphqlParams, Refused } from './engine.ts';
import { asChunk, Frame } from './frame.ts';
import type { LiveHub } from './live.ts';
import type { Seat } from './live-bounds.ts';
import type { LiveSink } from './live-member.ts';

/** Bytes that may be queued for a slow reader before its connection is cut. It may resume with its cursor. */
const MAX_BUFFERED = 1_000_000;
const HEARTBEAT_MS = 12_000;
/** How long a reader may lag without ever catching up. */
const MAX_BEHIND_MS = 60_000;

const COMMENT = Buffer.from(':\n\n');
const COMMENT_CHUNK = asChunk(COMMENT);
const COMPLETE = 'event: complete\ndata:\n\n';

/** The open event streams of a process. One timer keeps them all alive. */
export class EventStreams {
  readonly #streams = new Set<EventStream>();
  readonly #timer = setInterval(() => {
    for (const stream of this.#streams) if (stream.isOpen) stream.beat();
  }, HEARTBEAT_MS).unref();

  /** Opens a stream on a response whose headers are not sent yet. They are sent with the first bytes of the stream. */
  open(
    response: ServerResponse,
    headers: Readonly<Record<string, number | string | string[] | undefined>>,
    seat: Seat,
  ): EventStream {
    for (const [name, value] of Object.entries(headers)) if (value !== undefined) response.setHeader(name, value);
    response.statusCode = 200;
    response.setHeader('content-type', 'text/event-stream; charset=utf-8');
    response.setHeader('cache-control', 'no-cache');
    // Prevents proxies from buffering events.
    response.setHeader('x-accel-buffering', 'no');
    const stream = new EventStream(response, seat);
    this.#streams.add(stream);
    response.once('close', () => this.#streams.delete(stream));
    return stream;
  }

  close(): void {
    clearInterval(this.#timer);
    for (const stream of this.#streams) stream.drop();
  }
}

/**
 * One subscriber over server-sent events. Frames are the same bytes for all subscribers, so they bypass ServerResponse
 * and are written to the socket with their chunk framing. They go through the response if it is not chunked or has
 * queued data.
 */
export class EventStream implements LiveSink {
  readonly seat: Seat;
  readonly #response: ServerResponse;
  #held = 0;
  #heldSince = 0;

  constructor(response: ServerResponse, seat: Seat) {
    this.#response = response;
    this.seat = seat;
    // The response has let go of its socket when it closes. The next request on the connection uses it again.
    const { socket } = response;
    socket?.setTimeout(0);
    socket?.setNoDelay(true);
    const onDrain = () => this.#hold();
    socket?.on('drain', onDrain);
    response.once('close', () => {
      socket?.off('drain', onDrain);
      seat.leave();
    });
  }

  /** Returns true once the headers are sent. */
  get isOpen(): boolean {
    return this.#response.headersSent;
  }

  send(frame: Frame): void {
    this.#write(frame.chunk, frame.event);
  }

  /** Sends a heartbeat, and drops a reader that has lagged for too long. */
  beat(): void {
    this.#write(COMMENT_CHUNK, COMMENT);
    if (this.#held > 0 && performance.now() - this.#heldSince > MAX_BEHIND_MS) this.drop();
  }

  onClose(handler: () => void): void {
    this.#response.once('close', handler);
  }

  async ready(): Promise<void> {
    const { socket } = this.#response;
    if (!socket?.writableNeedDrain) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    socket.once('drain', resolve).once('close', resolve);
    await promise;
    socket.off('drain', resolve).off('close', resolve);
  }

  complete(): void {
    if (!this.#response.destroyed) this.#response.end(COMPLETE);
  }

  drop(): void {
    this.#response.destroy();
  }

  /** Answers with the error. After the first bytes, the stream can only be cut. */
  fail(error: GraphQLError): void {
    if (this.isOpen) this.drop();
    else {
      this.send(new Frame({ errors: [error] }));
      this.complete();
    }
  }

  #write(chunk: Buffer, data: Buffer): void {
    const response = this.#response;
    const { socket } = response;
    if (response.destroyed || response.writableEnded) return;
    // Must precede bytes that bypass the response.
    if (!response.headersSent) response.flushHeaders();
    if (socket && response.chunkedEncoding && response.writableLength === socket.writableLength) socket.write(chunk);
    else response.write(data);
    this.#hold();
  }

  /** Counts unread bytes on the seat. */
  #hold(): void {
    const { socket, writableLength } = this.#response;
    const waiting = writableLength + (socket?.writableLength ?? 0);
    if (waiting === this.#held) return;
    if (this.#held === 0) this.#heldSince = performance.now();
    if (waiting > MAX_BUFFERED || !this.seat.hold(waiting - this.#held)) {
      this.drop();
      return;
    }
    this.#held = waiting;
  }
}

/**
 * Answers with the GraphQL over SSE protocol in distinct connections mode: `next` events, then `complete`. Request
 * errors are sent as a result too.
 */
export const answerByEvents = async (
  { engine, hub, answers }: { readonly engine: Engine; readonly hub: LiveHub; readonly answers: Answers },
  ctx: Context,
  params: GraphqlParams,
  stream: EventStream,
): Promise<void> => {
  const finish = (result: ExecutionResult) => {
    stream.send(new Frame(result));
    stream.complete();
  };
  const prepared = engine.prepare(params);
  if (prepared instanceof Refused) return finish({ errors: prepared.errors });
  const bound = engine.bind(ctx, prepared, params.variables);
  if (bound instanceof Refused) return finish({ errors: bound.errors });
  const { operation } = prepared.operation;
  if (operation !== 'subscription') {
    const run = async () => finish(await engine.run(ctx, prepared, bound));
    return operation === 'query' ? answers.inTurn(ctx.signal, run) : run();
  }

  let closed = false;
  stream.onClose(() => {
    closed = true;
  });
  const end = await hub.subscribe(ctx, prepared, bound, stream);
  if (end instanceof Refused) return finish({ errors: end.errors });
  if (closed) return end();
  stream.onClose(end);
  // Sends the headers only now: once a client has them, it gets every later event.
  stream.beat();
};
