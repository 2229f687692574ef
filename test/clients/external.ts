import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A proxy with its own address in front of a hub. Links that name the hub's own address bypass it. */
export interface Front {
  readonly url: string;
  /** The paths of the requests that came through. */
  readonly paths: readonly string[];
  /** The address to forward requests to. */
  target: string;
  close(): Promise<void>;
}

export const startFront = async (): Promise<Front> => {
  const paths: string[] = [];
  const server = createServer((incoming, answer) => {
    paths.push(incoming.url ?? '');
    const { hostname, port } = new URL(front.target);
    const outgoing = request(
      { hostname, port, path: incoming.url, method: incoming.method, headers: incoming.headers },
      (response) => {
        answer.writeHead(response.statusCode ?? 502, response.rawHeaders);
        response.pipe(answer);
      },
    );
    outgoing.on('error', () => answer.destroy());
    incoming.pipe(outgoing);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('the front has no address');
  const front: Front = {
    url: `http://127.0.0.1:${address.port}`,
    paths,
    target: '',
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return front;
};
