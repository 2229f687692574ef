import type { IncomingMessage } from 'node:http';
import { inflateSync } from 'node:zlib';
import { SharedSlots } from '#platform/concurrency/slots.ts';
import { isObject } from '#platform/values/json.ts';
import { readEncoding, unpack, unpackStart, unpackStream } from './decoding.ts';
import {
  type Envelope,
  EnvelopeReader,
  joined,
  MAX_LINE_BYTES,
  payloadOf,
  readEnvelope,
  readHeader,
  writeEnvelope,
} from './envelope.ts';
import {
  type Encoding,
  LINE_FEED,
  MAX_BODY_BYTES,
  MAX_EVENT_BYTES,
  MAX_UNPACKED_BYTES,
  readEventId,
  WHOLE_BODY_BYTES,
  WHOLE_UNPACKED_BYTES,
} from './model.ts';
import { parseLenient } from './normalize/values.ts';
import { malformed, tooLarge } from './refusal.ts';

/** A body that was read and checked, as it is stored. */
export interface ReadBody {
  readonly encoding: Encoding;
  /** As it arrived, because joining the parts would copy them. */
  readonly body: readonly Buffer[];
  /** In bytes, unpacked. */
  readonly size: number;
  /** The id of its event or feedback. Null if that has none, or if there is neither. */
  readonly event_id: string | null;
  readonly hasEvent: boolean;
  /** Whether there is anything to digest. */
  readonly isEmpty: boolean;
  /** The number of items that were dropped. */
  readonly dropped: number;
  /** The DSN in the header of an envelope, which tunnels use. */
  readonly dsn: unknown;
}

/** A body whose start was read. */
export interface Incoming {
  readonly request: IncomingMessage;
  readonly encoding: Encoding;
  /** Up to about `WHOLE_BODY_BYTES`, still packed. */
  readonly parts: readonly Buffer[];
  /** Whether the parts are the whole body. */
  readonly ended: boolean;
}

/** Reads a body until it ends or becomes large. @throws Refusal 413, or 415 for an unknown encoding */
export const readStart = async (request: IncomingMessage): Promise<Incoming> => {
  const encoding = readEncoding(request.headers['content-encoding']);
  if (Number(request.headers['content-length'] ?? 0) > MAX_BODY_BYTES) {
    throw tooLarge(`the body exceeds ${MAX_BODY_BYTES} bytes`);
  }
  return { request, encoding, ...(await collectStart(request)) };
};

/** Reads the DSN in the header of an envelope. Unpacks no more than a header may have. @throws Refusal 400 */
export const readDsnOfStart = async ({ parts, encoding }: Incoming): Promise<unknown> => {
  const start = await unpackStart(joined(parts), encoding, MAX_LINE_BYTES);
  const end = start.indexOf(LINE_FEED);
  return readHeader(end < 0 ? start : start.subarray(0, end)).dsn;
};

/** Reads an envelope. @throws Refusal 400 if it is broken, 413 if it is too large */
export const readEnvelopeBody = async (incoming: Incoming, projectId: number): Promise<ReadBody> => {
  const { encoding, parts } = incoming;
  const plain = unpackedParts(incoming);
  if (plain) {
    const envelope = readEnvelope(...plain);
    return envelope.dropped === 0
      ? { ...factsOf(envelope), encoding, body: parts, size: lengthOf(plain) }
      : rewritten(envelope);
  }
  const reader = new EnvelopeReader();
  await streamRest(incoming, projectId, MAX_UNPACKED_BYTES, (part) => reader.push(part));
  return rewritten(reader.end());
};

/** Reads a single event. @throws Refusal 400 if it is no JSON object, 413 if it is too large */
export const readEventBody = async (incoming: Incoming, projectId: number): Promise<ReadBody> => {
  const { encoding, parts, ended } = incoming;
  const whole = ended ? joined(parts) : null;
  let plain = whole && unpack(whole, encoding, MAX_EVENT_BYTES);
  if (!plain) {
    const unpacked: Buffer[] = [];
    await streamRest(incoming, projectId, MAX_EVENT_BYTES, (part) => unpacked.push(part));
    plain = Buffer.concat(unpacked);
  }
  if (plain.length > MAX_EVENT_BYTES) throw tooLarge(`an event exceeds ${MAX_EVENT_BYTES} bytes`);
  const json = fromBase64(plain);
  let event: unknown;
  try {
    event = parseLenient(json.toString());
  } catch {
    throw malformed('the event is not JSON');
  }
  if (!isObject(event)) throw malformed('the event is not an object');
  const facts = { event_id: readEventId(event.event_id), hasEvent: true, isEmpty: false, dropped: 0, dsn: undefined };
  return json === plain && whole
    ? { ...facts, encoding, body: [whole], size: plain.length }
    : { ...facts, encoding: 'identity', body: [json], size: json.length };
};

/** Returns the unpacked body if all of it was read. Null if it goes on, or unpacks to too much to be held. */
const unpackedParts = ({ parts, ended, encoding }: Incoming): readonly Buffer[] | null => {
  if (!ended) return null;
  if (encoding === 'identity') return parts;
  const plain = unpack(joined(parts), encoding, WHOLE_UNPACKED_BYTES);
  return plain && [plain];
};

const lengthOf = (parts: readonly Buffer[]): number => parts.reduce((sum, { length }) => sum + length, 0);

const factsOf = ({ header, items, dropped }: Envelope): Omit<ReadBody, 'encoding' | 'body' | 'size'> => {
  const event = items.find(({ type }) => type === 'event');
  const named = event ?? items.find(({ type }) => type === 'feedback');
  return {
    event_id: named ? (readEventId(header.event_id) ?? idOfPayload(payloadOf(named))) : null,
    hasEvent: event !== undefined,
    isEmpty: items.length === 0,
    dropped,
    dsn: header.dsn,
  };
};

const rewritten = (envelope: Envelope): ReadBody => {
  const body = writeEnvelope(envelope);
  return { ...factsOf(envelope), encoding: 'identity', body: [body], size: body.length };
};

const idOfPayload = (payload: Buffer): string | null => {
  try {
    const event = parseLenient(payload.toString());
    return isObject(event) ? readEventId(event.event_id) : null;
  } catch {
    return null;
  }
};

const [OPEN_BRACE, OPEN_BRACKET] = [123, 91];

/** Old SDKs send events as base64 of zlib, without saying so. */
const fromBase64 = (bytes: Buffer): Buffer => {
  const start = bytes.findIndex((byte) => byte > 32);
  if (start < 0 || bytes[start] === OPEN_BRACE || bytes[start] === OPEN_BRACKET) return bytes;
  const packed = Buffer.from(bytes.toString('latin1'), 'base64');
  try {
    return inflateSync(packed, { maxOutputLength: MAX_EVENT_BYTES });
  } catch {
    throw malformed('the event is neither JSON nor base64 of zlib');
  }
};

const collectStart = (request: IncomingMessage): Promise<Pick<Incoming, 'parts' | 'ended'>> => {
  const parts: Buffer[] = [];
  let size = 0;
  return new Promise((resolve, reject) => {
    const stop = () => request.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
    const onData = (part: Buffer) => {
      parts.push(part);
      size += part.length;
      if (size <= WHOLE_BODY_BYTES) return;
      stop().pause();
      resolve({ parts, ended: false });
    };
    const onEnd = () => {
      stop();
      resolve({ parts, ended: true });
    };
    const onError = (error: Error) => {
      stop();
      reject(error);
    };
    const onClose = () => onError(new Error('the sender has gone'));
    request.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
    if (request.destroyed) onClose();
  });
};

const streams = new SharedSlots<number>({ all: 16, each: 4 });

/** Large bodies are unpacked a few at a time, and fewer of one project. Others wait, and so do their senders. */
const streamRest = (
  { request, encoding, parts, ended }: Incoming,
  projectId: number,
  maxUnpackedBytes: number,
  onPart: (part: Buffer) => void,
): Promise<number> =>
  streams.run(projectId, () =>
    unpackStream(parts, ended ? null : request, encoding, { maxBytes: MAX_BODY_BYTES, maxUnpackedBytes }, onPart),
  );
