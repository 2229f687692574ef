import { connect, type Socket } from 'node:net';

/** Many open event streams to one server, at minimal cost for this process. */
export interface Streams {
  /** Runs `trigger` and waits until each stream has received one more event. Returns the elapsed milliseconds. */
  nextEvent(trigger: () => Promise<unknown>): Promise<number>;
  /** Returns the text of the last event. */
  readonly lastEvent: () => string;
  close(): void;
}

const EVENT = Buffer.from('event: next');
const OPENING_AT_ONCE = 100;
const TIMEOUT_MS = 30_000;

/**
 * Opens the streams. `requestOf` returns the raw HTTP request of each stream. Resolves when every response has started.
 */
export const openStreams = async (
  url: string,
  count: number,
  requestOf: (index: number) => string,
): Promise<Streams> => {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  let waitingFor = 0;
  let done: () => void = () => {};
  let last: Buffer = Buffer.alloc(0);
  let opened = 0;
  const openOne = (index: number): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    sockets.push(socket);
    let begun = false;
    socket.on('data', (data) => {
      if (!begun) {
        begun = true;
        const status = data.toString('latin1', 9, 12);
        if (status === '200') resolve();
        else reject(new Error(`a stream was answered ${status}: ${data.toString('latin1').slice(0, 500)}`));
        if (!data.includes(EVENT)) return;
      }
      if (!data.includes(EVENT)) return;
      last = data;
      if (--waitingFor === 0) done();
    });
    socket.on('error', reject);
    socket.once('close', () => reject(new Error('a stream was closed')));
    socket.write(requestOf(index));
    return promise;
  };
  await Promise.all(
    Array.from({ length: OPENING_AT_ONCE }, async () => {
      while (opened < count) await openOne(opened++);
    }),
  );
  return {
    nextEvent: async (trigger) => {
      waitingFor = count;
      const arrived = new Promise<void>((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`${waitingFor} of ${count} streams got no event in ${TIMEOUT_MS} ms`)),
          TIMEOUT_MS,
        );
        done = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      const start = performance.now();
      await trigger();
      await arrived;
      return performance.now() - start;
    },
    lastEvent: () => last.toString('latin1'),
    close: () => {
      for (const socket of sockets) socket.destroy();
    },
  };
};
