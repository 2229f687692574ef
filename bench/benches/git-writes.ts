import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { median, type Side, takeTurns } from '../lib/compare.ts';
import { type Answer, openHttp } from '../lib/http.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import { ADMIN_TOKEN, type World } from '../lib/world.ts';

const AT_ONCE = 8;
const FILES = Array.from({ length: 50 }, (_, n) => n + 10);
const MANY = 20;
const MOST = { write: 2.5, read: 1.5 };
const MOST_STALLED_MS = 2;

const run = promisify(execFile);
const nameOf = (n: number) => `file-${n}.txt`;
const headers = { 'private-token': ADMIN_TOKEN };

/**
 * Typical work of bots over the API, against the bare git commands for it: one at a time and eight at once, each in its
 * own repository.
 */
export const gitWrites = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const hub = await database.startHub();
  const repositories = join(world.directory, 'git-writes');
  const bare = await database.startBaseline('git-writes.ts', { REPOSITORIES: repositories });
  const [toHub, toBare] = [openHttp(hub.url), openHttp(bare.url)];
  let counter = 0;
  try {
    const ask = async (method: 'get' | 'post' | 'put', path: string, body: unknown = {}): Promise<Answer> => {
      const answer =
        method === 'get' ? await toHub.get(path, headers) : await toHub[method](path, JSON.stringify(body), headers);
      if (answer.status >= 300) throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
      return answer;
    };
    const commitOf = (files: readonly number[], action: 'create' | 'update', n: number) => ({
      branch: 'main',
      commit_message: 'Change',
      actions: files.map((file) => ({ action, file_path: nameOf(file), content: `${n} ${file}\n` })),
    });
    const projects: string[] = [];
    for (let worker = 0; worker < AT_ONCE; worker++) {
      const { id } = JSON.parse((await ask('post', '/api/v4/projects', { name: `writes-${worker}` })).text);
      const project = `/api/v4/projects/${id}/repository`;
      await ask('post', `${project}/commits`, commitOf(FILES, 'create', 0));
      projects.push(project);
      await fillBare(join(repositories, `${worker}.git`));
    }
    const operations: Record<
      string,
      { kind: keyof typeof MOST; hub: (project: string, n: number) => Promise<Answer> }
    > = {
      file: {
        kind: 'write',
        hub: (project, n) =>
          ask('put', `${project}/files/${nameOf(10)}`, { branch: 'main', commit_message: 'Change', content: `${n}\n` }),
      },
      files: {
        kind: 'write',
        hub: (project, n) => ask('post', `${project}/commits`, commitOf(FILES.slice(0, MANY), 'update', n)),
      },
      branch: {
        kind: 'write',
        hub: (project, n) => ask('post', `${project}/branches`, { branch: `branch-${n}`, ref: 'main' }),
      },
      tag: {
        kind: 'write',
        hub: (project, n) => ask('post', `${project}/tags`, { tag_name: `tag-${n}`, ref: 'main' }),
      },
      read: { kind: 'read', hub: (project) => ask('get', `${project}/files/${nameOf(10)}?ref=main`) },
      tree: { kind: 'read', hub: (project) => ask('get', `${project}/tree?ref=main&per_page=100`) },
    };
    const lines: string[] = [];
    let reached = true;
    for (const [name, { kind, hub: atHub }] of Object.entries(operations)) {
      for (const concurrency of [1, AT_ONCE]) {
        // Each request uses its own repository. Waiting requests take turns.
        const free = (count: number) => {
          const workers = Array.from({ length: count }, (_, n) => n);
          return async (use: (worker: number) => Promise<void>) => {
            const worker = workers.pop() ?? 0;
            await use(worker);
            workers.push(worker);
          };
        };
        const [withHub, withBare] = [free(concurrency), free(concurrency)];
        const sides: { hub: Side; baseline: Side } = {
          hub: {
            name: 'hub',
            pid: hub.pid,
            children: true,
            send: () => withHub(async (worker) => void (await atHub(projects[worker] ?? '', ++counter))),
          },
          baseline: {
            name: 'git',
            pid: bare.pid,
            children: true,
            send: () =>
              withBare(async (worker) => {
                const { status, text } = await toBare.get(`/${name}?worker=${worker}&n=${++counter}`);
                if (status !== 200) throw new Error(`git answered ${status}: ${text}`);
              }),
          },
        };
        const rounds = await takeTurns({
          ...sides,
          databaseMs: database.cpuMs,
          concurrency,
          rounds: 5,
          windowMs: 1_000,
          warmUpMs: 700,
        });
        const times = rounds.map((round) => round.baseline.perSecond / round.hub.perSecond);
        const ms = (side: 'hub' | 'baseline') =>
          median(rounds.map((round) => (concurrency * 1_000) / round[side].perSecond)).toFixed(1);
        reached &&= median(times) <= MOST[kind];
        lines.push(
          `${name}, ${concurrency} at once: ${ratioText(times)} times; hub ${ms('hub')} ms, git ${ms('baseline')} ms`,
        );
      }
    }
    const stall = await stalled();
    reached &&= stall.p99 < MOST_STALLED_MS;
    lines.push(
      `starting git at 200 MiB stalls the event loop for ${stall.p50.toFixed(2)} ms, p99 ${stall.p99.toFixed(2)} ms`,
    );
    const target = `at most ${MOST.write} times the bare git commands for writes, ${MOST.read} for reads; a stall of less than ${MOST_STALLED_MS} ms`;
    return { target, reached, lines };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
    await database.close();
  }
};

const stalled = async (): Promise<{ p50: number; p99: number }> => {
  const { stdout } = await run(process.execPath, [fileURLToPath(new URL('../lib/git-stall.ts', import.meta.url))]);
  return JSON.parse(stdout);
};

/**
 * Creates a bare repository with the same files, and beside it the lines of `git ls-tree` for the files that a commit
 * does not change.
 */
const fillBare = async (directory: string): Promise<void> => {
  await mkdir(directory, { recursive: true });
  const git = async (...args: string[]) => (await run('git', [`--git-dir=${directory}`, ...args])).stdout.trim();
  await run('git', ['init', '--quiet', '--bare', '--template=', '--initial-branch=main', directory]);
  for (const n of FILES) await writeFile(join(directory, nameOf(n)), `0 ${n}\n`);
  const lines: string[] = [];
  for (const n of FILES)
    lines.push(`100644 blob ${await git('hash-object', '-w', join(directory, nameOf(n)))}\t${nameOf(n)}\n`);
  await writeFile(join(directory, 'others-1'), lines.slice(1).join(''));
  await writeFile(join(directory, 'others-20'), lines.slice(MANY).join(''));
  await writeFile(join(directory, 'all'), lines.join(''));
  const script = `tree=$(git mktree < "$GIT_DIR/all"); git -c user.name=P -c user.email=p@example.com update-ref refs/heads/main "$(git -c user.name=P -c user.email=p@example.com commit-tree -m First "$tree")"`;
  await run('sh', ['-e', '-c', script], { env: { PATH: process.env.PATH, GIT_DIR: directory } });
};
