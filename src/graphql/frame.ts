import type { ExecutionResult } from 'graphql';

/** A result that is serialised once, for any number of recipients. */
export class Frame {
  readonly result: ExecutionResult;
  #json: string | null = null;
  #event: Buffer | null = null;
  #chunk: Buffer | null = null;

  constructor(result: ExecutionResult) {
    this.result = result;
  }

  get json(): string {
    this.#json ??= JSON.stringify(this.result);
    return this.#json;
  }

  /** The result as a server-sent event. */
  get event(): Buffer {
    this.#event ??= Buffer.from(`event: next\ndata: ${this.json}\n\n`);
    return this.#event;
  }

  /** The event as a chunk of a chunked HTTP body, to be written directly to the socket. */
  get chunk(): Buffer {
    this.#chunk ??= asChunk(this.event);
    return this.#chunk;
  }
}

export const asChunk = (data: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from('\r\n')]);
