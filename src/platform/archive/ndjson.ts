import { Readable } from 'node:stream';
import { type ArchiveJsonLimits, parseArchiveJson } from './safe-json.ts';

export type Line =
  | { readonly index: number; readonly bytes: number; readonly value: unknown; readonly error?: undefined }
  | { readonly index: number; readonly bytes: number; readonly value?: undefined; readonly error: string };

export interface LineOptions extends ArchiveJsonLimits {
  readonly maxLineBytes: number;
  /** Lines before this one are counted but not parsed, for a reader that resumes. */
  readonly fromIndex?: number;
  readonly batchSize?: number;
}

/**
 * Reads one JSON value per line, in batches. An invalid line yields its `error`, and reading continues. A line over the
 * limit is skipped without keeping it in memory. `index` counts lines from 0, and `bytes` is the length including the
 * line break. Blank lines are counted but not returned. Errors of the source are thrown.
 */
export async function* readLineBatches(source: AsyncIterable<Buffer>, options: LineOptions): AsyncGenerator<Line[]> {
  const { maxLineBytes, fromIndex = 0, batchSize = 500 } = options;
  let batch: Line[] = [];
  let batchBytes = 0;
  let index = 0;
  let held: Buffer[] = [];
  let heldBytes = 0;

  const add = (bytes: number, line: Buffer | null) => {
    if (index >= fromIndex) {
      if (line === null) {
        batch.push({ index, bytes, error: `is longer than the limit of ${maxLineBytes} bytes` });
        batchBytes += 1;
      } else if (line.length > 1 || (line.length === 1 && line[0] !== CR)) {
        const parsed = parseArchiveJson(line, options);
        batch.push('error' in parsed ? { index, bytes, error: parsed.error } : { index, bytes, value: parsed.value });
        batchBytes += bytes;
      }
    }
    index++;
  };

  for await (const chunk of source) {
    let start = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      const piece = chunk.subarray(start, end);
      const length = heldBytes + piece.length;
      start = end + 1;
      if (length > maxLineBytes) add(length + 1, null);
      else add(length + 1, heldBytes === 0 ? piece : Buffer.concat([...held, piece], length));
      held = [];
      heldBytes = 0;
      if (batch.length >= batchSize || batchBytes >= MAX_BATCH_BYTES) {
        yield batch;
        batch = [];
        batchBytes = 0;
      }
    }
    if (start < chunk.length) {
      heldBytes += chunk.length - start;
      if (heldBytes > maxLineBytes) held = [];
      else held.push(chunk.subarray(start));
    }
  }
  if (heldBytes > maxLineBytes) add(heldBytes, null);
  else if (heldBytes > 0) add(heldBytes, Buffer.concat(held, heldBytes));
  if (batch.length > 0) yield batch;
}

/** Like `readLineBatches`, but line by line. */
export async function* readLines(source: AsyncIterable<Buffer>, options: LineOptions): AsyncGenerator<Line> {
  for await (const batch of readLineBatches(source, options)) yield* batch;
}

/**
 * Writes one JSON value per line. A string must already be JSON (as Postgres produces it). An array is a batch of
 * lines.
 */
export const writeLines = (source: AsyncIterable<LineSource | readonly LineSource[]>): Readable =>
  Readable.from(gather(source), { objectMode: false, highWaterMark: CHUNK_CHARACTERS });

type LineSource = string | object;

async function* gather(source: AsyncIterable<LineSource | readonly LineSource[]>): AsyncGenerator<Buffer> {
  let text = '';
  for await (const item of source) {
    // Also flushes within a batch, because a whole batch may exceed the maximum length of a string.
    for (const line of Array.isArray(item) ? item : [item]) {
      text += toLine(line);
      if (text.length < CHUNK_CHARACTERS) continue;
      yield Buffer.from(text);
      text = '';
    }
  }
  if (text !== '') yield Buffer.from(text);
}

const toLine = (item: LineSource) => `${typeof item === 'string' ? item : JSON.stringify(item)}\n`;

const LF = 0x0a;
const CR = 0x0d;
const MAX_BATCH_BYTES = 2 * 1024 * 1024;
const CHUNK_CHARACTERS = 256 * 1024;
