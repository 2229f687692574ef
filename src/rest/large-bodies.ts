import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { badParameters } from '#platform/errors.ts';
import type { JsonLimits } from '#platform/values/json.ts';

/** Bodies up to this size are parsed on the main thread, which takes a few milliseconds. */
export const LARGE_BODY_BYTES = 1024 * 1024;

const MEMORY_MEBIBYTES = 512;

export type BodyKind = 'json' | 'form';

/** The message to the worker. It replies with a `ParsedBody`. */
export interface BodyToParse {
  readonly kind: BodyKind;
  readonly bytes: Uint8Array;
  readonly limits: JsonLimits;
}
export type ParsedBody = { readonly body: unknown } | { readonly problem: string };

let worker: Worker | null = null;
let waiting = 0;
let last: Promise<unknown> = Promise.resolve();

/**
 * Parses a body in a worker thread, one body at a time. The worker ends when no body is waiting. The bytes are
 * transferred to it: the caller can no longer use them.
 * @throws DomainError `parameters`
 */
export const parseLargeBody = async (given: BodyToParse): Promise<unknown> => {
  waiting++;
  const parsed = last.then(() => ask(given));
  last = parsed.catch(() => undefined);
  try {
    const result = await parsed;
    if ('problem' in result) throw badParameters(result.problem);
    return result.body;
  } finally {
    if (--waiting === 0) {
      const idle = worker;
      worker = null;
      await idle?.terminate();
    }
  }
};

const ask = async (given: BodyToParse): Promise<ParsedBody> => {
  worker ??= new Worker(new URL('./body-worker.ts', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
    // The worker may fail while nobody waits for it. Without a listener, that error would end the hub.
  }).on('error', () => undefined);
  const current = worker;
  try {
    const answer = once(current, 'message');
    current.postMessage(given, given.bytes.buffer instanceof ArrayBuffer ? [given.bytes.buffer] : []);
    const [message]: unknown[] = await answer;
    if (isParsed(message)) return message;
    throw new Error('the body could not be parsed');
  } catch (error) {
    // The worker may have run out of memory. The next body gets a new one.
    if (worker === current) worker = null;
    await current.terminate();
    throw error;
  }
};

const isParsed = (message: unknown): message is ParsedBody =>
  typeof message === 'object' && message !== null && ('body' in message || 'problem' in message);
