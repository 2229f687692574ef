import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from '#platform/caller/network.ts';
import type { Trust } from '#platform/caller/trusted-proxies.ts';
import type { Logger } from '#platform/log.ts';
import { type Entry, LinkedSet } from './linked-set.ts';
import { rawAnswer } from './raw-answers.ts';

export interface ConnectionLimits {
  /** Maximum open connections, in total and per address. */
  readonly connections: number;
  readonly connectionsPerAddress: number;
  /** Seconds that every request may take to arrive, and the bytes per second at which its body earns more time. */
  readonly requestGrace: number;
  readonly requestMinimumRate: number;
}

/** Limit for a body that sends no bytes, and for a response whose client reads no bytes. */
const STALL_MS = 60_000;
const SWEEP_MS = 1_000;
/** Above this share of the limit, idle keep-alive connections are closed to make room for new ones. */
const CROWDED = 0.9;

/** A body that arrives. */
export interface Body {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly startedAt: number;
  readonly startBytes: number;
  bytes: number;
  lastByteAt: number;
  /** Time in which received bytes waited for the hub to read them. The client could not send more meanwhile. */
  waitedMs: number;
}

/** Limits the connections of a server, and the time that clients may take to send a request or to read a response. */
export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #isProxy: Trust;
  readonly #log: Logger;
  readonly #open = new Map<string, number>();
  readonly #bodies = new LinkedSet<Body>();
  #sweptAt = performance.now();
  #size = 0;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(limits: ConnectionLimits, isProxy: Trust, log: Logger) {
    this.#limits = limits;
    this.#isProxy = isProxy;
    this.#log = log;
  }

  /** Counts the connections of the server until it closes. */
  attach(server: Server): void {
    server.on('connection', (socket: Socket) => this.#accept(socket));
    const timer = setInterval(() => {
      if (this.#size > this.#limits.connections * CROWDED) server.closeIdleConnections();
      this.#sweep();
    }, SWEEP_MS).unref();
    server.once('close', () => clearInterval(timer));
  }

  /**
   * Enforces the time limits of one request. Returns what `forget` needs, or null for a request without a body, which
   * costs only a timer.
   */
  watch(request: IncomingMessage, response: ServerResponse): Entry<Body> | null {
    // Node resets this timeout when the response is finished.
    response.setTimeout(STALL_MS, () => {
      // If no bytes wait to be sent, the handler is slow, not the client.
      if (request.socket.writableLength > 0) request.socket.destroy();
    });
    const { headers, socket } = request;
    if (headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0) return null;
    const now = performance.now();
    const startBytes = socket.bytesRead;
    const body = { request, response, startedAt: now, startBytes, bytes: 0, lastByteAt: now, waitedMs: 0 };
    return this.#bodies.add(body);
  }

  /**
   * Forgets a request whose response is closed, unless its body still arrives. Without it, thousands of requests would
   * live until the next sweep, and the garbage collector would take them for long-lived.
   */
  forget(entry: Entry<Body>): void {
    const { request } = entry.item;
    if (request.complete || request.destroyed) this.#bodies.delete(entry);
  }

  #accept(socket: Socket): void {
    const { connections, connectionsPerAddress } = this.#limits;
    const address = socket.remoteAddress ?? '';
    const network = this.#isProxy(address) ? null : networkOf(address);
    const ofNetwork = network === null ? 0 : (this.#open.get(network) ?? 0) + 1;
    this.#size++;
    if (network !== null) this.#open.set(network, ofNetwork);
    socket.once('close', () => {
      this.#size--;
      if (network === null) return;
      const left = (this.#open.get(network) ?? 1) - 1;
      if (left === 0) this.#open.delete(network);
      else this.#open.set(network, left);
    });
    if (ofNetwork > connectionsPerAddress) this.#refuse(socket, 429);
    else if (this.#size > connections) this.#refuse(socket, 503);
  }

  #refuse(socket: Socket, status: 429 | 503): void {
    socket.end(rawAnswer(status), () => socket.destroy());
    const now = performance.now();
    if (now - this.#warnedAt < 60_000) return;
    this.#warnedAt = now;
    this.#log.warn({ status, address: socket.remoteAddress, open: this.#size }, 'connections were refused');
  }

  #sweep(): void {
    const now = performance.now();
    const sinceMs = now - this.#sweptAt;
    this.#sweptAt = now;
    for (const entry of this.#bodies) {
      const { item: body } = entry;
      const { request } = body;
      // Node takes the socket away from a request that was destroyed.
      if (request.complete || request.destroyed || request.socket.destroyed) this.#bodies.delete(entry);
      else if (this.#isTooSlow(body, now, sinceMs)) {
        this.#bodies.delete(entry);
        this.#cut(body);
      }
    }
  }

  #isTooSlow(body: Body, now: number, sinceMs: number): boolean {
    const { request, response, startedAt, startBytes } = body;
    const bytes = request.socket.bytesRead - startBytes;
    if (bytes > body.bytes) {
      body.bytes = bytes;
      body.lastByteAt = now;
    }
    // Nothing reads a body after its response has finished. Such a body may still end, but its time is not extended.
    if (request.readableLength > 0 && !response.writableFinished) {
      body.waitedMs += Math.min(sinceMs, now - startedAt);
      body.lastByteAt = now;
      return false;
    }
    const { requestGrace, requestMinimumRate } = this.#limits;
    const allowedMs = (requestGrace + bytes / requestMinimumRate) * 1_000;
    return now - startedAt - body.waitedMs > allowedMs || now - body.lastByteAt > STALL_MS;
  }

  #cut({ request, response }: Body): void {
    const { socket } = request;
    this.#log.info(
      { address: socket.remoteAddress, method: request.method },
      'closed a connection whose request arrived too slowly',
    );
    // The connection may still be sending an earlier response, or part of this one. Then there is no room for a 408.
    if (response.socket === socket && !response.headersSent) socket.end(rawAnswer(408), () => socket.destroy());
    else socket.destroy();
  }
}
