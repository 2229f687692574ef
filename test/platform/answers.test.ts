import { expect, it } from 'vitest';
import { Answers } from '#platform/caller/answers.ts';
import { as, settled } from './callers.ts';

const setUp = () => {
  const answers = new Answers();
  const started: string[] = [];
  const endings: (() => void)[] = [];
  const read = (ip: string, signal = new AbortController().signal) =>
    as(ip, () =>
      answers.inTurn(signal, async () => {
        started.push(ip);
        await new Promise<void>((resolve) => endings.push(resolve));
        return ip;
      }),
    );
  return { answers, started, endings, read };
};

it('makes six answers of a caller at a time, while other callers get theirs', async () => {
  const { answers, started, endings, read } = setUp();
  const reads = Array.from({ length: 8 }, () => read('a'));
  reads.push(read('b'));
  await settled();
  expect(answers.figures()).toEqual({ running: 7, waiting: 2, unsentBytes: 0 });
  expect(started).toEqual(['a', 'a', 'a', 'a', 'a', 'a', 'b']);
  endings[0]?.();
  await settled();
  expect(started).toHaveLength(8);
  while (started.length < 9) {
    for (const end of endings) end();
    await settled();
  }
  for (const end of endings) end();
  expect(await Promise.all(reads)).toHaveLength(9);
  expect(answers.figures()).toEqual({ running: 0, waiting: 0, unsentBytes: 0 });
});

it('passes the turn on when a read fails', async () => {
  const answers = new Answers();
  const signal = new AbortController().signal;
  const failed = Array.from({ length: 20 }, () => as('a', () => answers.inTurn(signal, () => Promise.reject('no'))));
  expect((await Promise.allSettled(failed)).every(({ status }) => status === 'rejected')).toBe(true);
  expect(await as('a', () => answers.inTurn(signal, async () => 1))).toBe(1);
});

it('forgets a waiting request whose client has gone', async () => {
  const { started, read } = setUp();
  for (let n = 0; n < 6; n++) void read('a');
  const gone = new AbortController();
  const waiting = read('a', gone.signal);
  gone.abort();
  await expect(waiting).rejects.toThrow('The client has gone');
  expect(started).toHaveLength(6);
});
