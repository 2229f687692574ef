import { Readable } from 'node:stream';
import type { GitProcess } from './process.ts';
import type { CallOptions } from './types.ts';

interface StreamOptions extends CallOptions {
  readonly before?: Buffer;
  readonly idleTimeoutMs?: number | undefined;
}

/**
 * The output of a process as a stream that fails when the process does. Ends the process when the reader goes away,
 * on abort, when the time is over, or when the reader has taken nothing for `idleTimeoutMs`. `before` is sent first.
 */
export const streamOf = (git: GitProcess, options: StreamOptions = {}): Readable => {
  const { signal, timeoutMs, idleTimeoutMs, before } = options;
  // When a process ends, Node throws away what nobody has begun to read; with this it counts as begun.
  git.stdout.on('readable', () => {});
  let produced = 0;
  const output = async function* (): AsyncGenerator<Buffer> {
    const onAbort = () => git.kill('aborted');
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => git.kill('timeout'), timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    let whole = false;
    try {
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
      if (!whole) git.kill('aborted');
    }
  };
  const stream = Readable.from(output(), { objectMode: false });
  if (idleTimeoutMs !== undefined) {
    let taken = -1;
    const timer = setInterval(() => {
      const now = produced - stream.readableLength;
      if (now === taken) {
        git.kill('timeout');
        stream.destroy(git.failure(null));
      }
      taken = now;
    }, idleTimeoutMs);
    stream.once('close', () => clearInterval(timer));
  }
  // A reader that leaves before the first read never enters the generator.
  stream.once('close', () => git.kill('aborted'));
  return stream;
};
