import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { WorkerQueue } from '#platform/concurrency/worker-queue.ts';
import { codeOf } from '#platform/files/error-code.ts';
import type { RenderOptions, Template } from './model.ts';

const MEMORY_MEBIBYTES = 256;
/** Far more than the longest text takes. */
const TIMEOUT_MS = 10_000;

/** The limit of the queue. Further texts stay plain. */
const MAX_WAITING = 32;

const queue = new WorkerQueue(
  () =>
    new Worker(new URL('./rendering/worker.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MEBIBYTES },
    }),
);

/** Whether so many texts wait that another would take too long. */
export const isBusy = (): boolean => queue.length >= MAX_WAITING;

/**
 * Renders a text in a worker thread, one text at a time. Returns null if the text takes too long or too much memory.
 *
 * @throws any other error of the worker
 */
export const renderLongText = async (
  text: string,
  inline: boolean,
  options: RenderOptions,
): Promise<Template | null> => {
  try {
    return await queue.run(async (worker) => {
      const answer = once(worker, 'message', { signal: AbortSignal.timeout(TIMEOUT_MS) });
      worker.postMessage({ text, inline, options });
      const [message] = await answer;
      return template.parse(message);
    });
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ABORT_ERR' || code === 'ERR_WORKER_OUT_OF_MEMORY') return null;
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
