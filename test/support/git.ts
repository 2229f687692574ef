import { cpSync, mkdtempSync } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { createLauncher } from '#platform/git/process/launcher.ts';
import { createLogger } from '#platform/log.ts';

// A fork of the test process would copy the page tables of a large heap, so git starts from a launcher, as in the hub.

const ENV = {
  PATH: process.env.PATH ?? '',
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

/** Shared by all files of this process. It ends with the process. */
const launcher = createLauncher(createLogger('silent'));

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface GitOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string | Buffer;
}

/** Runs the real git, as a person at a terminal would. */
const tryGitWith = async (
  { env = {}, input = '' }: GitOptions,
  cwd: string,
  ...args: readonly string[]
): Promise<Ran> => {
  const { stdin, stdout, stderr, exited } = await launcher.launch({
    file: 'git',
    args,
    cwd,
    env: { ...ENV, ...env },
    channel: false,
  });
  // git may end without reading its input.
  stdin.on('error', () => {});
  stdin.end(input);
  const [code, out, err] = await Promise.all([exited, text(stdout), text(stderr)]);
  stdin.destroy();
  return { code: code ?? 1, stdout: out, stderr: err };
};

export const tryGit = (cwd: string, ...args: readonly string[]): Promise<Ran> => tryGitWith({}, cwd, ...args);

/** Returns the output without surrounding spaces. Fails unless git succeeds. */
export const runGitWith = async (options: GitOptions, cwd: string, ...args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await tryGitWith(options, cwd, ...args);
  if (code !== 0) throw new Error(`git ${args.join(' ')}: ${stderr}`);
  return stdout.trim();
};

export const runGit = (cwd: string, ...args: readonly string[]): Promise<string> => runGitWith({}, cwd, ...args);

/** Writes the file and commits everything in the work tree. Returns the id of the commit. */
export const commitFile = async (
  tree: string,
  name: string,
  content: string,
  message: string,
  date?: string,
): Promise<string> => {
  await writeFile(join(tree, name), content);
  await runGit(tree, 'add', '--all');
  const env: Record<string, string> = date === undefined ? {} : { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date };
  await runGitWith({ env }, tree, 'commit', '-q', '-m', message);
  return headOf(tree);
};

/** Returns the commit that was just made, without a process. */
const headOf = async (tree: string): Promise<string> => {
  const head = (await readFile(join(tree, '.git/HEAD'), 'utf8')).trim();
  const ref = /^ref: (.+)$/.exec(head)?.[1];
  return ref === undefined ? head : (await readFile(join(tree, '.git', ref), 'utf8')).trim();
};

const templates = new Map<string, Promise<string>>();

/** Creates a work tree with one commit on `main` (or another branch), as a copy of the first of this process. */
export const workTree = async (folder: string, branch = 'main'): Promise<string> => {
  const template = templates.get(branch) ?? makeTemplate(branch);
  templates.set(branch, template);
  return copyOf(folder, await template);
};

/** Copies a work tree into the folder. */
export const copyOf = (folder: string, template: string): string => {
  const tree = mkdtempSync(join(folder, 'tree-'));
  // The asynchronous `cp` takes twenty times the CPU time for so few files.
  cpSync(template, tree, { recursive: true });
  return tree;
};

const makeTemplate = async (branch: string): Promise<string> => {
  const tree = await mkdtemp(join(tmpdir(), 'millrace-tree-'));
  await runGit(tree, 'init', '-q', '--template=', '-b', branch);
  await commitFile(tree, 'README.md', '# Hello\n', 'First commit');
  return tree;
};

/** Feeds `git fast-import` in a bare repository. */
export const fastImport = async (directory: string, input: string): Promise<void> => {
  await runGitWith({ input }, directory, 'fast-import', '--quiet', '--force');
};
