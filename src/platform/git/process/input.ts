import type { Writable } from 'node:stream';
import type { GitProcess, RunOptions } from './runner.ts';

/**
 * Writes all of `input` to the process and closes its standard input. Stops early without an error if the process has
 * ended.
 */
export const feed = async (git: GitProcess, input: RunOptions['input']): Promise<void> => {
  if (input === undefined || typeof input === 'string' || Buffer.isBuffer(input)) {
    git.stdin.end(input);
    return;
  }
  const iterator = input[Symbol.asyncIterator]();
  // Stops waiting for stalled input when the process ends.
  let gone = false;
  let wake = () => {};
  const onClose = () => {
    gone = true;
    wake();
  };
  git.exited.then(onClose, onClose);
  try {
    while (!gone && !git.stdin.writableEnded && !git.stdin.destroyed) {
      const step = await new Promise<IteratorResult<Buffer> | null>((resolve, reject) => {
        wake = () => resolve(null);
        iterator.next().then(resolve, reject);
      });
      if (step === null || step.done || git.stdin.writableEnded) break;
      if (!git.stdin.write(step.value)) await writable(git.stdin);
    }
  } catch (error) {
    git.kill('aborted');
    throw error;
  } finally {
    iterator.return?.().catch(() => {});
  }
  git.stdin.end();
};

/** Resolves when the stream accepts more data or never will. */
export const writable = (stream: Writable): Promise<void> =>
  new Promise((resolve) => {
    if (stream.destroyed || !stream.writableNeedDrain) return resolve();
    const settle = () => {
      stream.off('drain', settle);
      stream.off('close', settle);
      stream.off('error', settle);
      resolve();
    };
    stream.on('drain', settle);
    stream.on('close', settle);
    stream.on('error', settle);
  });
