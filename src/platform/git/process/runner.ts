import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Duplex, Readable, Writable } from 'node:stream';
import type { Caches } from '../../cache.ts';
import type { Logger } from '../../log.ts';
import type { CallOptions } from '../call-options.ts';
import { GitError, type GitErrorReason } from '../git-error.ts';
import { createProcessBounds, type ProcessBounds } from './bounds.ts';
import { feed } from './input.ts';
import { createLauncher } from './launcher.ts';
import { createAllowance, FRUGAL, isOutOfMemory, limited } from './memory-limit.ts';
import { storageDirectory } from './storage-path.ts';
import { streamOf } from './stream.ts';

export interface LaunchOptions {
  /** `key=value` settings for this call. */
  readonly config?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Opens file descriptor 3 of the child as a separate channel. */
  readonly channel?: boolean;
}

interface ProcessOptions extends LaunchOptions {
  /** The whole input of the process. Without it, standard input stays open. */
  readonly input?: string | undefined;
}

export interface RunOptions extends LaunchOptions, CallOptions {
  readonly input?: string | Buffer | AsyncIterable<Buffer> | undefined;
  readonly maxOutputBytes?: number;
  /** Exit codes besides 0 that are results rather than failures. */
  readonly allow?: readonly number[];
}

export interface StreamOptions extends LaunchOptions, CallOptions {
  readonly input?: string | undefined;
}

export interface RunResult {
  readonly stdout: Buffer;
  readonly stderr: string;
  readonly exitCode: number;
}

/** A running git process. */
export interface GitProcess {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** File descriptor 3, if requested. */
  readonly channel: Duplex | null;
  /**
   * Resolves when the process has ended and its output is closed, with the exit code (0 to 255, or null if a signal
   * ended it). Rejects only if git could not be started.
   */
  readonly exited: Promise<number | null>;
  stderr(): string;
  /** Ends the process and its children. `failure` then reports this reason. */
  kill(reason: GitErrorReason): void;
  /**
   * Closes the input of the process, so that it stops by itself and cleans up (a killed push leaves its objects
   * behind). Kills the process if it does not stop.
   */
  giveUp(reason: GitErrorReason): void;
  failure(exitCode: number | null): GitError;
}

/** Starts git, always with an argument array and a clean environment. */
export interface Runner {
  readonly root: string;
  /** False does not wait for the disk. */
  readonly durable: boolean;
  readonly log: Logger;
  readonly caches: Caches;
  /** The limits on concurrent processes. Take a slot before calling `launch`. */
  readonly bounds: ProcessBounds;
  directory(path: string): string;
  /**
   * Starts a process that the caller reads, writes and waits for. @throws GitError `failed` if git cannot be started
   */
  launch(path: string | null, args: readonly string[], options?: ProcessOptions): Promise<GitProcess>;
  run(path: string | null, args: readonly string[], options?: RunOptions): Promise<RunResult>;
  /** Like `run`, but yields the output as it arrives. Ends the process when the reader stops. */
  stream(path: string, args: readonly string[], options?: StreamOptions): AsyncGenerator<Buffer>;
  /** Ends all running processes. */
  close(): Promise<void>;
}

const MAX_STDERR_BYTES = 16 * 1024;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;
const TIMEOUT_MS = 60_000;
const KILL_GRACE_MS = 3_000;

const ALWAYS: readonly string[] = [
  'core.hooksPath=/dev/null',
  'safe.directory=*',
  'protocol.allow=never',
  'core.logAllRefUpdates=false',
  // Objects and refs are on disk before a push is answered.
  'core.fsync=committed',
  'core.fsyncMethod=batch',
  // Housekeeping locks the packed refs, and each ref that it packs, briefly. On a busy disk this takes longer.
  'core.packedRefsTimeout=10000',
  'core.filesRefLockTimeout=2000',
  // Larger blobs are streamed: neither held in memory nor compared with each other.
  'core.bigFileThreshold=16m',
  'gc.auto=0',
  'maintenance.auto=false',
  ...FRUGAL,
];

const MESSAGES: Readonly<Record<GitErrorReason, string>> = {
  failed: 'The repository operation failed',
  invalid: 'The repository operation was refused',
  conflict: 'A reference was changed by someone else, or its name conflicts with another',
  missing: 'The repository does not exist',
  too_large: 'The repository operation needs more memory or produces more output than allowed',
  no_space: 'There is no space left for the repository',
  timeout: 'The repository operation took too long',
  aborted: 'The repository operation was cancelled',
};

/** The home folder of git, below the root of the repositories. */
export const HOME = '.home';

export interface RunnerOptions {
  readonly root: string;
  readonly log: Logger;
  readonly caches: Caches;
  readonly gitBinary: string;
  /** The memory of one process in MiB, in addition to the part that grows with its repository. */
  readonly memoryMiB: number;
  /** The number of concurrent processes (bounds.ts). */
  readonly processes: number;
  /** False does not wait for the disk: a power failure may lose recent writes. */
  readonly durable: boolean;
}

export const createRunner = (options: RunnerOptions): Runner => {
  const { root, log, caches, gitBinary, durable } = options;
  const home = join(root, HOME);
  mkdirSync(home, { recursive: true });
  const environment = {
    PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
    HOME: home,
    LC_ALL: 'C',
    TZ: 'UTC',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_ATTR_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '/bin/false',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
  };
  const directory = (path: string) => storageDirectory(root, path);
  const bounds = createProcessBounds(options.processes);
  const allowance = createAllowance(options.memoryMiB, caches);
  const launcher = createLauncher(log, [root]);

  const launch: Runner['launch'] = async (path, args, { config = [], env = {}, channel = false, input } = {}) => {
    const command = args[0] ?? '';
    const argv = [
      ...[...ALWAYS, ...config, ...(durable ? [] : ['core.fsync=none'])].flatMap((setting) => ['-c', setting]),
      ...(path === null ? [] : [`--git-dir=${directory(path)}`]),
      '--literal-pathspecs',
      ...args,
    ];
    const notStarted = (cause: unknown) => new GitError('failed', 'git could not be started', { command, cause });
    const program = limited(gitBinary, argv, allowance(path === null ? null : directory(path)));
    const launched = await launcher
      .launch({ ...program, cwd: root, env: { ...environment, ...env }, channel })
      .catch((error: unknown) => {
        throw notStarted(error);
      });
    const { stdin, stdout, stderr } = launched;
    // A process that ends early breaks the connection. Its exit code is more informative.
    for (const stream of [stdin, stdout, stderr]) stream.on('error', () => {});
    // Nothing is ever read from stdin, but reading detects that the process has closed it.
    stdin.resume();
    if (input !== undefined) stdin.end(input);
    let errors = '';
    stderr.setEncoding('utf8');
    stderr.on('data', (chunk: string) => {
      if (errors.length < MAX_STDERR_BYTES) errors += chunk.slice(0, MAX_STDERR_BYTES - errors.length);
    });
    const stderrText = () => errors.replaceAll(root, '').trim();
    let killedFor: GitErrorReason | null = null;
    let ended = false;
    const outputClosed = Promise.all([closed(stdout), closed(stderr)]);
    const exited = launched.exited.then(
      async (code) => {
        ended = true;
        stdin.destroy();
        // Unread output would keep the connection open.
        if (stdout.readableFlowing === null && stdout.listenerCount('readable') === 0) stdout.resume();
        await outputClosed;
        return code;
      },
      (error: unknown) => {
        ended = true;
        for (const stream of [stdin, stdout, stderr]) stream.destroy();
        throw notStarted(error);
      },
    );
    // Callers that await it get the rejection. This covers the time before that.
    exited.catch(() => {});
    const kill = (reason: GitErrorReason) => {
      if (ended) return;
      killedFor ??= reason;
      // SIGTERM lets git remove its lock files.
      launched.signal('SIGTERM');
      setTimeout(() => launched.signal('SIGKILL'), KILL_GRACE_MS).unref();
    };
    return {
      stdin,
      stdout,
      channel: launched.channel,
      exited,
      stderr: stderrText,
      kill,
      giveUp: (reason) => {
        if (ended) return;
        killedFor ??= reason;
        stdin.end();
        setTimeout(() => kill(reason), KILL_GRACE_MS).unref();
      },
      failure: (exitCode) => {
        const text = stderrText();
        const reason = killedFor ?? reasonOf(text);
        return new GitError(reason, MESSAGES[reason], { command, exitCode, stderr: text });
      },
    };
  };

  const run: Runner['run'] = async (path, args, options = {}) => {
    const { signal, timeoutMs = TIMEOUT_MS, maxOutputBytes = MAX_OUTPUT_BYTES, allow = [], input } = options;
    const release = await bounds.questions.take(signal);
    const startedAt = performance.now();
    try {
      if (signal?.aborted) throw new GitError('aborted', MESSAGES.aborted, { command: args[0] ?? '' });
      const { input: _, ...launchOptions } = options;
      const git = await launch(path, args, launchOptions);
      const onAbort = () => git.kill('aborted');
      signal?.addEventListener('abort', onAbort, { once: true });
      if (signal?.aborted) onAbort();
      const timer = setTimeout(() => git.kill('timeout'), timeoutMs);
      try {
        const chunks: Buffer[] = [];
        let size = 0;
        git.stdout.on('data', (chunk: Buffer) => {
          size += chunk.length;
          if (size > maxOutputBytes) git.kill('too_large');
          else chunks.push(chunk);
        });
        const [exitCode] = await Promise.all([git.exited, feed(git, input)]);
        if (exitCode === null || (exitCode !== 0 && !allow.includes(exitCode))) throw git.failure(exitCode);
        if (size > maxOutputBytes) throw git.failure(exitCode);
        return { stdout: Buffer.concat(chunks, size), stderr: git.stderr(), exitCode };
      } finally {
        clearTimeout(timer);
        signal?.removeEventListener('abort', onAbort);
      }
    } finally {
      release();
      log.trace({ git: args[0], duration_ms: performance.now() - startedAt }, 'git');
    }
  };

  const stream: Runner['stream'] = async function* (path, args, options = {}) {
    const { signal, timeoutMs = TIMEOUT_MS, input } = options;
    const release = await bounds.questions.take(signal);
    try {
      if (signal?.aborted) throw new GitError('aborted', MESSAGES.aborted, { command: args[0] ?? '' });
      const git = launch(path, args, { ...options, input: input ?? '' });
      for await (const chunk of streamOf(git, { signal, timeoutMs })) if (Buffer.isBuffer(chunk)) yield chunk;
    } finally {
      release();
    }
  };

  return { root, log, caches, durable, bounds, directory, launch, run, stream, close: () => launcher.close() };
};

const reasonOf = (stderr: string): GitErrorReason => {
  if (/not a git repository/.test(stderr)) return 'missing';
  if (/No space left on device|Disk quota exceeded/.test(stderr)) return 'no_space';
  if (isOutOfMemory(stderr)) return 'too_large';
  if (/cannot lock ref|reference already exists|but expected/.test(stderr)) return 'conflict';
  return 'failed';
};

/** Returns the output of git, which must be one object id. */
export const readOid = async (
  runner: Runner,
  path: string,
  args: readonly string[],
  options: { readonly input?: string | Buffer; readonly env: Readonly<Record<string, string>> },
): Promise<string> => (await runner.run(path, args, options)).stdout.toString('latin1').trim();

/** Returns the environment in which git also finds the objects of another repository. */
export const foreignObjects = (runner: Pick<Runner, 'directory'>, path: string | undefined): Record<string, string> => {
  if (path === undefined) return {};
  const folder = join(runner.directory(path), 'objects').replaceAll(/["\\]/g, '\\$&');
  return { GIT_ALTERNATE_OBJECT_DIRECTORIES: `"${folder}"` };
};

const closed = (stream: Readable): Promise<void> =>
  new Promise((resolve) => {
    if (stream.closed) resolve();
    else stream.once('close', resolve);
  });
