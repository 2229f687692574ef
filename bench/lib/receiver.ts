import { createServer } from 'node:http';

/** A webhook endpoint that accepts every request with 200. */
export interface Receiver {
  readonly url: string;
  /** The size of the last body. */
  readonly lastBytes: () => number;
  /** Resolves with the arrival time of the next request. */
  next(): Promise<number>;
  close(): void;
}

export const openReceiver = async (): Promise<Receiver> => {
  let lastBytes = 0;
  let waiting: ((at: number) => void)[] = [];
  const server = createServer((request, response) => {
    const at = performance.now();
    for (const resolve of waiting.splice(0)) resolve(at);
    let bytes = 0;
    request
      .on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      })
      .on('end', () => {
        lastBytes = bytes;
        response.writeHead(200, { 'content-type': 'text/plain', 'content-length': 2 }).end('ok');
      });
  });
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no address');
  return {
    url: `http://127.0.0.1:${address.port}/`,
    lastBytes: () => lastBytes,
    next: () =>
      new Promise((resolve) => {
        waiting.push(resolve);
      }),
    close: () => {
      waiting = [];
      server.closeAllConnections();
      server.close();
    },
  };
};
