import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import type { TestApp, TestUser } from '../support/app.ts';

const ENV = {
  PATH: process.env.PATH,
  HOME: '/nonexistent',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
  GIT_ASKPASS: 'true',
  GIT_AUTHOR_NAME: 'Ada',
  GIT_AUTHOR_EMAIL: 'ada@example.com',
  GIT_COMMITTER_NAME: 'Ada',
  GIT_COMMITTER_EMAIL: 'ada@example.com',
  LC_ALL: 'C.UTF-8',
};

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the real git, as a person at a terminal would. */
export const tryGit = (cwd: string, ...args: string[]): Promise<Ran> => tryGitWith({}, cwd, ...args);

const tryGitWith = (env: Readonly<Record<string, string>>, cwd: string, ...args: string[]): Promise<Ran> =>
  new Promise((resolve) => {
    execFile('git', args, { cwd, env: { ...ENV, ...env }, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : typeof error.code === 'number' ? error.code : 1, stdout, stderr });
    });
  });

export const runGit = async (cwd: string, ...args: string[]): Promise<string> => {
  const { code, stdout, stderr } = await tryGit(cwd, ...args);
  if (code !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
  return stdout.trim();
};

/** Provides a folder for work trees that is removed after the tests of the file. */
export const useFolder = (): (() => string) => {
  let folder = '';
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'millrace-git-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return () => folder;
};

export const commitFile = async (
  tree: string,
  name: string,
  content: string,
  message: string,
  date?: string,
): Promise<string> => {
  await writeFile(join(tree, name), content);
  await runGit(tree, 'add', '--all');
  const dates: Record<string, string> = date === undefined ? {} : { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date };
  const { code, stderr } = await tryGitWith(dates, tree, 'commit', '-q', '-m', message);
  if (code !== 0) throw new Error(`git commit: ${stderr}`);
  return runGit(tree, 'rev-parse', 'HEAD');
};

/** Creates a work tree with one commit on `main` (or another branch). */
export const workTree = async (folder: string, branch = 'main'): Promise<string> => {
  const tree = await mkdtemp(join(folder, 'tree-'));
  await runGit(tree, 'init', '-q', '-b', branch);
  await commitFile(tree, 'README.md', '# Hello\n', 'First commit');
  return tree;
};

/** Returns the URL to clone from and push to, including a credential. */
export const remoteUrl = (
  base: string,
  project: { readonly path_with_namespace: string },
  username?: string,
  password?: string,
): string => {
  const url = new URL(`${base}/${project.path_with_namespace}.git`);
  if (username !== undefined) url.username = encodeURIComponent(username);
  if (password !== undefined) url.password = encodeURIComponent(password);
  return url.href;
};

/** Returns the URL with a token of the user. */
export const remoteOf = async (
  app: TestApp,
  project: { readonly path_with_namespace: string },
  user: TestUser,
  scopes?: readonly string[],
): Promise<string> => remoteUrl(app.url, project, 'oauth2', await app.tokenOf(user, scopes));

export interface RecordedEvent {
  readonly kind: string;
  readonly actor_id: number | null;
  readonly min_access_level: number | null;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into payloads of every shape.
  readonly payload: any;
}

/** Returns the events of the project's repository, oldest first. */
export const eventsOf = async (app: TestApp, projectId: number): Promise<RecordedEvent[]> => {
  const { rows } = await app.hub.services.pool.query(
    `select kind, actor_id, min_access_level, payload from events
     where project_id = $1 and kind in ('push.received', 'tag.pushed', 'repository.updated') order by id`,
    [projectId],
  );
  return rows;
};
