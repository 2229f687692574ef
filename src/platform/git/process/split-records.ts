import { GitError } from '../git-error.ts';

const MAX_RECORD_BYTES = 256 * 1024;

/** Splits output at each `end` byte, without that byte. Yields the rest after the last one too, unless it is empty. */
export async function* splitRecords(source: AsyncIterable<Buffer>, end: number): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of source) {
    const buffer = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    for (let stop = buffer.indexOf(end); stop !== -1; stop = buffer.indexOf(end, at)) {
      yield buffer.subarray(at, stop);
      at = stop + 1;
    }
    rest = buffer.subarray(at);
    if (rest.length > MAX_RECORD_BYTES)
      throw new GitError('too_large', 'The result of the repository operation is too large');
  }
  if (rest.length > 0) yield rest;
}
