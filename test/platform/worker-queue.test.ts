import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { promisify } from 'node:util';
import { Worker } from 'node:worker_threads';
import { describe, expect, it, vi } from 'vitest';
import { WorkerQueue } from '#platform/concurrency/worker-queue.ts';

const run = promisify(execFile);

const ECHO = `const { parentPort } = process.getBuiltinModule('node:worker_threads');
parentPort.on('message', (text) => { if (text === 'exit') process.exit(); else parentPort.postMessage(text); });`;

/** A queue, and the workers that it has started. */
const newQueue = (idleMs?: number) => {
  const started: Worker[] = [];
  const queue = new WorkerQueue(() => {
    const worker = new Worker(ECHO, { eval: true });
    started.push(worker);
    return worker;
  }, idleMs);
  const echo = (text: string) =>
    queue.run(async (worker) => {
      const answer = once(worker, 'message');
      worker.postMessage(text);
      return (await answer)[0];
    });
  return { queue, started, echo };
};

describe('a queue for a worker', () => {
  it('runs tasks one at a time, and keeps the worker for tasks that follow', async () => {
    const { queue, started, echo } = newQueue();
    const answers = Promise.all(['a', 'b', 'c'].map(echo));
    expect(queue.length).toBe(3);
    expect(await answers).toEqual(['a', 'b', 'c']);
    expect(queue.length).toBe(0);
    expect(await echo('d')).toBe('d');
    expect(started).toHaveLength(1);
    await started[0]?.terminate();
  });

  it('ends the worker when it was idle for a while, and starts another for the next task', async () => {
    const { started, echo } = newQueue(1);
    await echo('a');
    const [first] = started;
    if (first && first.threadId !== -1) await once(first, 'exit');
    expect(await echo('b')).toBe('b');
    expect(started).toHaveLength(2);
  });

  it('keeps the worker for a task that begins before it was idle for long', async () => {
    const { queue, started, echo } = newQueue(1_000);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      await echo('a');
      const { promise: isLate, resolve } = Promise.withResolvers<void>();
      const slow = queue.run(() => isLate);
      vi.advanceTimersByTime(2_000);
      resolve();
      await slow;
      expect(await echo('b')).toBe('b');
    } finally {
      vi.useRealTimers();
    }
    expect(started).toHaveLength(1);
    await started[0]?.terminate();
  });

  it('lets its process end while the worker is idle, but not during a task', async () => {
    const module = JSON.stringify(import.meta.resolve('#platform/concurrency/worker-queue.ts'));
    const script = `
      import { once } from 'node:events';
      import { Worker } from 'node:worker_threads';
      import { WorkerQueue } from ${module};
      const queue = new WorkerQueue(() => new Worker(${JSON.stringify(ECHO)}, { eval: true }), 600_000);
      for (const text of ['a', 'b']) await queue.run(async (worker) => {
        worker.postMessage(text);
        console.log((await once(worker, 'message'))[0]);
      });`;
    const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', script]);
    expect(stdout).toBe('a\nb\n');
  });

  it('starts another worker after a task that failed, and after a worker that ended while it was idle', async () => {
    const { queue, started, echo } = newQueue();
    const failing = queue.run(async () => {
      throw new Error('failed');
    });
    await expect(failing).rejects.toThrow('failed');
    expect(await echo('a')).toBe('a');
    const idle = started[1];
    if (!idle) throw new Error('no worker was started for the second task');
    idle.postMessage('exit');
    await once(idle, 'exit');
    expect(await echo('b')).toBe('b');
    expect(started).toHaveLength(3);
    await started[2]?.terminate();
  });
});
