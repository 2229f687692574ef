import { GitError } from '../git-error.ts';
import { type KeptProcess, keepProcesses } from '../process/kept.ts';
import type { GitProcess, Runner } from '../process/runner.ts';

/** Moves refs through `git update-ref --stdin` processes that stay open, one for each repository that is written to. */
export interface RefWriter {
  /** Executes the commands of one transaction (`update`, `delete`, ... of `update-ref --stdin -z`): all or none. */
  write(path: string, commands: string): Promise<void>;
  /** Ends the process of a repository that is about to be replaced or removed. */
  forget(path: string): void;
  close(): Promise<void>;
}

const MAX_PROCESSES = 16;
const IDLE_MS = 30_000;
const TIMEOUT_MS = 60_000;
/** git remembers every object that it has seen. */
const MAX_TRANSACTIONS = 500;
const DONE = 'start: ok\ncommit: ok\n';

export const createRefWriter = (runner: Runner): RefWriter => {
  const processes = keepProcesses(MAX_PROCESSES, (path, onEnd, onIdle) => openProcess(runner, path, onEnd, onIdle));
  /** Runs one transaction at a time for each repository, because a failing one ends its process. */
  const last = new Map<string, Promise<void>>();
  return {
    write(path, commands) {
      const before = last.get(path) ?? Promise.resolve();
      const mine = before.catch(() => {}).then(() => processes.use(path, (process) => process.write(commands)));
      last.set(path, mine);
      return mine.finally(() => {
        if (last.get(path) === mine) last.delete(path);
      });
    },
    forget: (path) => processes.forget(path),
    close: () => processes.close(),
  };
};

interface RefProcess extends KeptProcess {
  write(commands: string): Promise<void>;
}

const openProcess = (runner: Runner, path: string, onEnd: () => void, onIdle: () => void): RefProcess => {
  let waiting: { resolve(): void; reject(error: Error): void } | null = null;
  let said = '';
  let transactions = 0;
  let timer = setTimeout(() => {}, 0);
  const rearm = (git: GitProcess) => {
    clearTimeout(timer);
    timer = waiting ? setTimeout(() => git.kill('timeout'), TIMEOUT_MS) : setTimeout(end, IDLE_MS);
    timer.unref();
  };
  const starting = runner.launch(path, ['update-ref', '--stdin', '-z']).then((git) => {
    git.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString('latin1');
      if (said !== DONE) return;
      said = '';
      waiting?.resolve();
      waiting = null;
      if (transactions >= MAX_TRANSACTIONS) void end();
      else rearm(git);
      onIdle();
    });
    return git;
  });
  const over = starting
    .then(async (git) => git.failure(await git.exited))
    .catch((error: unknown) => (error instanceof Error ? error : new GitError('failed', String(error))))
    .then((error) => {
      clearTimeout(timer);
      onEnd();
      waiting?.reject(error);
      waiting = null;
    });
  const end = async (): Promise<void> => {
    onEnd();
    starting.then(
      (git) => git.stdin.end(),
      () => {}, // the pending write gets the error
    );
    await over;
  };
  return {
    busy: () => waiting !== null,
    end,
    write: (commands) =>
      new Promise((resolve, reject) => {
        waiting = { resolve, reject };
        transactions += 1;
        starting.then(
          (git) => {
            rearm(git);
            git.stdin.write(`start\0${commands}commit\0`);
          },
          () => {},
        );
      }),
  };
};
