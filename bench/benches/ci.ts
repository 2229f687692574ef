import { createReadStream } from 'node:fs';
import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool, request } from 'undici';
import { compare, median } from '../lib/compare.ts';
import { fillJobs, makeRunner, tokenOfJob } from '../lib/fill/jobs.ts';
import { openHttp } from '../lib/http.ts';
import type { Options } from '../lib/options.ts';
import { cpuMs, peakRssMiB, rssMiB, type Server } from '../lib/processes.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import { ADMIN_TOKEN, type Database, type World } from '../lib/world.ts';
import { writeZip } from '../lib/zip.ts';

const PROJECTS = 20;
const headers = { 'private-token': ADMIN_TOKEN };

interface Part {
  readonly goal: string;
  readonly reached: boolean;
  readonly lines: readonly string[];
}

interface Scene {
  readonly database: Database;
  readonly hub: Server;
  readonly bare: Server;
  readonly directory: string;
  /** The folder of the hub's repositories. */
  readonly repositories: string;
  readonly projects: readonly { readonly id: number; readonly sha: string }[];
  readonly userId: number;
  /** How many artifacts are cleaned up. */
  readonly expired: number;
}

/**
 * Pipelines, runners and artifacts against the least that each needs (baselines/ci.ts). `--only NAME` runs one part:
 * `hand-out`, `arrival`, `polling`, `upload`, `file`, `pipeline` or `clean-up`, which deletes `--expired N` artifacts.
 */
export const ci = async (world: World, { only, expired }: Options): Promise<Outcome> => {
  const scene = { ...(await openScene(world)), expired };
  const results: [string, Part][] = [];
  try {
    for (const [name, measure] of Object.entries(parts)) {
      if (only !== undefined && only !== name) continue;
      const part = await measure(scene).catch((error: unknown): Part => {
        // The other parts may still succeed.
        return { goal: 'not measured', reached: false, lines: [`failed: ${error}`] };
      });
      console.log([`${name}: ${part.reached ? 'reached' : 'MISSED'} (${part.goal})`, ...part.lines].join('\n  '));
      results.push([name, part]);
    }
  } finally {
    await scene.database.close();
  }
  return {
    target: results.map(([name, { goal }]) => `${name} ${goal}`).join('; '),
    reached: results.every(([, { reached }]) => reached),
    lines: results.flatMap(([name, { lines }]) => lines.map((line) => `${name}: ${line}`)),
  };
};

const openScene = async (world: World): Promise<Omit<Scene, 'expired'>> => {
  const database = await world.createDatabase();
  const directory = join(world.directory, 'ci-baseline');
  await mkdir(directory, { recursive: true });
  const dataDir = join(world.directory, 'ci');
  const hub = await database.startHub({ dataDir });
  await database.pool.query(`
    create table bare_queue (id bigint generated always as identity primary key, status text not null,
      runner_id bigint, started_at timestamptz, token_digest bytea);
    create index bare_queue_pending on bare_queue (id) where status = 'pending';
    create unique index on bare_queue (token_digest);
    create table bare_events (id bigint generated always as identity primary key, kind text not null,
      subject_id bigint not null, payload jsonb not null);
    create table bare_payload (job jsonb not null);
    create table bare_jobs (id bigint generated always as identity primary key, name text, options jsonb);
    insert into bare_queue (status) select 'pending' from generate_series(1, 60000) n;
    analyze bare_queue`);
  const bare = await database.startBaseline('ci.ts', { DIRECTORY: directory });
  const http = openHttp(hub.url);
  const projects: { id: number; sha: string }[] = [];
  for (let i = 0; i < PROJECTS; i++) {
    const body = JSON.stringify({ name: `ci-${i}`, initialize_with_readme: true });
    const { id } = await made(http.post('/api/v4/projects', body, headers));
    const commits = JSON.parse((await http.get(`/api/v4/projects/${id}/repository/commits`, headers)).text);
    projects.push({ id, sha: commits[0].id });
  }
  await http.put('/api/v4/application/settings', JSON.stringify({ max_artifacts_size: 1_024 }), headers);
  const { id: userId } = JSON.parse((await http.get('/api/v4/user', headers)).text);
  await http.close();
  return { database, hub, bare, directory, repositories: join(dataDir, 'repositories'), projects, userId };
};

const made = async (answering: Promise<{ status: number; text: string }>) => {
  const { status, text } = await answering;
  if (status !== 201) throw new Error(`answered ${status}: ${text}`);
  return JSON.parse(text);
};

/** Fifty runners take jobs as fast as they can. */
const handOut = async (scene: Scene): Promise<Part> => {
  const { database, hub, bare, projects, userId } = scene;
  const token = await makeRunner(database.pool);
  await fillJobs(database.pool, { projects, userId, pipelines: 2_500, jobsOfEach: 10, status: 'pending' });
  await writePipelineRefs(scene);
  const [toHub, toBare] = [openHttp(hub.url, 50), openHttp(bare.url, 50)];
  const body = JSON.stringify({ token, info: { name: 'bench' } });
  let taken = 0;
  let lost = 0;
  const takeFrom = async (): Promise<void> => {
    for (;;) {
      const { status, text } = await toHub.post('/api/v4/jobs/request', body);
      if (status === 201) {
        taken += 1;
        return;
      }
      // Other runners were faster.
      lost += 1;
      if (status !== 409) throw new Error(`the hub answered ${status}: ${text}`);
    }
  };
  // The baseline sends the same bytes.
  const { text: payload } = await toHub.post('/api/v4/jobs/request', body);
  await database.pool.query('insert into bare_payload values ($1)', [payload]);
  const takeBare = async () => void (await made(toBare.post('/take', '')));
  try {
    const outcome = await compare({
      hub: { name: 'hub', pid: hub.pid, children: true, send: takeFrom },
      baseline: { name: 'skip locked', pid: bare.pid, send: takeBare },
      databaseMs: database.cpuMs,
      atLeast: 0.6,
      concurrency: 50,
      rounds: 4,
      windowMs: 1_500,
      warmUpMs: 1_000,
    });
    const line = `${taken} jobs handed out in ${payload.length} bytes each, and ${lost} requests that lost to other runners (409)`;
    return {
      goal: 'at least 0.6 of a bare skip-locked queue',
      reached: outcome.reached,
      lines: [...outcome.lines, line],
    };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
  }
};

/** Writes the refs of the pipelines, as their creation does. */
const writePipelineRefs = async ({ database, repositories }: Scene): Promise<void> => {
  const { rows } = await database.pool.query<{ id: number; sha: string; disk_path: string }>(
    'select l.id, l.sha, p.disk_path from pipelines l join projects p on p.id = l.project_id',
  );
  for (const { id, sha, disk_path } of rows) {
    const folder = join(repositories, disk_path, 'refs/pipelines');
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, String(id)), `${sha}\n`);
  }
};

const ARRIVALS = 40;
const ARRIVAL_MS = 100;

/** A job is created while a runner waits. */
const arrival = async ({ database, hub, projects }: Scene): Promise<Part> => {
  // Jobs that are left from other parts would be taken.
  await database.pool.query(`update jobs set status = 'canceled' where status = 'pending'`);
  const token = await makeRunner(database.pool);
  const id = projects[0]?.id;
  const [runner, person] = [new Pool(hub.url, { connections: 1, headersTimeout: 0 }), openHttp(hub.url, 1)];
  let last_update: string | undefined;
  const poll = async (): Promise<{ status: number; at: number }> => {
    const {
      statusCode,
      headers: sent,
      body,
    } = await runner.request({
      path: '/api/v4/jobs/request',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ token, system_id: 'bench', last_update }),
    });
    await body.dump();
    const seen = sent['x-gitlab-last-update'];
    last_update = typeof seen === 'string' ? seen : undefined;
    return { status: statusCode, at: performance.now() };
  };
  try {
    const file = { file_path: '.gitlab-ci.yml', content: 'build: {script: [make]}', action: 'create' };
    const commit = { branch: 'main', commit_message: 'One job [skip ci]', actions: [file] };
    await made(person.post(`/api/v4/projects/${id}/repository/commits`, JSON.stringify(commit), headers));
    const times: number[] = [];
    const whole: number[] = [];
    for (let i = 0; i < ARRIVALS; i++) {
      // Until a request waits, the runner looks for what is there.
      while ((await poll()).status !== 204);
      const waiting = poll();
      await sleep(50);
      const begin = performance.now();
      const created = made(
        person.post(`/api/v4/projects/${id}/pipeline`, JSON.stringify({ ref: 'main' }), headers),
      ).then(() => performance.now());
      const [{ status, at }, done] = await Promise.all([waiting, created]);
      if (status !== 201) throw new Error(`the hub answered ${status} to the waiting runner`);
      times.push(Math.max(0, at - done));
      whole.push(at - begin);
    }
    const text = (values: readonly number[]) => `${median(values).toFixed(0)} ms (p95 ${p95(values).toFixed(0)} ms)`;
    return {
      goal: `at most ${ARRIVAL_MS} ms from the answer that creates a job to its arrival at a waiting runner`,
      reached: median(times) <= ARRIVAL_MS,
      lines: [
        `${ARRIVALS} jobs arrived ${text(times)} after the answer, and ${text(whole)} after the request that created them`,
      ],
    };
  } finally {
    await Promise.all([runner.destroy(), person.close()]);
  }
};

const RUNNERS = 1_000;
const IDLE_MS = 10_000;

/** A thousand runners wait for jobs. */
const polling = async ({ database, hub, bare }: Scene): Promise<Part> => {
  // Jobs that are left from other parts would be taken.
  await database.pool.query(`update jobs set status = 'canceled' where status = 'pending'`);
  const token = await makeRunner(database.pool);
  const share = async (pids: readonly number[]): Promise<number> => {
    const used = () => cpuMs(pids) + database.cpuMs();
    const [begin, before] = [performance.now(), used()];
    await sleep(IDLE_MS);
    return ((used() - before) / (performance.now() - begin)) * 100;
  };
  const quiet = await share([hub.pid]);
  const [runners, idle] = [hub, bare].map(({ url }) => new Pool(url, { connections: RUNNERS, headersTimeout: 0 }));
  if (!runners || !idle) throw new Error('no pools');
  const stop = new AbortController();
  const held = Array.from({ length: RUNNERS }, () =>
    idle.request({ path: '/hold', method: 'GET', signal: stop.signal }).catch(() => null),
  );
  const body = (last_update?: string) => JSON.stringify({ token, system_id: 'bench', last_update });
  const poll = (text: string, signal?: AbortSignal) =>
    runners.request({
      path: '/api/v4/jobs/request',
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: text,
      ...(signal ? { signal } : {}),
    });
  const first = await poll(body());
  await first.body.dump();
  const seen = first.headers['x-gitlab-last-update'];
  if (first.statusCode !== 204 || typeof seen !== 'string') throw new Error(`the hub answered ${first.statusCode}`);
  let answered = 0;
  const waiting = Array.from({ length: RUNNERS }, () =>
    poll(body(seen), stop.signal).then(
      async ({ body: rest }) => {
        answered += 1;
        await rest.dump();
      },
      () => undefined,
    ),
  );
  await sleep(3_000);
  const idleShare = await share([bare.pid]);
  const statements = async () => {
    const { rows } = await database.pool.query<{ n: string }>(
      'select xact_commit as n from pg_stat_database where datname = current_database()',
    );
    return Number(rows[0]?.n);
  };
  const before = await statements();
  const waitingShare = await share([hub.pid]);
  const transactions = (await statements()) - before;
  stop.abort();
  await Promise.all([...held, ...waiting]);
  await Promise.all([runners.destroy(), idle.destroy()]);
  const more = waitingShare - quiet - idleShare;
  return {
    goal: 'at most 3 % of a core more than idle connections',
    reached: more <= 3 && answered === 0,
    lines: [
      `${RUNNERS} waiting runners take ${more.toFixed(1)} % of a core more than idle connections (hub ${waitingShare.toFixed(1)} %, without runners ${quiet.toFixed(1)} %, idle connections ${idleShare.toFixed(1)} %)`,
      `${transactions} transactions of the whole hub in ${IDLE_MS / 1_000} s; ${answered} runners were answered early`,
    ],
  };
};

const ENTRIES = 50_000;
const ENTRY_BYTES = 4_096;
const UPLOADS = 3;

/** Uploads an archive of 200 MB with 50,000 files, and indexes it. */
const upload = async (scene: Scene): Promise<Part> => {
  const { database, hub, bare } = scene;
  const { path, bytes } = await archiveOf(scene);
  const jobs = await fillJobs(database.pool, {
    projects: scene.projects.slice(0, 1),
    userId: scene.userId,
    pipelines: 1,
    jobsOfEach: UPLOADS + 1,
    status: 'running',
  });
  const cpuOf = (server: Server) => cpuMs([server.pid]) + database.cpuMs();
  const measured = async (server: Server, sending: () => Promise<void>) => {
    const [begin, before] = [performance.now(), cpuOf(server)];
    await sending();
    return { ms: performance.now() - begin, cpu: cpuOf(server) - before };
  };
  const toHub = (job: number) => uploadTo(scene, job, path);
  const toBare = () => sendFile(`${bare.url}/upload`, {}, path);
  const [warmUp = 0, ...others] = jobs;
  await toHub(warmUp);
  await toBare();
  const base = rssMiB(hub.pid);
  const rounds: Record<'hub' | 'bare', { ms: number; cpu: number }>[] = [];
  for (const job of others) {
    rounds.push({ hub: await measured(hub, () => toHub(job)), bare: await measured(bare, toBare) });
  }
  const peak = peakRssMiB(hub.pid);
  const ratios = (of: 'ms' | 'cpu') => rounds.map((round) => round.hub[of] / round.bare[of]);
  const middle = (side: 'hub' | 'bare', of: 'ms' | 'cpu') => median(rounds.map((round) => round[side][of])).toFixed(0);
  const line = (of: 'ms' | 'cpu') =>
    `${ratioText(ratios(of))}: hub ${middle('hub', of)} ms, bare ${middle('bare', of)} ms`;
  return {
    goal: 'at most 1.25 times a bare stream with a hash',
    reached: median(ratios('ms')) <= 1.25,
    lines: [
      `${(bytes / 1e6).toFixed(0)} MB with ${ENTRIES} files, by time ${line('ms')}`,
      `by CPU, with the index of the files ${line('cpu')}`,
      `memory of the hub ${base.toFixed(0)} MiB before, ${peak.toFixed(0)} MiB at its peak`,
    ],
  };
};

/** Uploads the archive as the runner of the job does. */
const uploadTo = async ({ database, hub }: Scene, job: number, path: string): Promise<void> => {
  const token = await tokenOfJob(database.pool, job);
  const boundary = 'a-boundary-of-the-bench';
  await sendFile(
    `${hub.url}/api/v4/jobs/${job}/artifacts`,
    { 'job-token': token, 'content-type': `multipart/form-data; boundary=${boundary}` },
    path,
    {
      before: `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="artifacts.zip"\r\ncontent-type: application/zip\r\n\r\n`,
      after: `\r\n--${boundary}--\r\n`,
    },
  );
};

/** Streams a file in the body of a request. @throws Error unless the answer is 201 */
const sendFile = async (
  url: string,
  headers: Record<string, string>,
  path: string,
  { before = '', after = '' } = {},
): Promise<void> => {
  const { size } = await stat(path);
  const body = async function* () {
    if (before !== '') yield before;
    yield* createReadStream(path, { highWaterMark: 256 * 1024 });
    if (after !== '') yield after;
  };
  const length = String(before.length + size + after.length);
  const answer = await request(url, {
    method: 'POST',
    headers: { ...headers, 'content-length': length },
    body: Readable.from(body()),
  });
  const text = await answer.body.text();
  if (answer.statusCode !== 201) throw new Error(`${url} answered ${answer.statusCode}: ${text}`);
};

const archives = new Map<Scene, ReturnType<typeof writeZip>>();

const archiveOf = async (scene: Scene) => {
  const path = join(scene.directory, 'archive.zip');
  const writing = archives.get(scene) ?? writeZip(path, { entries: ENTRIES, size: ENTRY_BYTES });
  archives.set(scene, writing);
  return { path, ...(await writing) };
};

/** Downloads single files of the archive. */
const file = async (scene: Scene): Promise<Part> => {
  const { database, hub, bare, projects, userId } = scene;
  const { path, places } = await archiveOf(scene);
  const [project] = projects;
  const [job = 0] = await fillJobs(database.pool, {
    projects: projects.slice(0, 1),
    userId,
    pipelines: 1,
    jobsOfEach: 1,
    status: 'running',
  });
  await uploadTo(scene, job, path);
  const [toHub, toBare] = [openHttp(hub.url), openHttp(bare.url)];
  let next = 0;
  const place = () => places[next++ % places.length] ?? { name: '', offset: 0 };
  const get = (http: typeof toHub, url: string) =>
    http.drain({ method: 'GET', path: url, headers, leastBytes: ENTRY_BYTES });
  try {
    const outcome = await compare({
      hub: {
        name: 'hub',
        pid: hub.pid,
        children: true,
        send: () => get(toHub, `/api/v4/projects/${project?.id}/jobs/${job}/artifacts/${place().name}`),
      },
      baseline: {
        name: 'two reads',
        pid: bare.pid,
        send: () => get(toBare, `/file?offset=${place().offset}&size=${ENTRY_BYTES}`),
      },
      databaseMs: database.cpuMs,
      atLeast: 0.5,
      concurrency: 1,
      rounds: 6,
      windowMs: 1_000,
      // V8 optimises the hub's longer path later than the baseline's.
      warmUpMs: 2_000,
      warmUpRequests: 4_000,
      leastRequests: 400,
    });
    return { ...outcome, goal: 'at least 0.5 of two reads of a range' };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
  }
};

const JOBS = 500;
const PIPELINES = 5;

/** Creates pipelines of 500 jobs over the API. */
const pipeline = async ({ hub, bare, projects }: Scene): Promise<Part> => {
  const text = ciFile();
  const [toHub, toBare] = [openHttp(hub.url, 1), openHttp(bare.url, 1)];
  const id = projects.at(-1)?.id;
  try {
    const commit = {
      branch: 'main',
      commit_message: 'Many jobs',
      actions: [{ action: 'create', file_path: '.gitlab-ci.yml', content: text }],
    };
    await made(toHub.post(`/api/v4/projects/${id}/repository/commits`, JSON.stringify(commit), headers));
    const once = async (creating: () => Promise<{ status: number; text: string }>): Promise<number> => {
      const begin = performance.now();
      await made(creating());
      return performance.now() - begin;
    };
    const onHub = () => toHub.post(`/api/v4/projects/${id}/pipeline`, JSON.stringify({ ref: 'main' }), headers);
    const onBare = () => toBare.post('/pipeline', text, { 'content-type': 'text/plain' });
    await once(onHub);
    await once(onBare);
    const times: { hub: number; bare: number }[] = [];
    for (let i = 0; i < PIPELINES; i++) times.push({ hub: await once(onHub), bare: await once(onBare) });
    const ratios = times.map((time) => time.hub / time.bare);
    const ms = (side: 'hub' | 'bare') => median(times.map((each) => each[side])).toFixed(0);
    return {
      goal: 'at most 3 times parsing its file and one COPY',
      reached: median(ratios) <= 3,
      lines: [`${JOBS} jobs ${ratioText(ratios)}: hub ${ms('hub')} ms, bare ${ms('bare')} ms`],
    };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
  }
};

const ciFile = (): string => {
  const stages = ['build', 'test', 'deploy'];
  const jobs = Array.from(
    { length: JOBS },
    (_, i) => `
job-${i}:
  stage: ${stages[i % stages.length]}
  variables:
    NUMBER: "${i}"
  script:
    - echo "job ${i}"
    - make part-${i}
  rules:
    - if: $CI_COMMIT_BRANCH == "main"
`,
  );
  return `stages: [${stages.join(', ')}]\n${jobs.join('')}`;
};

const IDLE_LISTS = 300;
/** Milliseconds for each artifact. */
const CLEAN_UP_DEADLINE = 15;

/** Deletes expired artifacts in the background, while somebody lists pipelines. */
const cleanUp = async ({ database, hub, projects, userId, expired }: Scene): Promise<Part> => {
  const jobs = await fillJobs(database.pool, {
    projects,
    userId,
    pipelines: Math.ceil(expired / 100),
    jobsOfEach: 100,
    status: 'success',
  });
  const [project] = projects;
  const http = openHttp(hub.url, 2);
  const list = async (): Promise<number> => {
    const begin = performance.now();
    const { status } = await http.get(`/api/v4/projects/${project?.id}/pipelines`, headers);
    if (status !== 200) throw new Error(`the list answered ${status}`);
    return performance.now() - begin;
  };
  const left = async (): Promise<number> => {
    const { rows } = await database.pool.query<{ n: number }>(
      'select count(*)::int as n from job_artifacts where job_id = any ($1)',
      [jobs],
    );
    return rows[0]?.n ?? 0;
  };
  try {
    for (let i = 0; i < 50; i++) await list();
    // Before and after, because other work on the machine comes and goes.
    const idle: number[] = [];
    const measureIdle = async () => {
      const own: number[] = [];
      for (let i = 0; i < IDLE_LISTS; i++) own.push(await list());
      idle.push(...own);
      return p95(own).toFixed(1);
    };
    const idleBefore = await measureIdle();
    await database.pool.query(
      `insert into job_artifacts (project_id, job_id, file_type, file_format, filename, size, sha256, storage_key, expire_at)
         select project_id, id, 'archive', 'zip', 'artifacts.zip', 1000, repeat('0', 64), 'bench/expired/' || id,
           now() - interval '1 minute'
         from jobs where id = any ($1)`,
      [jobs],
    );
    await database.pool.query('analyze job_artifacts');
    await database.pool.query(`select graphile_worker.add_job('artifacts.expire', '{}'::json)`);
    const begin = performance.now();
    const busy: number[] = [];
    const marks: number[] = [];
    for (let rest = jobs.length; rest > 0; ) {
      if (performance.now() - begin > CLEAN_UP_DEADLINE * jobs.length) throw new Error(`${rest} artifacts are left`);
      for (let i = 0; i < 10; i++) busy.push(await list());
      rest = await left();
      if (marks.length === 0 && rest <= jobs.length / 2) marks.push(performance.now() - begin);
    }
    const all = performance.now() - begin;
    const idleAfter = await measureIdle();
    const [half = all] = marks;
    const rate = (count: number, ms: number) => ((count / ms) * 1_000).toFixed(0);
    const ratio = p95(busy) / p95(idle);
    return {
      goal: 'a steady rate, while p95 of a list stays within 1.5 of idle',
      reached: ratio <= 1.5,
      lines: [
        `${jobs.length} artifacts at ${rate(jobs.length, all)} per second, the first half at ${rate(jobs.length / 2, half)}`,
        `p95 of the list ${ratio.toFixed(2)} times idle: ${p95(busy).toFixed(1)} ms, idle ${idleBefore} ms before and ${idleAfter} ms after`,
      ],
    };
  } finally {
    await http.close();
  }
};

const p95 = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.95)] ?? 0;

const parts: Readonly<Record<string, (scene: Scene) => Promise<Part>>> = {
  'hand-out': handOut,
  arrival,
  polling,
  upload,
  file,
  pipeline,
  'clean-up': cleanUp,
};
