import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A proxy with its own address in front of a hub. Links that name the hub's own address bypass it. */
export interface Front {
  readonly url: string;
  /** The paths of the requests that came through. */
  readonly paths: readonly string[];
  /** The answers so far. Readers may empty it. */
  readonly answers: { readonly method: string; readonly path: string; readonly status: number }[];
  /** The address to forward requests to. */
  target: string;
  close(): Promise<void>;
}

/** `rewrite` changes the path of each request, which forwards a client to another version of the API. */
export const startFront = async (rewrite = (path: string) => path): Promise<Front> => {
  const paths: string[] = [];
  const answers: Front['answers'] = [];
  const server = createServer((incoming, answer) => {
    paths.push(incoming.url ?? '');
    const { hostname, port } = new URL(front.target);
    const outgoing = request(
      { hostname, port, path: rewrite(incoming.url ?? '/'), method: incoming.method, headers: incoming.headers },
      (response) => {
        const { statusCode: status = 502 } = response;
        answers.push({ method: incoming.method ?? '', path: incoming.url ?? '', status });
        answer.writeHead(status, response.rawHeaders);
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
    answers,
    target: '',
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
  return front;
};
