/**
 * The jobs whose handlers run in a lane. A job counts as often as it was taken, because a retry may start before the
 * earlier attempt is released.
 */
export class HeldJobs {
  readonly #runs = new Map<string, number>();

  take(id: string): void {
    this.#runs.set(id, (this.#runs.get(id) ?? 0) + 1);
  }

  /** Gives up one run of the job, after a delay if one is given. */
  release(id: string, delayMs = 0): void {
    if (delayMs > 0) {
      setTimeout(() => this.release(id), delayMs).unref();
      return;
    }
    const runs = (this.#runs.get(id) ?? 0) - 1;
    if (runs > 0) this.#runs.set(id, runs);
    else this.#runs.delete(id);
  }

  ids(): string[] {
    return [...this.#runs.keys()];
  }
}
