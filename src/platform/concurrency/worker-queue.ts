import type { Worker } from 'node:worker_threads';

/** Starting a worker takes a quarter of a second of CPU. Clients that send large bodies often send several. */
const IDLE_MS = 5_000;

/** Runs tasks in a worker thread, one at a time. The worker ends when it was idle for a while. */
export class WorkerQueue {
  readonly #start: () => Worker;
  readonly #idleMs: number;
  #worker: Worker | null = null;
  /** Runs while the worker is idle. */
  #idle: NodeJS.Timeout | undefined;
  #length = 0;
  #last: Promise<unknown> = Promise.resolve();

  constructor(start: () => Worker, idleMs = IDLE_MS) {
    this.#start = start;
    this.#idleMs = idleMs;
  }

  /** The number of tasks that run or wait. */
  get length(): number {
    return this.#length;
  }

  /** Runs the task after the earlier ones. If it fails, the worker ends, and the next task gets a new one. */
  async run<T>(task: (worker: Worker) => Promise<T>): Promise<T> {
    this.#length++;
    clearTimeout(this.#idle);
    const done = this.#last.then(() => this.#attempt(task));
    this.#last = done.catch(() => undefined);
    try {
      return await done;
    } finally {
      if (--this.#length === 0) this.#rest();
    }
  }

  /** Ends the worker after a while without tasks. Neither it nor the timer keeps the process running until then. */
  #rest(): void {
    const worker = this.#worker;
    if (!worker) return;
    worker.unref();
    this.#idle = setTimeout(() => {
      this.#forget(worker);
      void worker.terminate();
    }, this.#idleMs).unref();
  }

  #begin(): Worker {
    const worker = this.#start();
    // The worker may fail while nobody waits for it. Without a listener, that error would end the hub.
    worker.on('error', () => undefined);
    worker.on('exit', () => this.#forget(worker));
    this.#worker = worker;
    return worker;
  }

  #forget(worker: Worker): void {
    if (this.#worker === worker) this.#worker = null;
  }

  async #attempt<T>(task: (worker: Worker) => Promise<T>): Promise<T> {
    const worker = this.#worker ?? this.#begin();
    worker.ref();
    try {
      return await task(worker);
    } catch (error) {
      this.#forget(worker);
      await worker.terminate();
      throw error;
    }
  }
}
