/**
 * Runs `work` when woken: one run at a time, and once more if woken during the run. Errors go to `onError`, and the
 * next wake retries.
 */
export class Loop {
  readonly #work: () => Promise<void>;
  readonly #onError: (error: unknown) => void;
  #running: Promise<void> = Promise.resolve();
  #active = false;
  #again = false;
  #stopped = false;

  constructor(work: () => Promise<void>, onError: (error: unknown) => void) {
    this.#work = work;
    this.#onError = onError;
  }

  wake(): void {
    if (this.#stopped) return;
    this.#again = true;
    if (this.#active) return;
    this.#active = true;
    this.#running = this.#run();
  }

  /** Resolves when the current run and any runs requested meanwhile are over. */
  async settled(): Promise<void> {
    while (this.#active) await this.#running;
  }

  /** Starts no further run, and waits for the current one. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#again = false;
    await this.settled();
  }

  async #run(): Promise<void> {
    while (this.#again) {
      this.#again = false;
      try {
        await this.#work();
      } catch (error) {
        this.#onError(error);
      }
    }
    this.#active = false;
  }
}
