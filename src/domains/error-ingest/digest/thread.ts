import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import type { Services } from '#platform/context.ts';
import { connectionStringOf } from '#platform/db/pool.ts';
import type { Contents, StoredEnvelope } from './read.ts';

/** A request to the thread: the envelopes without their bodies. */
export type Batch = readonly Omit<StoredEnvelope, 'body'>[];

/** The answer of the thread. */
export type Answer = { readonly contents: readonly Contents[] } | { readonly unread: string };

/** The data that the thread needs to start. */
export interface ThreadData {
  readonly connectionString: string;
}

/** The thread could not read the bodies from the database. The envelopes are not at fault. */
export class UnreadError extends Error {
  override readonly name = 'UnreadError';
}

/**
 * The objects that it reads live for one batch. By itself V8 would let the young generation grow to a hundred
 * mebibytes.
 */
const MEMORY_MEBIBYTES = { maxOldGenerationSizeMb: 128, maxYoungGenerationSizeMb: 8 };
/** No batch takes a second. One that takes this long never ends. */
const TIMEOUT_MS = 30_000;
const IDLE_MS = 10_000;

const readers = new WeakMap<Services, Reader>();

/**
 * Reads envelopes in a worker thread, one batch at a time. The thread reads their bodies from the database itself,
 * because large texts and buffers make the garbage collector of the main thread slow. It ends when there was no batch
 * for a while.
 *
 * @throws UnreadError if the database is away or does not return every body
 * @throws Error if the thread ran out of memory or time. Another batch gets a new thread
 */
export const readInThread = (services: Services, batch: Batch): Promise<readonly Contents[]> => {
  const reader = readers.get(services) ?? new Reader(services);
  readers.set(services, reader);
  return reader.read(batch);
};

class Reader {
  readonly #data: ThreadData;
  #worker: Worker | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;

  constructor({ pool }: Services) {
    this.#data = { connectionString: connectionStringOf(pool) };
  }

  read(batch: Batch): Promise<readonly Contents[]> {
    const read = this.#last.then(() => this.#ask(batch));
    this.#last = read.catch(() => undefined);
    return read;
  }

  async #ask(batch: Batch): Promise<readonly Contents[]> {
    clearTimeout(this.#idle);
    // The worker may fail while nobody waits for it. Without a listener, that error would end the hub.
    this.#worker ??= new Worker(new URL('./worker.ts', import.meta.url), {
      workerData: this.#data,
      resourceLimits: MEMORY_MEBIBYTES,
    }).on('error', () => undefined);
    const worker = this.#worker;
    // Ends the wait for the other.
    const abort = new AbortController();
    let answer: Answer | undefined;
    try {
      const answered = once(worker, 'message', { signal: abort.signal });
      worker.postMessage(batch);
      const late = sleep(TIMEOUT_MS, null, { signal: abort.signal });
      const first = await Promise.race([answered, late]);
      if (first === null) throw new Error('reading took too long');
      [answer] = first;
    } catch (error) {
      if (this.#worker === worker) this.#worker = null;
      await worker.terminate();
      throw error;
    } finally {
      abort.abort();
      this.#idle = setTimeout(() => this.#end(), IDLE_MS).unref();
    }
    if (answer === undefined) throw new Error('the thread answered nothing');
    if ('unread' in answer) throw new UnreadError(answer.unread);
    return answer.contents;
  }

  #end(): void {
    void this.#worker?.terminate();
    this.#worker = null;
  }
}
