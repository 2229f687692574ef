import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../process/start-error.ts';

const LOCK_TIMEOUT_MS = 320_000;

/**
 * Runs `run` while no other process on this machine holds the lock of the directory. The lock is an abstract Unix
 * socket. The kernel releases it however its holder ends, so it is never stale.
 *
 * @throws Error if the lock is not released in time
 */
export const withLock = async <T>(directory: string, run: () => Promise<T>): Promise<T> => {
  const name = `\0millrace-postgres-${createHash('sha256').update(directory).digest('hex').slice(0, 32)}`;
  const deadline = performance.now() + LOCK_TIMEOUT_MS;
  let lock = await tryLock(name);
  while (!lock) {
    if (performance.now() > deadline)
      throw new StartError(`Another process holds the start lock of the data directory ${directory}.`);
    await sleep(25);
    lock = await tryLock(name);
  }
  const held = lock;
  try {
    return await run();
  } finally {
    await new Promise((resolve) => held.close(resolve));
  }
};

const tryLock = (name: string): Promise<Server | null> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(null) : reject(error),
    );
    server.listen({ path: name, exclusive: true }, () => resolve(server));
  });

/** Identifies this process as `<pid>-<start time>`, because the system reuses pids. */
export const processKey = (): string => `${process.pid}-${startTimeOf(process.pid) ?? 0}`;

/** Returns true if the process is alive (not a zombie) and, if given, started at `startedAt`. */
export const isAlive = (pid: number, startedAt?: string): boolean => {
  const actual = startTimeOf(pid);
  return actual !== null && (startedAt === undefined || actual === startedAt);
};

const startTimeOf = (pid: number): string | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in field 2 may contain spaces and brackets, so count from its end. State is field 3, start time field
    // 22.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : (fields[19] ?? null);
  } catch {
    return null;
  }
};
