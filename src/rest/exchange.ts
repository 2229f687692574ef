import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Exchange } from './route.ts';

const NO_BYTES = Buffer.alloc(0);

/** The exchange of a route on top of Fastify. */
export class FastifyExchange implements Exchange {
  readonly externalUrl: string;
  status: number;
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;

  constructor(request: FastifyRequest, reply: FastifyReply, externalUrl: string, status: number) {
    this.#request = request;
    this.#reply = reply;
    this.externalUrl = externalUrl;
    this.status = status;
  }

  get method() {
    return this.#request.method;
  }
  get url() {
    return this.#request.originalUrl;
  }
  get apiVersion() {
    return this.#request.apiVersion;
  }
  get headers() {
    return this.#request.headers;
  }
  get ip() {
    return this.#request.ip;
  }
  get body() {
    const { body } = this.#request;
    return Buffer.isBuffer(body) ? body : NO_BYTES;
  }
  setHeader(name: string, value: string) {
    this.#reply.header(name, value);
  }
  setStatus(status: number) {
    this.status = status;
  }
}
