import { Readable } from 'node:stream';
import type { GitProcess } from './process.ts';
import type { CallOptions } from './types.ts';

/**
 * The output of a process as a stream that fails when the process does. Ends the process when the reader goes away,
 * on abort, or when the time is over. `before` is sent first.
 */
export const streamOf = (git: GitProcess, options: CallOptions & { before?: Buffer } = {}): Readable => {
  const { signal, timeoutMs, before } = options;
  // When a process ends, Node throws away what nobody has begun to read; with this it counts as begun.
  git.stdout.on('readable', () => {});
  const output = async function* (): AsyncGenerator<Buffer> {
    const onAbort = () => git.kill('aborted');
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => git.kill('timeout'), timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    let whole = false;
    try {
      if (before) yield before;
      for await (const chunk of git.stdout) yield chunk;
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
  // A reader that leaves before the first read never enters the generator.
  stream.once('close', () => git.kill('aborted'));
  return stream;
};
