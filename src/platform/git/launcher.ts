import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from '../log.ts';

// Starting a process from the hub stalls its event loop for as long as the kernel copies the page tables of a large heap.
// A launcher (launcher-process.mjs) forks for the hub. See docs/decisions/0026-git-starts-from-a-launcher.md.

export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Opens file descriptor 3 of the process, to be read and written. */
  readonly channel: boolean;
}

/** What the hub sends to the launcher to start a process. */
export interface Request extends Command {
  readonly id: number;
}

/** What the launcher sends to the hub. `code` is null when a signal ended the process. */
export type LauncherMessage =
  | { readonly ready: true }
  | { readonly id: number; readonly pid: number }
  | { readonly id: number; readonly code: number | null }
  | { readonly id: number; readonly error: string };

/** A process that the launcher was asked to start. */
export interface Launched {
  readonly stdin: Socket;
  readonly stdout: Socket;
  readonly stderr: Socket;
  readonly channel: Socket | null;
  /** Resolves with the exit code, or null when a signal or the death of the launcher ended it; rejects when it could not be started. */
  readonly exited: Promise<number | null>;
  /** Signals the process and everything it started. */
  signal(signal: NodeJS.Signals): void;
}

export interface Launcher {
  /** Starts a process, and the launcher when there is none. Rejects when the launcher cannot be started. */
  launch(command: Command): Promise<Launched>;
  /** Ends the launcher and all that it runs. */
  close(): Promise<void>;
}

const PROGRAM = fileURLToPath(new URL('launcher-process.mjs', import.meta.url));
/** A small heap is the point: it keeps what a fork copies small. */
const NODE_OPTIONS = ['--max-old-space-size=64', '--max-semi-space-size=1', '--v8-pool-size=0'];

export const createLauncher = (log: Logger): Launcher => {
  let current: Promise<LauncherProcess> | null = null;
  const ensure = (): Promise<LauncherProcess> => {
    if (current) return current;
    const starting = startLauncher(log, () => {
      if (current === starting) current = null;
    });
    starting.catch(() => {
      if (current === starting) current = null;
    });
    current = starting;
    return starting;
  };
  return {
    launch: async (command) => (await ensure()).launch(command),
    async close() {
      const open = await current?.catch(() => null);
      current = null;
      await open?.close();
    },
  };
};

interface LauncherProcess {
  launch(command: Command): Launched;
  close(): Promise<void>;
}

interface Running {
  readonly streams: readonly Socket[];
  pid: number | null;
  settle(result: number | null | Error): void;
}

const startLauncher = async (log: Logger, onEnd: () => void): Promise<LauncherProcess> => {
  // Only this account may reach the socket in it. Not below the data directory, whose path may be too long for a socket.
  const folder = await mkdtemp(join(tmpdir(), 'millrace-git-'));
  const path = join(folder, 'socket');
  const child = spawn(process.execPath, [...NODE_OPTIONS, PROGRAM, path], {
    cwd: '/',
    env: {},
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    detached: true,
  });
  const running = new Map<number, Running>();
  let isClosing = false;
  let isOver = false;
  let lastId = 0;

  const { promise: ready, resolve: onReady, reject: onFailure } = Promise.withResolvers<void>();
  const { promise: over, resolve: onOver } = Promise.withResolvers<void>();
  const finish = (why: string) => {
    if (isOver) return;
    isOver = true;
    onEnd();
    onFailure(new Error(`the git launcher could not be started: ${why}`));
    if (!isClosing)
      log.error({ why, running: running.size }, 'the git launcher died; a new one starts with the next call');
    for (const { pid, streams, settle } of running.values()) {
      // What it ran has lost its parent but not its life.
      if (pid !== null) killGroup(pid);
      for (const stream of streams) stream.destroy();
      settle(null);
    }
    running.clear();
    rm(folder, { recursive: true, force: true }).then(onOver, onOver);
  };
  child.once('error', (error) => finish(error.message));
  // Not when it exits: what it has said by then is still to be read.
  child.once('disconnect', () => {
    if (isClosing) return;
    child.kill('SIGKILL');
    finish('its channel closed');
  });
  child.once('exit', () => {
    if (isClosing) finish('it was closed');
  });
  child.on('message', (message: LauncherMessage) => {
    if ('ready' in message) return onReady();
    const known = running.get(message.id);
    if (!known) return;
    if ('pid' in message) known.pid = message.pid;
    else known.settle('error' in message ? new Error(message.error) : message.code);
  });
  holdOpen(child, true);
  await ready;
  holdOpen(child, false);

  /** A stream that is not connected leaves the launcher with another order than ours. */
  const abandon = () => {
    if (!isClosing) child.kill('SIGKILL');
  };
  const open = (): Socket => {
    const socket = connect(path);
    const onError = () => abandon();
    socket.once('error', onError);
    socket.once('connect', () => socket.off('error', onError));
    return socket;
  };

  return {
    launch(command) {
      if (isOver || !child.connected) throw new Error('the git launcher has ended');
      const id = ++lastId;
      const [stdin, stdout, stderr] = [open(), open(), open()];
      const channel = command.channel ? open() : null;
      const streams = channel ? [stdin, stdout, stderr, channel] : [stdin, stdout, stderr];
      const exited = new Promise<number | null>((resolve, reject) => {
        running.set(id, {
          streams,
          pid: null,
          settle: (result) => {
            running.delete(id);
            if (running.size === 0) holdOpen(child, false);
            if (result instanceof Error) reject(result);
            else resolve(result);
          },
        });
      });
      if (running.size === 1) holdOpen(child, true);
      const request: Request = { ...command, id };
      child.send(request, (error) => error && abandon());
      return {
        stdin,
        stdout,
        stderr,
        channel,
        exited,
        signal: (signal) => {
          if (running.has(id) && child.connected) child.send({ id, signal }, () => {});
        },
      };
    },
    async close() {
      isClosing = true;
      holdOpen(child, true);
      if (child.connected) child.disconnect();
      await over;
    },
  };
};

/** The launcher keeps its hub alive only while something runs. */
const holdOpen = (child: ChildProcess, isHeld: boolean): void => {
  if (isHeld) {
    child.ref();
    child.channel?.ref();
  } else {
    child.unref();
    child.channel?.unref();
  }
};

const killGroup = (pid: number): void => {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
};
