import { isObject } from '#platform/values/json.ts';
import { KEPT_ITEMS, LINE_FEED } from './model.ts';
import { malformed, tooLarge } from './refusal.ts';

export interface EnvelopeItem {
  readonly type: string;
  /** As they arrived. `payloadOf` joins them. */
  readonly parts: readonly Buffer[];
}

export const payloadOf = ({ parts }: EnvelopeItem): Buffer => joined(parts);

export interface Envelope {
  readonly header: Readonly<Record<string, unknown>>;
  readonly items: readonly EnvelopeItem[];
  /** The number of items that were not kept. With 0, the body can be stored as it came. */
  readonly dropped: number;
}

export const MAX_LINE_BYTES = 32 * 1024;
const MAX_ITEMS = 1_000;

/** The part of the envelope that the next bytes belong to. */
type State = 'header' | 'item header' | 'payload' | 'after payload';

/**
 * Reads an envelope while it arrives (reference: error-tracking §5). It holds only the items that are used. Everything
 * else is dropped at once, whatever its size. Throws a Refusal if the framing is broken, or if the event is too large.
 */
export class EnvelopeReader {
  #state: State = 'header';
  #header: Readonly<Record<string, unknown>> | null = null;
  readonly #items: EnvelopeItem[] = [];
  readonly #counts = new Map<string, number>();
  #itemCount = 0;
  #dropped = 0;
  /** Parts of a line or of a payload that is kept. */
  #parts: Buffer[] = [];
  #partBytes = 0;
  #type = '';
  /** The bytes that are missing of the payload, or null if it ends with its line. */
  #left: number | null = 0;
  #kept = false;

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) at = this.#read(chunk, at);
  }

  /** Call it at the end of the body. */
  end(): Envelope {
    if (this.#state === 'header' || this.#state === 'item header') {
      // Some senders end the last line, some do not, and an empty line at the end is harmless.
      if (this.#partBytes > 0 || this.#state === 'header') this.#endLine();
    }
    if (this.#state === 'payload') {
      if (this.#left !== null && this.#left > 0) throw malformed('an item is shorter than its length');
      this.#endItem();
    }
    if (this.#header === null) throw malformed('the envelope has no header');
    return { header: this.#header, items: this.#items, dropped: this.#dropped };
  }

  #read(chunk: Buffer, at: number): number {
    switch (this.#state) {
      case 'header':
      case 'item header': {
        const end = chunk.indexOf(LINE_FEED, at);
        this.#addToLine(chunk.subarray(at, end < 0 ? chunk.length : end));
        if (end < 0) return chunk.length;
        this.#endLine();
        return end + 1;
      }
      case 'payload':
        return this.#left === null ? this.#readLine(chunk, at) : this.#readBytes(chunk, at, this.#left);
      case 'after payload':
        if (chunk[at] !== LINE_FEED) throw malformed('an item is longer than its length');
        this.#state = 'item header';
        return at + 1;
    }
  }

  #addToLine(part: Buffer): void {
    if (this.#partBytes + part.length > MAX_LINE_BYTES) throw malformed(`a header exceeds ${MAX_LINE_BYTES} bytes`);
    this.#add(part);
  }

  #readBytes(chunk: Buffer, at: number, left: number): number {
    const end = Math.min(chunk.length, at + left);
    if (this.#kept) this.#add(chunk.subarray(at, end));
    this.#left = left - (end - at);
    if (this.#left === 0) {
      this.#endItem();
      this.#state = 'after payload';
    }
    return end;
  }

  #readLine(chunk: Buffer, at: number): number {
    const end = chunk.indexOf(LINE_FEED, at);
    const part = chunk.subarray(at, end < 0 ? chunk.length : end);
    if (this.#kept) {
      if (this.#partBytes + part.length > (KEPT_ITEMS.get(this.#type)?.maxBytes ?? 0)) this.#dropLarge();
      else this.#add(part);
    }
    if (end < 0) return chunk.length;
    this.#endItem();
    this.#state = 'item header';
    return end + 1;
  }

  #endLine(): void {
    const line = joined(this.#take());
    if (this.#state === 'header') {
      this.#header = readHeader(line);
      this.#state = 'item header';
      return;
    }
    if (++this.#itemCount > MAX_ITEMS) throw malformed(`the envelope has more than ${MAX_ITEMS} items`);
    // Empty lines between items are tolerated. They count as items, so that their number is limited too.
    if (line.length === 0) return;
    const { type, length } = readHeader(line);
    this.#startItem(typeof type === 'string' ? type : '', length);
  }

  #startItem(type: string, length: unknown): void {
    if (length !== undefined && (typeof length !== 'number' || !Number.isSafeInteger(length) || length < 0)) {
      throw malformed('the length of an item is not a number of bytes');
    }
    const rule = KEPT_ITEMS.get(type);
    const count = (this.#counts.get(type) ?? 0) + 1;
    if (rule) this.#counts.set(type, count);
    this.#type = type;
    this.#kept = rule !== undefined && count <= rule.maxItems;
    if (!this.#kept) this.#dropped++;
    else if (rule && length !== undefined && length > rule.maxBytes) this.#dropLarge();
    this.#left = length ?? null;
    this.#state = 'payload';
    if (length === 0) {
      this.#endItem();
      this.#state = 'after payload';
    }
  }

  /** Drops an item that is too large. An event that is too large is refused, so that its sender learns of it. */
  #dropLarge(): void {
    if (this.#type === 'event') {
      throw tooLarge(`an event exceeds ${KEPT_ITEMS.get(this.#type)?.maxBytes ?? 0} bytes`);
    }
    this.#kept = false;
    this.#dropped++;
    this.#take();
  }

  #endItem(): void {
    if (this.#kept) this.#items.push({ type: this.#type, parts: this.#take() });
  }

  #add(part: Buffer): void {
    if (part.length === 0) return;
    this.#parts.push(part);
    this.#partBytes += part.length;
  }

  #take(): readonly Buffer[] {
    const parts = this.#parts;
    this.#parts = [];
    this.#partBytes = 0;
    return parts;
  }
}

/** Joins the parts of a body. Copies nothing if there is only one. */
export const joined = (parts: readonly Buffer[]): Buffer => {
  const [only] = parts;
  return only && parts.length === 1 ? only : Buffer.concat(parts);
};

/** Reads a whole envelope. Throws a Refusal as `EnvelopeReader` does. */
export const readEnvelope = (...parts: readonly Buffer[]): Envelope => {
  const reader = new EnvelopeReader();
  for (const part of parts) reader.push(part);
  return reader.end();
};

/** Writes an envelope that holds only the kept items. */
export const writeEnvelope = ({ header, items }: Envelope): Buffer =>
  Buffer.concat([
    Buffer.from(JSON.stringify(header)),
    ...items.flatMap((item) => {
      const payload = payloadOf(item);
      return [Buffer.from(`\n${JSON.stringify({ type: item.type, length: payload.length })}\n`), payload];
    }),
  ]);

/** Reads the header of an envelope or of an item. @throws Refusal 400 */
export const readHeader = (line: Buffer): Readonly<Record<string, unknown>> => {
  let header: unknown;
  try {
    header = JSON.parse(line.toString());
  } catch {
    throw malformed('a header of the envelope is not JSON');
  }
  if (!isObject(header)) throw malformed('a header of the envelope is not an object');
  return header;
};
