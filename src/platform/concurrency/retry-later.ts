const FIRST_DELAY_MS = 1_000;
const LAST_DELAY_MS = 10_000;

/**
 * Runs the work in a second, and again at growing intervals until it succeeds: for work that must end while this process
 * lives, for example after an outage of the database.
 */
export const retryLater = (
  run: () => Promise<void>,
  onFailure: (error: unknown) => void,
  delayMs = FIRST_DELAY_MS,
): void => {
  setTimeout(() => {
    run().catch((error: unknown) => {
      onFailure(error);
      retryLater(run, onFailure, Math.min(delayMs * 2, LAST_DELAY_MS));
    });
  }, delayMs).unref();
};
