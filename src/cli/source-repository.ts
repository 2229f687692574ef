import { execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

const git = async (
  directory: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> => {
  const { stdout } = await run('git', ['-C', directory, ...args], {
    env: { ...process.env, GIT_TERMINAL_PROMPT: '0', LC_ALL: 'C', ...env },
    maxBuffer: 64 * 1024 * 1024,
  });
  return stdout.trim();
};

/** A repository that can be pushed, and its number of commits. */
export interface SourceRepository {
  readonly directory: string;
  readonly commits: number;
}

/**
 * Prepares a complete history to push. A repository at `directory` is used as it is. A shallow clone, which servers
 * refuse, gets a rewritten history that starts at the cut. A folder without a repository becomes one commit.
 */
export const prepareRepository = async (directory: string, scratch: string): Promise<SourceRepository> => {
  const isRepository = await git(directory, ['rev-parse', '--verify', '--quiet', 'HEAD']).then(Boolean, () => false);
  let usable = directory;
  if (!isRepository) usable = await commitFiles(directory, join(scratch, 'source'));
  else if ((await git(directory, ['rev-parse', '--is-shallow-repository'])) === 'true') {
    usable = await rewriteHistory(directory, join(scratch, 'source'));
  }
  return { directory: usable, commits: Number(await git(usable, ['rev-list', '--count', 'HEAD'])) };
};

/**
 * Pushes HEAD as `branch`, and all tags. The token is passed in the environment, because other users can see arguments.
 */
export const push = async (
  { directory }: SourceRepository,
  url: string,
  token: string,
  branch: string,
): Promise<void> => {
  const credentials = Buffer.from(`oauth2:${token}`).toString('base64');
  await git(directory, ['push', '--quiet', url, `HEAD:refs/heads/${branch}`, '--tags'], {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'http.extraHeader',
    GIT_CONFIG_VALUE_0: `Authorization: Basic ${credentials}`,
  });
};

/** Returns the refs of a repository on the hub with their object ids, sorted, one per line. */
export const listRefs = async (url: string, token: string): Promise<string> => {
  const credentials = Buffer.from(`oauth2:${token}`).toString('base64');
  const refs = await git('.', ['ls-remote', '--heads', '--tags', url], {
    GIT_CONFIG_COUNT: '1',
    GIT_CONFIG_KEY_0: 'http.extraHeader',
    GIT_CONFIG_VALUE_0: `Authorization: Basic ${credentials}`,
  });
  return refs.split('\n').sort().join('\n');
};

const commitFiles = async (directory: string, target: string): Promise<string> => {
  await git('.', ['init', '--quiet', target]);
  const worktree = ['--work-tree', directory];
  await git(target, [...worktree, 'add', '--all', '--', ':!node_modules', ':!.millrace']);
  await git(target, [
    ...worktree,
    '-c',
    'user.name=Millrace',
    '-c',
    'user.email=demo@example.com',
    'commit',
    '--quiet',
    '-m',
    'Files as they are',
  ]);
  return target;
};

const rewriteHistory = async (directory: string, target: string): Promise<string> => {
  await git('.', ['init', '--quiet', target]);
  const exporter = spawn('git', ['-C', directory, 'fast-export', '--signed-tags=strip', 'HEAD'], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const importer = spawn('git', ['-C', target, 'fast-import', '--quiet', '--force'], {
    stdio: [exporter.stdout, 'ignore', 'ignore'],
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    exporter.once('error', reject);
    importer.once('error', reject).once('exit', resolve);
  });
  if (code !== 0) throw new Error(`the history of ${directory} could not be read`);
  const [ref] = (await git(target, ['for-each-ref', '--format=%(refname)'])).split('\n');
  // A detached HEAD is exported under the name HEAD, a branch under its own name.
  const tip = await git(target, ['rev-parse', ref || 'HEAD']);
  await git(target, ['update-ref', 'refs/heads/main', tip]);
  await git(target, ['symbolic-ref', 'HEAD', 'refs/heads/main']);
  return target;
};
