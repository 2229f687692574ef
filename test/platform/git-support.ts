import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGit, type Git } from '#platform/git/git.ts';
import { GitError } from '#platform/git/git-error.ts';
import { decodedBody } from '#platform/git/http/request-body.ts';
import type { ServeOptions, ServeResult, Service } from '#platform/git/http.ts';
import { createLogger } from '#platform/log.ts';
import { PATIENCE_MS } from '../support/until.ts';

export { commitFile, fastImport, runGit, tryGit, workTree } from '../support/git.ts';

export interface GitBench {
  readonly git: Git;
  readonly root: string;
  /** A temporary folder for work trees and files. */
  readonly folder: string;
  close(): Promise<void>;
}

export const openBench = async (): Promise<GitBench> => {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-git-'));
  const root = join(folder, 'repositories');
  const git = createGit({ root, log: createLogger('silent') });
  return {
    git,
    root,
    folder,
    close: async () => {
      await git.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
};

export interface GitServer {
  readonly url: (path: string) => string;
  /** The result of each push, in order. */
  readonly results: ServeResult[];
  options: ServeOptions;
  close(): Promise<void>;
}

/** A minimal HTTP server around `advertise` and `serve`. */
export const startServer = async (git: Git): Promise<GitServer> => {
  const results: ServeResult[] = [];
  const state: { options: ServeOptions } = { options: {} };
  const gitProtocol = (request: IncomingMessage) => [request.headers['git-protocol']].flat()[0];
  const service = (name: string | null | undefined): Service => {
    if (name === 'git-upload-pack' || name === 'git-receive-pack') return name;
    throw new GitError('invalid', 'no such service');
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const [, path = '', rest = ''] = /^\/(.+?\.git)\/(.+)$/.exec(url.pathname) ?? [];
    const answer = async () => {
      if (rest === 'info/refs') {
        const name = service(url.searchParams.get('service'));
        response.setHeader('content-type', `application/x-${name}-advertisement`);
        await pipeline(await git.advertise(path, name, { gitProtocol: gitProtocol(request) }), response);
        return;
      }
      const gone = new AbortController();
      response.once('close', () => gone.abort());
      const name = service(rest);
      const body = decodedBody(request, request.headers['content-encoding']);
      const served = await git.serve(path, name, body, {
        ...state.options,
        gitProtocol: gitProtocol(request),
        signal: gone.signal,
      });
      response.setHeader('content-type', `application/x-${name}-result`);
      await pipeline(served.stream, response).catch(() => {});
      const result = await served.done;
      if (name === 'git-receive-pack') results.push(result);
    };
    answer().catch((error: unknown) => {
      if (!response.headersSent)
        response.statusCode = error instanceof GitError && error.reason === 'invalid' ? 400 : 500;
      response.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = address !== null && typeof address === 'object' ? address.port : 0;
  return {
    url: (path) => `http://127.0.0.1:${port}/${path}`,
    results,
    get options() {
      return state.options;
    },
    set options(options) {
      state.options = options;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
};

export const until = async (condition: () => boolean | Promise<boolean>, timeoutMs = PATIENCE_MS): Promise<void> => {
  const deadline = performance.now() + timeoutMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error('it did not come about in time');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
