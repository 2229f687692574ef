import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { WorkerQueue } from '#platform/concurrency/worker-queue.ts';
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

const queue = new WorkerQueue(
  () =>
    new Worker(new URL('./body-worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
    }),
);

/**
 * Parses a body in a worker thread, one body at a time. The bytes are transferred to it: the caller can no longer use
 * them.
 *
 * @throws DomainError `parameters`
 */
export const parseLargeBody = async (given: BodyToParse): Promise<unknown> => {
  const result = await queue.run(async (worker) => {
    const answer = once(worker, 'message');
    worker.postMessage(given, given.bytes.buffer instanceof ArrayBuffer ? [given.bytes.buffer] : []);
    const [message]: unknown[] = await answer;
    if (isParsed(message)) return message;
    throw new Error('the body could not be parsed');
  });
  if ('problem' in result) throw badParameters(result.problem);
  return result.body;
};

const isParsed = (message: unknown): message is ParsedBody =>
  typeof message === 'object' && message !== null && ('body' in message || 'problem' in message);
