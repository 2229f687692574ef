import { type ChildProcess, spawn } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

export interface Server {
  readonly pid: number;
  readonly url: string;
  /** Sends SIGTERM, and SIGKILL after 15 seconds. Resolves when the process has ended. */
  stop(): Promise<void>;
}

export interface ServerOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeArgs?: readonly string[];
  /** Matches the line on standard output that announces the URL, which is its last word. */
  readonly ready: RegExp;
}

// Long enough for a machine that is busy with other work.
const START_TIMEOUT_MS = 240_000;
const STOP_TIMEOUT_MS = 15_000;

const children = new Set<ChildProcess>();
// Kills all child processes, however the run ends.
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/**
 * Starts a Node program and waits until it serves.
 * @throws Error with its standard error when it does not start
 */
export const startServer = async (file: string, { env = {}, nodeArgs = [], ready }: ServerOptions): Promise<Server> => {
  const child = spawn(process.execPath, [...nodeArgs, file], {
    // Without production mode, PostGraphile watches the schema and explains queries.
    env: { PATH: process.env.PATH, HOME: process.env.HOME, NODE_ENV: 'production', GRAPHILE_ENV: 'production', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  children.add(child);
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(-4_000);
  });
  const ended = new Promise<void>((resolve) => {
    child.once('close', () => {
      children.delete(child);
      resolve();
    });
  });
  const timer = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS);
  try {
    for await (const line of createInterface(child.stdout)) {
      if (!ready.test(line)) continue;
      // Only errors are logged.
      child.stdout.pipe(process.stderr, { end: false });
      const { pid } = child;
      if (pid === undefined) break;
      return { pid, url: line.split(' ').at(-1) ?? '', stop: () => stopChild(child, ended) };
    }
  } finally {
    clearTimeout(timer);
  }
  throw new Error(`${file} did not start:\n${errors}`);
};

const stopChild = async (child: ChildProcess, ended: Promise<void>): Promise<void> => {
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(timer);
};

const TICK_MS = 10;

/**
 * Returns the CPU time of the processes so far, in milliseconds. The kernel counts in ticks of 10 ms, so measure half a
 * second or more.
 */
export const cpuMs = (pids: readonly number[]): number => {
  let ticks = 0;
  for (const pid of pids) {
    const fields = statOf(pid);
    if (fields) ticks += Number(fields[11]) + Number(fields[12]);
  }
  return ticks * TICK_MS;
};

/** Returns the CPU time of a process and its children, including children that have ended, in milliseconds. */
export const treeCpuMs = (parent: number): number => {
  const fields = statOf(parent);
  const ended = fields ? (Number(fields[13]) + Number(fields[14])) * TICK_MS : 0;
  return ended + cpuMs([parent, ...childrenOf(parent)]);
};

/** Returns the children of a process, such as the backends of a Postgres server. */
export const childrenOf = (parent: number): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && statOf(Number(name))?.[1] === String(parent))
    .map(Number);

export const parentOf = (pid: number): number => Number(statOf(pid)?.[1]);

/**
 * Returns the fields of `/proc/PID/stat` from the state on, because the name before it may contain anything. Null when
 * the process is gone.
 */
const statOf = (pid: number): string[] | null => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
};

export const rssMiB = (pid: number): number => {
  const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) / 1024;
};

/** Forgets the peak so far, such as that of the start. */
export const forgetPeakRss = (pid: number): void => writeFileSync(`/proc/${pid}/clear_refs`, '5');

/** Returns the peak resident memory so far, or since `forgetPeakRss`. */
export const peakRssMiB = (pid: number): number => {
  const kib = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib) / 1024;
};
