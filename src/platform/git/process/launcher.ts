import { type ChildProcess, spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { shortTemporaryFolder } from '../../files/temporary-folder.ts';
import type { Logger } from '../../log.ts';

// Starting a process from the hub blocks its event loop while the kernel copies the page tables of a large heap. A
// launcher (launcher-process.mjs) forks for the hub. See docs/decisions/0026-git-starts-from-a-launcher.md.

export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Opens file descriptor 3 of the process for reading and writing. */
  readonly channel: boolean;
}

/** The message from the hub to the launcher that starts a process. */
export interface Request extends Command {
  readonly id: number;
}

/** A message from the launcher to the hub. `code` is null if a signal ended the process. */
export type LauncherMessage =
  | { readonly ready: true }
  | { readonly id: number; readonly pid: number }
  | { readonly id: number; readonly code: number | null }
  | { readonly id: number; readonly error: string };

/** A process started through the launcher. */
export interface Launched {
  readonly stdin: Socket;
  readonly stdout: Socket;
  readonly stderr: Socket;
  readonly channel: Socket | null;
  /**
   * Resolves with the exit code, or with null if a signal or the end of the launcher ended the process. Rejects if it
   * could not be started.
   */
  readonly exited: Promise<number | null>;
  /** Signals the process and all its child processes. */
  signal(signal: NodeJS.Signals): void;
}

export interface Launcher {
  /** Starts a process, and first the launcher if it is not running. Rejects if the launcher cannot be started. */
  launch(command: Command): Promise<Launched>;
  /** Ends the launcher and all its processes. */
  close(): Promise<void>;
}

const PROGRAM = fileURLToPath(new URL('launcher-process.mjs', import.meta.url));
/** The heap must stay small, because a fork copies its page tables. */
const NODE_OPTIONS = ['--max-old-space-size=64', '--max-semi-space-size=1', '--v8-pool-size=0'];

/** The `folders` take the socket if no temporary folder can. */
export const createLauncher = (log: Logger, folders: readonly string[] = []): Launcher => {
  let current: Promise<LauncherProcess> | null = null;
  const ensure = (): Promise<LauncherProcess> => {
    if (current) return current;
    const starting = startLauncher(log, folders, () => {
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

const startLauncher = async (log: Logger, folders: readonly string[], onEnd: () => void): Promise<LauncherProcess> => {
  // Only this account can reach the socket in the folder. The data directory is the last choice, because its path may be
  // too long for a socket.
  const folder = await shortTemporaryFolder('millrace-git-', folders);
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
      // Its processes have lost their parent but are still running.
      if (pid !== null) killGroup(pid);
      for (const stream of streams) stream.destroy();
      settle(null);
    }
    running.clear();
    rm(folder, { recursive: true, force: true }).then(onOver, onOver);
  };
  child.once('error', (error) => finish(error.message));
  // Not on exit, because messages sent before the exit may still be unread.
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

  /** Without this connection the launcher would assign connections in a different order than we do. */
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

/** The launcher keeps the hub alive only while a process is running. */
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
    // The group has already ended.
  }
};
