/** Divides a stream into parts of a size, without holding them in memory. */
export class Parts {
  readonly #source: AsyncGenerator<Buffer>;
  readonly #partBytes: number;
  #held: Buffer | null = null;

  constructor(source: AsyncGenerator<Buffer>, partBytes: number) {
    this.#source = source;
    this.#partBytes = partBytes;
  }

  /** Yields the parts. Each must be read to its end before the next. */
  async *[Symbol.asyncIterator](): AsyncGenerator<AsyncIterable<Buffer>> {
    try {
      while (await this.#hasMore()) yield this.#part();
    } finally {
      await this.#source.return(undefined);
    }
  }

  async #hasMore(): Promise<boolean> {
    this.#held ??= await this.#next();
    return this.#held !== null;
  }

  async *#part(): AsyncGenerator<Buffer> {
    for (let left = this.#partBytes; left > 0; ) {
      const chunk = this.#held ?? (await this.#next());
      if (chunk === null) return;
      this.#held = chunk.length > left ? chunk.subarray(left) : null;
      left -= Math.min(left, chunk.length);
      yield this.#held === null ? chunk : chunk.subarray(0, chunk.length - this.#held.length);
    }
  }

  async #next(): Promise<Buffer | null> {
    const step = await this.#source.next();
    return step.done === true ? null : step.value;
  }
}
