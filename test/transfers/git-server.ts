import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Readable } from 'node:stream';
import { afterAll } from 'vitest';

export const ADVERTISEMENT = 'application/x-git-upload-pack-advertisement';
export const RESULT = 'application/x-git-upload-pack-result';

export const packet = (text: string) => (Buffer.byteLength(text) + 4).toString(16).padStart(4, '0') + text;

export type Handler = (request: IncomingMessage, response: ServerResponse) => void;

/** Provides further servers on loopback, which are closed after the tests of the file. */
export const useServers = () => {
  const closers: (() => void)[] = [];
  afterAll(() => {
    for (const close of closers) close();
  });

  /** Starts a server and returns its URL. */
  const serve = async (handler: Handler): Promise<string> => {
    const server = createServer(handler).listen(0, '127.0.0.1');
    await once(server, 'listening');
    closers.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    return `http://127.0.0.1:${port}`;
  };

  /** Serves a repository with real git. `send` writes the pack, and `onRequest` is called for each request. */
  const serveGit = (
    directory: string,
    {
      onRequest = () => {},
      send = (pack, response) => pack.pipe(response),
    }: {
      readonly onRequest?: (request: IncomingMessage) => void;
      readonly send?: (pack: Readable, response: ServerResponse) => void;
    } = {},
  ): Promise<string> =>
    serve((request, response) => {
      onRequest(request);
      const isFirst = request.method === 'GET';
      response.writeHead(200, { 'content-type': isFirst ? ADVERTISEMENT : RESULT });
      if (isFirst) response.write(`${packet('# service=git-upload-pack\n')}0000`);
      const args = ['upload-pack', '--stateless-rpc', ...(isFirst ? ['--advertise-refs'] : [])];
      const child = spawn('git', ['-c', 'safe.directory=*', ...args, directory], { stdio: ['pipe', 'pipe', 'ignore'] });
      request.pipe(child.stdin);
      child.stdin.on('error', () => {});
      if (isFirst) child.stdout.pipe(response);
      else send(child.stdout, response);
    });

  return { serve, serveGit };
};
