import { defineCache } from '../../cache.ts';
import { GitError } from '../git-error.ts';
import { type KeptProcess, keepProcesses } from '../process/kept.ts';
import type { GitProcess, Runner } from '../process/runner.ts';

export interface GitObject {
  readonly oid: string;
  readonly type: string;
  readonly size: number;
  /** Empty for `info`. Cut at 1 MiB. */
  readonly content: Buffer;
}

/** Reads objects through `git cat-file --batch-command` processes that stay open, one for each repository in use. */
export interface ObjectReader {
  /**
   * Returns the object, or null if it does not exist. `name` must be validated first: it must not contain a line break
   * or have another meaning to git.
   */
  read(path: string, command: 'contents' | 'info', name: string): Promise<GitObject | null>;
  /** Remembers what `read` would answer for the contents of `name`, which was just written. */
  remember(path: string, name: string, object: GitObject): void;
  /** Ends the process of a repository that is about to be replaced or removed. */
  forget(path: string): void;
  close(): Promise<void>;
}

/** The number of repositories that can be read at the same time. Further callers wait until one is idle. */
const MAX_SESSIONS = 32;
const IDLE_MS = 30_000;
const ANSWER_TIMEOUT_MS = 60_000;
const MAX_KEPT_BYTES = 1024 * 1024;

/**
 * Caches objects that were read or written moments ago. A commit over the API reads its few trees and commits a dozen
 * times, most of them for followers. Their content never changes, but the repository may be replaced, so entries soon
 * expire.
 */
const recentObjects = defineCache<string, GitObject>({
  name: 'recent git objects',
  limit: 8 * 1024 * 1024,
  weightOf: ({ content }) => content.length + 500,
  ttlMs: 2_000,
});
const MAX_REMEMBERED_BYTES = 32 * 1024;
/** Only names that start with a whole id: refs move. */
const BY_ID = /^[0-9a-f]{40}\^\{(?:commit|tree)\}$/;

export const createObjectReader = (runner: Runner): ObjectReader => {
  const sessions = keepProcesses(MAX_SESSIONS, (path, onEnd, onIdle) => openSession(runner, path, onEnd, { onIdle }));
  const recent = recentObjects(runner);
  /** Each replaced or removed repository starts a new one. That is seldom. */
  let generation = 0;
  const keyOf = (path: string, name: string) => `${generation} ${path} ${name}`;
  const keep = (key: string, object: GitObject) => {
    if (object.content.length <= MAX_REMEMBERED_BYTES) recent.set(key, object);
  };
  return {
    async read(path, command, name) {
      const key = command === 'contents' && BY_ID.test(name) ? keyOf(path, name) : null;
      const known = key === null ? undefined : recent.get(key);
      if (known) return known;
      const object = await sessions.use(path, (session) => session.request(command, name));
      if (key !== null && object) keep(key, object);
      return object;
    },
    remember: (path, name, object) => keep(keyOf(path, name), object),
    forget(path) {
      generation += 1;
      sessions.forget(path);
    },
    close: () => sessions.close(),
  };
};

export interface Session extends KeptProcess {
  request(command: 'contents' | 'info', name: string): Promise<GitObject | null>;
}

interface Pending {
  readonly withContent: boolean;
  resolve(object: GitObject | null): void;
  reject(error: Error): void;
}

const HEADER = /^([0-9a-f]{40,64}) (commit|tree|blob|tag) (\d+)$/;

interface SessionOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Content is cut at this length. */
  readonly maxKeptBytes?: number;
  /** Called when all requests are answered. */
  readonly onIdle?: () => void;
}

/** Opens a process that reads objects of one repository until it is idle for too long. */
export const openSession = (
  runner: Runner,
  path: string,
  onEnd: () => void,
  { env = {}, maxKeptBytes = MAX_KEPT_BYTES, onIdle }: SessionOptions = {},
): Session => {
  let git: GitProcess | null = null;
  const queue: Pending[] = [];
  let timer = setTimeout(() => {}, 0);
  let header = '';
  let unsent = '';
  let object: { oid: string; type: string; size: number; kept: Buffer[]; left: number } | null = null;

  const rearm = () => {
    clearTimeout(timer);
    timer = queue.length > 0 ? setTimeout(() => git?.kill('timeout'), ANSWER_TIMEOUT_MS) : setTimeout(end, IDLE_MS);
    timer.unref();
  };
  const answer = (result: GitObject | null) => {
    queue.shift()?.resolve(result);
    rearm();
    if (queue.length === 0) onIdle?.();
  };

  const takeHeader = (line: string) => {
    const match = HEADER.exec(line);
    if (!match) return answer(null); // "<name> missing" or "<name> ambiguous"
    const [, oid = '', type = '', digits = ''] = match;
    const size = Number(digits);
    if (!queue[0]?.withContent) return answer({ oid, type, size, content: Buffer.alloc(0) });
    object = { oid, type, size, kept: [], left: size + 1 };
  };

  const onData = (chunk: Buffer) => {
    let at = 0;
    while (at < chunk.length) {
      if (object) {
        const part = chunk.subarray(at, at + object.left);
        const read = object.size + 1 - object.left;
        // The line break after the content is not part of it.
        const wanted = Math.min(part.length, Math.min(object.size, maxKeptBytes) - read);
        if (wanted > 0) object.kept.push(part.subarray(0, wanted));
        object.left -= part.length;
        at += part.length;
        if (object.left === 0) {
          const { oid, type, size, kept } = object;
          object = null;
          answer({ oid, type, size, content: Buffer.concat(kept) });
        }
        continue;
      }
      const end = chunk.indexOf(0x0a, at);
      header += chunk.toString('latin1', at, end === -1 ? chunk.length : end);
      at = end === -1 ? chunk.length : end + 1;
      if (end === -1) continue;
      const line = header;
      header = '';
      takeHeader(line);
    }
  };

  /** Sends all requests of one turn in a single write with one flush, because each write wakes the other process. */
  const send = () => {
    if (unsent === '' || git === null) return;
    git.stdin.write(`${unsent}flush\n`);
    unsent = '';
  };

  const starting = runner.launch(path, ['cat-file', '--batch-command', '--buffer'], { env }).then((started) => {
    git = started;
    started.stdout.on('data', onData);
    send();
    return started;
  });
  const finished = starting
    .then(async (started) => started.failure(await started.exited))
    .catch((error: unknown) => (error instanceof Error ? error : new GitError('failed', String(error))));
  const over = finished.then((error) => {
    clearTimeout(timer);
    onEnd();
    for (const pending of queue.splice(0)) pending.reject(error);
  });
  const end = (): Promise<void> => {
    onEnd();
    starting.then(
      (started) => {
        send();
        started.stdin.end();
      },
      () => {}, // pending requests get the error
    );
    return over;
  };
  rearm();

  return {
    busy: () => queue.length > 0,
    end,
    request: (command, name) =>
      new Promise((resolve, reject) => {
        queue.push({ withContent: command === 'contents', resolve, reject });
        if (queue.length === 1) rearm();
        if (unsent === '') queueMicrotask(send);
        unsent += `${command} ${name}\n`;
      }),
  };
};
