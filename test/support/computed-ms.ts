/**
 *
 * Returns the CPU time in milliseconds of this thread, which the test and its hub share. Unlike wall-clock time it does
 * not pass while other processes run, so a limit on it holds under any load.
 */
export const computedMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};
