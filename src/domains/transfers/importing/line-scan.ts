import { usableIid } from '../relations/columns.ts';

const LF = 0x0a;
/** How a line names the number of its item. Within a text the quotes are escaped. */
const KEY = Buffer.from('"iid"');
const NUMBER = /^"iid"\s*:\s*"?(\d{1,15})/;
/** Room for the key, some space and the longest number. */
const WINDOW = 64;

/**
 * Counts the lines of a relation file while its bytes pass, and finds the highest number of its items. The first number
 * of a line is that of the item. Those of what it contains, such as a milestone, follow.
 */
export class LineScan {
  #breaks = 0;
  #last = LF;
  #highest = 0;
  /** Whether the current line has had its number. */
  #isNumbered = false;
  /** The end of the bytes so far, if a number may begin there. */
  #rest = Buffer.alloc(0);

  get lines(): number {
    return this.#breaks + (this.#last === LF ? 0 : 1);
  }

  /** 0 if no item has a number that it could keep. */
  get highestIid(): number {
    return this.#highest;
  }

  async *through(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      this.#scan(this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]));
      this.#last = chunk.at(-1) ?? this.#last;
      yield chunk;
    }
    this.#take(this.#rest);
  }

  #scan(bytes: Buffer): void {
    let key = bytes.indexOf(KEY);
    for (let start = 0; ; ) {
      const found = bytes.indexOf(LF, start);
      const end = found === -1 ? bytes.length : found;
      if (key !== -1 && key < start) key = bytes.indexOf(KEY, start);
      for (; key !== -1 && key < end && !this.#isNumbered; key = bytes.indexOf(KEY, key + 1)) {
        if (found === -1 && end - key < WINDOW) break;
        this.#take(bytes.subarray(key, Math.min(key + WINDOW, end)));
      }
      if (found === -1) {
        const from = key !== -1 ? key : Math.max(start, end - KEY.length + 1);
        this.#rest = this.#isNumbered ? Buffer.alloc(0) : Buffer.from(bytes.subarray(from));
        return;
      }
      this.#breaks++;
      this.#isNumbered = false;
      start = found + 1;
    }
  }

  #take(bytes: Buffer): void {
    const [, digits] = NUMBER.exec(bytes.toString('latin1')) ?? [];
    if (digits === undefined) return;
    this.#isNumbered = true;
    this.#highest = Math.max(this.#highest, usableIid(Number(digits)) ?? 0);
  }
}
