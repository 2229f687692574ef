import type { Worker } from 'node:worker_threads';

/** Runs tasks in a worker thread, one at a time. The worker ends when no task is waiting. */
export class WorkerQueue {
  readonly #start: () => Worker;
  #worker: Worker | null = null;
  #length = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(start: () => Worker) {
    this.#start = start;
  }

  /** The number of tasks that run or wait. */
  get length(): number {
    return this.#length;
  }

  /** Runs the task after the earlier ones. If it fails, the worker ends, and the next task gets a new one. */
  async run<T>(task: (worker: Worker) => Promise<T>): Promise<T> {
    this.#length++;
    const done = this.#last.then(() => this.#attempt(task));
    this.#last = done.catch(() => undefined);
    try {
      return await done;
    } finally {
      if (--this.#length === 0) {
        const idle = this.#worker;
        this.#worker = null;
        await idle?.terminate();
      }
    }
  }

  async #attempt<T>(task: (worker: Worker) => Promise<T>): Promise<T> {
    // The worker may fail while nobody waits for it. Without a listener, that error would end the hub.
    this.#worker ??= this.#start().on('error', () => undefined);
    const worker = this.#worker;
    try {
      return await task(worker);
    } catch (error) {
      if (this.#worker === worker) this.#worker = null;
      await worker.terminate();
      throw error;
    }
  }
}
