/** Longer parts of a line need not be held to find the start of the next line. */
const MAX_HELD_BYTES = 64 * 1024;

export interface Line {
  readonly bytes: Buffer;
  /** False for a continuation of a long line. */
  readonly begins: boolean;
}

/** Splits into lines including their line break. A long line comes in several parts. */
export async function* splitLines(source: AsyncIterable<Buffer>): AsyncGenerator<Line> {
  let held: Buffer = Buffer.alloc(0);
  let begins = true;
  for await (const chunk of source) {
    const buffer = held.length === 0 ? chunk : Buffer.concat([held, chunk]);
    let at = 0;
    for (let end = buffer.indexOf(0x0a); end !== -1; end = buffer.indexOf(0x0a, at)) {
      yield { bytes: buffer.subarray(at, end + 1), begins };
      begins = true;
      at = end + 1;
    }
    held = buffer.subarray(at);
    if (held.length <= MAX_HELD_BYTES) continue;
    yield { bytes: held, begins };
    begins = false;
    held = Buffer.alloc(0);
  }
  if (held.length > 0) yield { bytes: held, begins };
}
