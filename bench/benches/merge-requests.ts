import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { cpuOf, median, type Side, takeTurns } from '../lib/compare.ts';
import { repositoryIn } from '../lib/fill/branches.ts';
import { fillMergeRequests, type MergeRequestList } from '../lib/fill/merge-requests.ts';
import { copyRepository, fillProposals, git, PROPOSALS } from '../lib/fill/proposals.ts';
import { type Http, openHttp } from '../lib/http.ts';
import type { Options } from '../lib/options.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import { ADMIN_TOKEN, type Database, type World } from '../lib/world.ts';

const MOST = { merge: 2.5, mergeability: 2, lists: 1.3, diffs: 1.5 } as const;
type Part = keyof typeof MOST;
const PARTS = ['merge', 'mergeability', 'diffs', 'lists'] as const;
const SMALL = 20_000;
const DEADLINE_MS = 300_000;
const headers = { 'private-token': ADMIN_TOKEN };

interface Result {
  readonly reached: boolean;
  readonly lines: readonly string[];
}

/**
 * Merge requests against bare git commands, and their lists among a million against among 20,000. `--only merge`,
 * `mergeability`, `diffs` or `lists` selects a part; `--many N` is the larger number for the lists.
 */
export const mergeRequests = async (world: World, options: Options): Promise<Outcome> => {
  const parts = PARTS.filter((part) => part === (options.only ?? part));
  const results = new Map<Part, Result>();
  if (parts.some((part) => part !== 'lists')) {
    const scene = await openScene(world);
    const measures = { diffs: () => diffs(scene), merge: () => merge(scene), mergeability: () => mergeability(scene) };
    try {
      // The merges move the target branch, so the others come first.
      for (const part of ['diffs', 'mergeability', 'merge'] as const) {
        if (!parts.includes(part)) continue;
        results.set(part, await measures[part]());
        console.log([part, ...(results.get(part)?.lines ?? [])].join('\n  '));
      }
    } finally {
      await scene.close();
    }
  }
  if (parts.includes('lists')) results.set('lists', await lists(world, options.many));
  return {
    target: parts.map((part) => `${part} at most ${MOST[part]} times the baseline`).join(', '),
    reached: [...results.values()].every(({ reached }) => reached),
    lines: [...results].flatMap(([part, result]) => result.lines.map((line) => `${part}: ${line}`)),
  };
};

interface Scene {
  readonly database: Database;
  readonly http: Http;
  /** Its path in the API. */
  readonly project: string;
  readonly projectId: number;
  readonly repository: string;
  /** A copy that only bare git commands change. */
  readonly bare: string;
  ask(method: 'get' | 'post' | 'put', path: string, body?: unknown): Promise<ReturnType<typeof JSON.parse>>;
  close(): Promise<void>;
}

const openScene = async (world: World): Promise<Scene> => {
  const database = await world.createDatabase();
  const dataDir = join(world.directory, 'merge-requests');
  const hub = await database.startHub({ dataDir });
  const http = openHttp(hub.url);
  const ask: Scene['ask'] = async (method, path, body = {}) => {
    const answer =
      method === 'get' ? await http.get(path, headers) : await http[method](path, JSON.stringify(body), headers);
    if (answer.status >= 300) throw new Error(`${path} answered ${answer.status}: ${answer.text}`);
    return JSON.parse(answer.text);
  };
  await ask('put', '/api/v4/application/settings', { diff_max_files: PROPOSALS.files, diff_max_lines: 100_000 });
  const { id } = await ask('post', '/api/v4/projects', { name: 'proposals' });
  await idle(database);
  const { rows } = await database.pool.query<{ disk_path: string }>(
    `update projects set default_branch = 'main', empty_repo = false where id = ${id} returning disk_path`,
  );
  const repository = repositoryIn(dataDir, rows[0]?.disk_path ?? '');
  const bare = join(world.directory, 'proposals.git');
  await fillProposals(repository);
  await copyRepository(repository, bare);
  const close = async () => {
    await http.close();
    await database.close();
  };
  return { database, http, project: `/api/v4/projects/${id}`, projectId: id, repository, bare, ask, close };
};

/** Waits until the hub has followed all events and no job is due. */
const idle = async ({ pool }: Database): Promise<void> => {
  const end = performance.now() + DEADLINE_MS;
  for (let quiet = 0; quiet < 3; ) {
    if (performance.now() > end) throw new Error('the jobs of the hub did not end');
    const { rows } = await pool.query<{ busy: boolean }>(`
      select exists (select from graphile_worker._private_jobs where run_at <= now() + interval '1 second' and attempts < max_attempts)
        or exists (select from events where position is null) as busy`);
    quiet = rows[0]?.busy ? 0 : quiet + 1;
    await sleep(50);
  }
};

const open = async ({ ask, project, database }: Scene, source_branch: string): Promise<string> => {
  const { iid } = await ask('post', `${project}/merge_requests`, {
    source_branch,
    target_branch: 'main',
    title: `Merge ${source_branch}`,
  });
  await idle(database);
  return `${project}/merge_requests/${iid}`;
};

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const start = performance.now();
  await work();
  return performance.now() - start;
};

const verdict = (part: Part, hubMs: readonly number[], bareMs: readonly number[], baseline: string): Result => {
  const ratios = hubMs.map((ms, i) => ms / (bareMs[i] ?? Number.NaN));
  const line = `${ratioText(ratios)} times ${baseline}; hub ${median(hubMs).toFixed(1)} ms, git ${median(bareMs).toFixed(1)} ms`;
  return { reached: median(ratios) <= MOST[part], lines: [line] };
};

/**
 * The hub sets this too (platform/git/process/runner.ts). By default git does not wait until new objects are on disk.
 */
const DURABLE = ['-c', 'core.fsync=committed', '-c', 'core.fsyncMethod=batch'];

/** Merges of branches of one commit, against the commands that merge them as durably. */
const merge = async (scene: Scene): Promise<Result> => {
  const { ask, bare } = scene;
  const [hubMs, bareMs]: [number[], number[]] = [[], []];
  const identity = ['-c', 'user.name=Person', '-c', 'user.email=person-1@example.com'];
  const write = (...args: string[]) => git(bare, [...DURABLE, ...args]);
  for (let n = 1; n <= PROPOSALS.merges; n++) {
    const at = await open(scene, `merge/${n}`);
    hubMs.push(await timed(() => ask('put', `${at}/merge`)));
    await idle(scene.database);
    bareMs.push(
      await timed(async () => {
        const ours = await git(bare, ['rev-parse', '--verify', 'refs/heads/main']);
        const theirs = await git(bare, ['rev-parse', '--verify', `refs/heads/merge/${n}`]);
        await git(bare, ['merge-base', ours, theirs]);
        const tree = await write('merge-tree', '--write-tree', '--no-messages', ours, theirs);
        const merged = await write(...identity, 'commit-tree', '-p', ours, '-p', theirs, '-m', 'Merge', tree);
        await write('update-ref', 'refs/heads/main', merged, ours);
      }),
    );
  }
  return verdict(
    'merge',
    hubMs.slice(2),
    bareMs.slice(2),
    'rev-parse, merge-base, merge-tree, commit-tree, update-ref',
  );
};

/** From a push to the target branch until the status of all open merge requests into it is known. */
const mergeability = async (scene: Scene): Promise<Result> => {
  const { ask, bare, database, project, projectId } = scene;
  const main = await git(bare, ['rev-parse', 'refs/heads/main']);
  const heads = (
    await git(bare, ['for-each-ref', '--format=%(objectname) %(refname:lstrip=2)', 'refs/heads/open/'])
  ).split('\n');
  // As if each had been opened and prepared.
  await database.pool.query(
    `with made as (
      insert into merge_requests (project_id, source_project_id, iid, title, source_branch, target_branch, diff_head_sha,
          merge_status, prepared_at)
        select $1, $1, 10000 + n, 'Open ' || n, split_part(line, ' ', 2), 'main', split_part(line, ' ', 1), 'can_be_merged', now()
        from unnest($2::text[]) with ordinality as given (line, n) returning id, diff_head_sha)
    insert into merge_request_diffs (merge_request_id, base_commit_sha, start_commit_sha, head_commit_sha, real_size, commits_count, files_count)
      select id, $3, $3, diff_head_sha, '1', 1, 1 from made`,
    [projectId, heads, main],
  );
  const [hubMs, bareMs]: [number[], number[]] = [[], []];
  const conflicts = async () => {
    const { rows } = await database.pool.query<{ count: number }>(
      `select count(*) as count from merge_requests where merge_status = 'cannot_be_merged'`,
    );
    return rows[0]?.count ?? 0;
  };
  for (let round = 0; round < 3; round++) {
    await database.pool.query(`update merge_requests set merge_status = 'can_be_merged' where iid > 10000`);
    hubMs.push(
      await timed(async () => {
        await ask('post', `${project}/repository/commits`, {
          branch: 'main',
          commit_message: 'Conflict with every tenth',
          actions: [{ action: 'update', file_path: 'shared', content: `changed ${round}\n` }],
        });
        const end = performance.now() + DEADLINE_MS;
        while ((await conflicts()) < PROPOSALS.open / 10) {
          if (performance.now() > end) throw new Error('the merge requests were not checked');
          await sleep(20);
        }
      }),
    );
    await idle(database);
    const tip = (await git(scene.repository, ['rev-parse', 'refs/heads/main'])).trim();
    await git(bare, ['fetch', '--quiet', scene.repository, '+refs/heads/main:refs/heads/target']);
    bareMs.push(
      await timed(async () => {
        for (const line of heads)
          await git(bare, ['merge-tree', '--write-tree', '--no-messages', tip, line.slice(0, 40)], [], [0, 1]);
      }),
    );
  }
  await database.pool.query(`update merge_requests set state = 'closed' where iid > 10000`);
  return verdict('mergeability', hubMs, bareMs, `git merge-tree for each of ${heads.length}`);
};

/** The first page of the changed files, against git for all of them. */
const diffs = async (scene: Scene): Promise<Result> => {
  const { http, bare } = scene;
  const at = await open(scene, 'wide');
  const [hubMs, allMs, pageMs]: [number[], number[], number[]] = [[], [], []];
  const range = ['refs/heads/wide~1', 'refs/heads/wide'];
  const paths = (await git(bare, ['diff-tree', '-r', '--name-only', ...range])).split('\n').slice(0, 20);
  for (let round = 0; round < 20; round++) {
    hubMs.push(
      await timed(async () => {
        const { status, text, headers: sent } = await http.get(`${at}/diffs`, headers);
        if (status !== 200 || sent['x-total'] !== String(PROPOSALS.files))
          throw new Error(`answered ${status}: ${text.slice(0, 200)}`);
      }),
    );
    allMs.push(await timed(() => git(bare, ['diff-tree', '-r', '-M', '-p', ...range])));
    pageMs.push(await timed(() => git(bare, ['diff-tree', '-r', '-M', '-p', ...range, '--', ...paths])));
  }
  const result = verdict('diffs', hubMs, allMs, `git diff-tree -p of all ${PROPOSALS.files} files`);
  const page = verdict('diffs', hubMs, pageMs, 'git diff-tree -p of the twenty of the page');
  await scene.database.pool.query(`update merge_requests set state = 'closed' where source_branch = 'wide'`);
  return { reached: result.reached, lines: [...result.lines, ...page.lines] };
};

/** Each list in a hub with many merge requests, against a hub with 20,000. */
const lists = async (world: World, many: number): Promise<Result> => {
  const [small, large] = [await openFilled(world, SMALL), await openFilled(world, many)];
  const lines: string[] = [];
  let reached = true;
  try {
    for (const [i, { name }] of small.lists.entries()) {
      const rounds = await takeTurns({
        hub: await sideOf(large, i),
        baseline: await sideOf(small, i),
        // Both databases are of one server. Only one side is busy at a time.
        databaseMs: small.database.cpuMs,
        concurrency: 4,
        rounds: 7,
        windowMs: 250,
        leastRequests: 10,
        warmUpMs: 250,
      });
      const ratios = rounds.map(({ hub, baseline }) => cpuOf(hub) / cpuOf(baseline));
      const us = (side: 'hub' | 'baseline') => median(rounds.map((round) => cpuOf(round[side]))).toFixed(0);
      reached &&= median(ratios) <= MOST.lists;
      lines.push(
        `${name}: ${ratioText(ratios)}; CPU ${us('hub')} us among ${many}, ${us('baseline')} us among ${SMALL}`,
      );
      console.log(lines.at(-1));
    }
  } finally {
    await Promise.all([small.close(), large.close()]);
  }
  return { reached, lines };
};

interface Filled {
  readonly database: Database;
  readonly pid: number;
  readonly http: Http;
  readonly token: string;
  readonly lists: readonly MergeRequestList[];
  close(): Promise<void>;
}

const openFilled = async (world: World, total: number): Promise<Filled> => {
  const database = await world.createDatabase();
  const { token, lists } = await fillMergeRequests(database.pool, total);
  const hub = await database.startHub();
  const http = openHttp(hub.url);
  const close = async () => {
    await http.close();
    await database.close();
  };
  return { database, pid: hub.pid, http, token, lists, close };
};

const sideOf = async ({ http, pid, token, lists }: Filled, index: number): Promise<Side> => {
  const list = lists[index];
  if (!list) throw new Error('there is no such list');
  const { name, path, anonymous, matches } = list;
  const sent: Record<string, string> = anonymous ? {} : { 'private-token': token };
  const isQuery = typeof path !== 'string';
  const prepared = isQuery
    ? { method: 'POST' as const, path: '/api/graphql', body: JSON.stringify(path) }
    : { method: 'GET' as const, path: `/api/v4${path}` };
  const typed = isQuery ? { ...sent, 'content-type': 'application/json' } : sent;
  const answer = isQuery
    ? await http.post(prepared.path, JSON.stringify(path), typed)
    : await http.get(prepared.path, typed);
  if (answer.status !== 200 || answer.text.startsWith('{"errors"'))
    throw new Error(`${name} answered ${answer.status}: ${answer.text.slice(0, 300)}`);
  if (matches !== undefined && answer.headers['x-total'] !== String(matches))
    throw new Error(`${name} has ${answer.headers['x-total']} matches, not ${matches}`);
  const request = { ...prepared, headers: typed, leastBytes: answer.text.length * 0.9 };
  return { name, pid, send: () => http.drain(request) };
};
