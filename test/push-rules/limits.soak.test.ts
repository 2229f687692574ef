import { execFile, spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { remoteOf, tryGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { computedMs } from '../support/computed-ms.ts';
import { until } from '../support/until.ts';

const app = useApp();
const folder = useFolder();

const COMMITS = 10_000;

/** Creates a project with the rule, and a work tree with this `git fast-import` stream on `main`. */
const setUp = async (rule: Record<string, unknown>, history: Iterable<string>) => {
  const owner = await app().make.user();
  const project = await app().make.project({}, owner);
  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, owner);
  await pushTree(app(), project, owner, tree, 'main');
  await app().as(owner).post(`/projects/${project.id}/push_rule`, rule);
  const git = spawn('git', ['fast-import', '--quiet', '--force'], { cwd: tree, stdio: ['pipe', 'ignore', 'inherit'] });
  for (const part of history) {
    if (!git.stdin.write(part)) await new Promise((resolve) => git.stdin.once('drain', resolve));
  }
  git.stdin.end();
  const code = await new Promise((resolve) => git.once('close', resolve));
  expect(code).toBe(0);
  return { owner, project, tree, remote };
};

const commit = (n: number, message: string, files = '', parent = ''): string =>
  `commit refs/heads/main\ncommitter Ada <user${n}@example.org> ${1_700_000_000 + n} +0000\n` +
  `data ${Buffer.byteLength(message)}\n${message}\n${n === 0 ? parent : ''}${files}\n`;

const file = (path: string, content: string): string =>
  `M 100644 inline ${path}\ndata ${Buffer.byteLength(content)}\n${content}\n`;

const FROM_MAIN = 'from refs/heads/main^0\n';

/** Returns the most CPU time the hub needed to answer a cheap request while the work was running. */
const slowestAnswer = async (work: Promise<unknown>): Promise<number> => {
  let slowest = 0;
  let over = false;
  const end = () => {
    over = true;
  };
  work.then(end, end);
  while (!over) {
    const startedAt = computedMs();
    // The pause leaves the CPU to the work, and counts, so that no delay goes unnoticed.
    await sleep(30);
    await app().anonymous.get('/-/liveness');
    slowest = Math.max(slowest, computedMs() - startedAt);
  }
  return slowest;
};

/** Returns the git processes, started by this process (the hub), that walk new commits. */
const walks = async (): Promise<string[]> => {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'args=', '--ppid', String(process.pid)]).catch(() => ({
    stdout: '',
  }));
  return stdout.split('\n').filter((line) => / (rev-list|diff-tree) /.test(line) && line.includes('--stdin'));
};

describe('a push of ten thousand commits', () => {
  it('is checked against every rule while the hub keeps answering', async () => {
    const history = function* () {
      for (let n = 0; n < COMMITS; n++) {
        yield commit(n, `Fixes: number ${n}`, file(`folder${n % 100}/file${n}.txt`, `${n}`), FROM_MAIN);
      }
    };
    const { tree, remote } = await setUp(
      {
        commit_message_regex: '^Fixes',
        commit_message_negative_regex: '(a|aa)+$',
        author_email_regex: '@example\\.org$',
        file_name_regex: '(x+x+)+y$',
        prevent_secrets: true,
        max_file_size: 1,
      },
      history(),
    );
    const push = tryGit(tree, 'push', remote, 'main');
    const slowest = await slowestAnswer(push);
    expect(await push).toMatchObject({ code: 0 });
    expect(slowest).toBeLessThan(1_000);
  });

  it('is refused early, and leaves no process behind', async () => {
    const history = function* () {
      for (let n = 0; n < COMMITS; n++) yield commit(n, `bad ${n}`, '', FROM_MAIN);
    };
    const { tree, remote } = await setUp({ commit_message_regex: '^Good', member_check: true }, history());
    const { code, stderr } = await tryGit(tree, 'push', remote, 'main');
    expect(code).toBe(1);
    expect(stderr.match(/remote: refs\/heads\/main: commit/g)).toHaveLength(10);
    await until('the walks have ended', async () => (await walks()).length === 0);
  });
});

describe('a hostile push', () => {
  it('does not delay other requests with long messages and an expensive pattern', async () => {
    let state = 1;
    const noise = Array.from({ length: 65_000 }, () => {
      state = (state * 48_271) % 2_147_483_647;
      return state % 2 ? 'a' : 'b';
    }).join('');
    const history = function* () {
      for (let n = 0; n < 2; n++) yield commit(n, `${n} ${noise} d`, '', FROM_MAIN);
    };
    const pattern = '(a|b)*a(a|b){200}d';
    const { tree, remote } = await setUp({ commit_message_negative_regex: pattern }, history());
    const push = tryGit(tree, 'push', remote, 'main');
    const slowest = await slowestAnswer(push);
    expect(await push).toMatchObject({ code: 0 });
    expect(slowest).toBeLessThan(1_000);
  });

  it('is refused if its commits are too big to check', async () => {
    const long = function* () {
      yield commit(0, `Good\n${'x'.repeat(65 * 1024)}`, '', FROM_MAIN);
    };
    const first = await setUp({ commit_message_regex: '^Good' }, long());
    const refused = await tryGit(first.tree, 'push', first.remote, 'main');
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('the message is too long') });

    const huge = function* () {
      yield commit(0, `${'x'.repeat(1024 * 1024)}\n\nSigned-off-by: Ada <ada@example.com>`, '', FROM_MAIN);
    };
    const second = await setUp({ reject_non_dco_commits: true }, huge());
    const big = await tryGit(second.tree, 'push', second.remote, 'main');
    expect(big).toMatchObject({ code: 1, stderr: expect.stringContaining('it is too big to be checked') });
  });
});
