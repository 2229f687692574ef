/** A process that is kept open for a repository. */
export interface KeptProcess {
  busy(): boolean;
  /** Lets the process finish its requests, then ends it. */
  end(): Promise<void>;
}

/** Processes that are kept open, one for each repository in use. */
export interface KeptProcesses<T extends KeptProcess> {
  /** Runs `work` with the process of the repository, and starts one if needed. `work` must send its request at once. */
  use<R>(path: string, work: (process: T) => Promise<R>): Promise<R>;
  /** Ends the process of a repository that is about to be replaced or removed. */
  forget(path: string): void;
  close(): Promise<void>;
}

/**
 * Keeps at most `max` processes open. Ends the least recently used one first. If all are busy, the next caller waits
 * until one is idle. `open` must call `onEnd` when its process accepts no more requests, and `onIdle` when all are
 * answered.
 */
export const keepProcesses = <T extends KeptProcess>(
  max: number,
  open: (path: string, onEnd: () => void, onIdle: () => void) => T,
): KeptProcesses<T> => {
  // In order of use.
  const kept = new Map<string, T>();
  const waiting: (() => void)[] = [];
  const wakeNext = () => waiting.shift()?.();

  /** Returns false if all processes are busy. */
  const makeRoom = (): boolean => {
    for (const [other, process] of kept) {
      if (kept.size < max) break;
      if (process.busy()) continue;
      void process.end();
      kept.delete(other);
    }
    return kept.size < max;
  };

  const find = (path: string): T | null => {
    const known = kept.get(path);
    if (known) {
      kept.delete(path);
      kept.set(path, known);
      return known;
    }
    if (!makeRoom()) return null;
    const onEnd = () => {
      if (kept.get(path) === process) kept.delete(path);
      wakeNext();
    };
    const process = open(path, onEnd, wakeNext);
    kept.set(path, process);
    return process;
  };

  return {
    async use(path, work) {
      let process = find(path);
      for (; process === null; process = find(path)) await new Promise<void>((resolve) => waiting.push(resolve));
      return work(process);
    },
    forget(path) {
      void kept.get(path)?.end();
      kept.delete(path);
    },
    async close() {
      const open = [...kept.values()];
      kept.clear();
      await Promise.all(open.map((process) => process.end()));
    },
  };
};
