import { Readable } from 'node:stream';
import type { CallOptions } from '../call-options.ts';
import type { GitErrorReason } from '../git-error.ts';
import type { GitProcess } from './runner.ts';

interface StreamOptions extends CallOptions {
  readonly before?: Buffer;
  readonly idleTimeoutMs?: number | undefined;
}

/**
 * Returns the output of a process as a stream that fails if the process does. Ends the process when the reader leaves,
 * on abort, on timeout, or when the reader has taken nothing for `idleTimeoutMs`. `before` is sent first.
 */
export const streamOf = (launched: Promise<GitProcess>, options: StreamOptions = {}): Readable => {
  const { signal, timeoutMs, idleTimeoutMs, before } = options;
  const starting = launched.then((git) => {
    // Node discards unread output when the process ends, unless reading has started. This listener counts as a start.
    git.stdout.on('readable', () => {});
    return git;
  });
  // The generator handles the rejection. This covers the case that nothing ever reads it.
  starting.catch(() => {});
  const kill = (reason: GitErrorReason) => void starting.then((git) => git.kill(reason)).catch(() => {});
  let produced = 0;
  const output = async function* (): AsyncGenerator<Buffer> {
    const onAbort = () => kill('aborted');
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => kill('timeout'), timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    let whole = false;
    try {
      const git = await starting;
      if (before) yield before;
      for await (const chunk of git.stdout) {
        produced += chunk.length;
        yield chunk;
      }
      const exitCode = await git.exited;
      whole = true;
      if (exitCode !== 0) throw git.failure(exitCode);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
      if (!whole) kill('aborted');
    }
  };
  const stream = Readable.from(output(), { objectMode: false });
  // The reader gets the error, even if it starts late. Without this listener, an error that no reader sees would end
  // the hub.
  stream.on('error', () => {});
  if (idleTimeoutMs !== undefined) {
    let taken = -1;
    const timer = setInterval(() => {
      const now = produced - stream.readableLength;
      if (now === taken) {
        kill('timeout');
        starting.then((git) => stream.destroy(git.failure(null))).catch(() => {});
      }
      taken = now;
    }, idleTimeoutMs);
    stream.once('close', () => clearInterval(timer));
  }
  // If the reader leaves before its first read, the generator never runs.
  stream.once('close', () => kill('aborted'));
  return stream;
};
