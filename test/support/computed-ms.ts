/**
 * Milliseconds that this thread, which the test and its hub share, has spent computing. Unlike the clock's they do not
 * pass while the machine does other things: a limit to them holds under any load.
 */
export const computedMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};
