import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { WorkerQueue } from '#platform/concurrency/worker-queue.ts';

const ECHO = `const { parentPort } = require('node:worker_threads');
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
