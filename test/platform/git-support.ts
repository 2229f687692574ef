import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGit, type Git } from '#platform/git/git.ts';
import { GitError } from '#platform/git/git-error.ts';
import { decodedBody } from '#platform/git/smart-http.ts';
import type { ServeOptions, ServeResult, Service } from '#platform/git/types.ts';
import { createLogger } from '#platform/log.ts';
import { PATIENCE_MS } from '../support/until.ts';

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

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const ENV = {
  PATH: process.env.PATH,
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
};

/** Runs the real git, as a person at a terminal would. */
export const tryGit = (cwd: string, ...args: string[]): Promise<Ran> =>
  new Promise((resolve) => {
    execFile('git', args, { cwd, env: ENV, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 1, stdout, stderr });
    });
  });

export const runGit = async (cwd: string, ...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await tryGit(cwd, ...args);
  if (code !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
  return stdout.trim();
};

/** Feeds `git fast-import` in a bare repository. */
export const fastImport = (directory: string, input: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn('git', ['fast-import', '--quiet', '--force'], {
      cwd: directory,
      env: ENV,
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    child.on('error', reject);
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(`fast-import ended with ${code}`))));
    child.stdin.end(input);
  });

/** Creates a work tree with one commit on `main`. */
export const workTree = async (folder: string): Promise<string> => {
  const tree = await mkdtemp(join(folder, 'tree-'));
  await runGit(tree, 'init', '-q', '-b', 'main');
  await commitFile(tree, 'README.md', '# Hello\n', 'First commit');
  return tree;
};

export const commitFile = async (tree: string, name: string, content: string, message: string): Promise<string> => {
  await writeFile(join(tree, name), content);
  await runGit(tree, 'add', '--all');
  await runGit(tree, 'commit', '-q', '-m', message);
  return runGit(tree, 'rev-parse', 'HEAD');
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
