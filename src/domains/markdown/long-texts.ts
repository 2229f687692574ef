import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { codeOf } from '#platform/files/error-code.ts';
import type { RenderOptions, Template } from './model.ts';

const MEMORY_MEBIBYTES = 256;
/** Far more than the longest text takes. */
const TIMEOUT_MS = 10_000;

/** The limit of the queue. Further texts stay plain. */
const MAX_WAITING = 32;

let worker: Worker | null = null;
let waiting = 0;
let last: Promise<unknown> = Promise.resolve();

/** Whether so many texts wait that another would take too long. */
export const isBusy = (): boolean => waiting >= MAX_WAITING;

/**
 * Renders a text in a worker thread, one text at a time. The worker ends when no text is waiting. Returns null if the
 * text takes too long or too much memory.
 *
 * @throws any other error of the worker
 */
export const renderLongText = async (
  text: string,
  inline: boolean,
  options: RenderOptions,
): Promise<Template | null> => {
  waiting++;
  const rendered = last.then(() => ask({ text, inline, options }));
  last = rendered.catch(() => undefined);
  try {
    return await rendered;
  } finally {
    if (--waiting === 0) {
      const idle = worker;
      worker = null;
      await idle?.terminate();
    }
  }
};

const ask = async (given: object): Promise<Template | null> => {
  worker ??= new Worker(new URL('./rendering/worker.ts', import.meta.url), {
    resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
    // The worker may fail while nobody waits for it. Without a listener, that error would end the hub.
  }).on('error', () => undefined);
  const current = worker;
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const answer = once(current, 'message', { signal: limit });
    current.postMessage(given);
    const [message] = await answer;
    return template.parse(message);
  } catch (error) {
    // The next text gets a new worker.
    if (worker === current) worker = null;
    await current.terminate();
    if (limit.aborted || codeOf(error) === 'ERR_WORKER_OUT_OF_MEMORY') return null;
    throw error;
  }
};

const common = { source: z.string(), url: z.string().optional() };
const project = z.string().nullable();
const slot = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['issue', 'merge_request']), ...common, project, iid: z.int(), note: z.int().optional() }),
  z.object({ kind: z.literal('user'), ...common, name: z.string() }),
  z.object({ kind: z.enum(['label', 'milestone']), ...common, project, name: z.string() }),
  z.object({ kind: z.literal('commit'), ...common, project, sha: z.string() }),
  z.object({ kind: z.enum(['upload', 'file']), path: z.string(), embedded: z.boolean() }),
]);
const template = z.object({ html: z.array(z.string()), slots: z.array(slot) });
