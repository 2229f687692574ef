import { setTimeout as sleep } from 'node:timers/promises';
import { median } from '../lib/compare.ts';
import { seed } from '../lib/data.ts';
import { openHttp } from '../lib/http.ts';
import { cpuMs } from '../lib/processes.ts';
import { openReceiver } from '../lib/receiver.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import { ADMIN_TOKEN, type World } from '../lib/world.ts';

const HOOKS = 10;
const EVENTS = 300;
const ROUNDS = 5;
const SINGLE_EVENTS = 30;
const TIMEOUT_MS = 60_000;

/**
 * Throughput: 300 push events committed at once, for each of which ten group hooks are called, until all answers are
 * recorded; against undici alone with signing and grouped log rows. Latency: one event, from before its commit to the
 * receiver; against graphile-worker's own way from adding a job to its handler.
 */
export const hooks = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const receiver = await openReceiver();
  const hub = await database.startHub();
  const toHub = openHttp(hub.url);
  const { userId } = await seed(database.pool, { groups: 1, projectsPerGroup: 1 });
  const bare = await database.startBaseline('hooks.ts');
  const toBare = openHttp(bare.url);
  try {
    const as = { 'private-token': ADMIN_TOKEN, 'content-type': 'application/json' };
    const call = async (path: string, body: object): Promise<{ id: number }> => {
      const { status, text } = await toHub.post(`/api/v4${path}`, JSON.stringify(body), as);
      if (status >= 300) throw new Error(`${path} answered ${status}: ${text}`);
      return JSON.parse(text);
    };
    await database.pool.query(`
      update application_settings
        set attributes = attributes || '{"allow_local_requests_from_web_hooks_and_services": true}';
      select pg_notify('settings', '')`);
    await sleep(200);
    const first = await call('/groups/bench/hooks', {
      url: receiver.url,
      push_events: true,
      token: 'secret-of-the-bench',
    });
    const { rows } = await database.pool.query<{ id: number; namespaces: number[] }>(
      `select p.id, n.traversal_ids as namespaces from projects p join namespaces n on n.id = p.namespace_id`,
    );
    const [project] = rows;
    if (!project) throw new Error('there is no project');

    const commit = (count: number) =>
      database.pool.query(
        `with pushed as (
           insert into events (kind, actor_id, subject_type, subject_id, project_id, namespace_ids, payload)
           select 'push.received', $1::bigint, 'project', $2::bigint, $2::bigint, $3::bigint[], $4::jsonb
           from generate_series(1, $5::int))
         select pg_notify('event_committed', '')`,
        [userId, project.id, project.namespaces, JSON.stringify(payload(userId)), count],
      );
    const recorded = async (): Promise<number> => {
      const { rows } = await database.pool.query<{ count: number }>(
        `select count(*) as count from webhook_attempts where response_status = 200`,
      );
      return rows[0]?.count ?? 0;
    };
    // Counting costs more than delivering: until they may all be there the sequence is looked at.
    const given = async (): Promise<number> => {
      const { rows } = await database.pool.query<{ last: number }>(
        `select last_value as last from pg_sequences where sequencename = 'webhook_attempts_id_seq'`,
      );
      return rows[0]?.last ?? 0;
    };
    const untilRecorded = async (wanted: number): Promise<void> => {
      const deadline = performance.now() + TIMEOUT_MS;
      while ((await given()) < wanted || (await recorded()) < wanted) {
        if (performance.now() > deadline) throw new Error(`${await recorded()} of ${wanted} deliveries were recorded`);
        await sleep(10);
      }
    };

    // Latency first, with one hook.
    const latencies: { hub: number; worker: number }[] = [];
    for (let i = -5; i < SINGLE_EVENTS; i++) {
      const arrival = receiver.next();
      const start = performance.now();
      await commit(1);
      const hubMs = (await arrival) - start;
      await sleep(30);
      const workerMs = Number((await toBare.post('/job', '')).text);
      await sleep(30);
      if (i >= 0) latencies.push({ hub: hubMs, worker: workerMs });
    }
    const hubP50 = median(latencies.map((each) => each.hub));
    const workerP50 = median(latencies.map((each) => each.worker));

    for (let i = 1; i < HOOKS; i++)
      await call('/groups/bench/hooks', { url: `${receiver.url}${i}`, push_events: true });
    const count = HOOKS * EVENTS;
    const body = 'x'.repeat(receiver.lastBytes());
    let done = await recorded();
    const rates: { hub: number; bare: number; hubUs: number; hubNodeUs: number; bareUs: number }[] = [];
    for (let round = -1; round < ROUNDS; round++) {
      const cpu = () => cpuMs([hub.pid, ...database.backends()]);
      const bareCpu = () => cpuMs([bare.pid, ...database.backends()]);
      const [hubBefore, nodeBefore] = [cpu(), cpuMs([hub.pid])];
      const start = performance.now();
      await commit(EVENTS);
      done += count;
      await untilRecorded(done);
      const hubSeconds = (performance.now() - start) / 1_000;
      const hubUs = ((cpu() - hubBefore) * 1_000) / count;
      const hubNodeUs = ((cpuMs([hub.pid]) - nodeBefore) * 1_000) / count;
      const bareBefore = bareCpu();
      const bareStart = performance.now();
      await toBare.post(`/deliver?count=${count}&to=${encodeURIComponent(receiver.url)}`, body);
      const bareSeconds = (performance.now() - bareStart) / 1_000;
      const bareUs = ((bareCpu() - bareBefore) * 1_000) / count;
      if (round >= 0) rates.push({ hub: count / hubSeconds, bare: count / bareSeconds, hubUs, hubNodeUs, bareUs });
    }
    const ratios = rates.map((each) => each.hub / each.bare);
    const of = (key: 'hub' | 'bare' | 'hubUs' | 'hubNodeUs' | 'bareUs') =>
      median(rates.map((each) => each[key])).toFixed(0);
    return {
      target: 'at least 0.4 of bare undici; p50 at most 6 times bare graphile-worker',
      reached: median(ratios) >= 0.4 && hubP50 <= 6 * workerP50,
      lines: [
        `deliveries per second ${ratioText(ratios)}: hub ${of('hub')}, bare ${of('bare')} (${first.id ? HOOKS : 0} hooks, ${body.length} bytes)`,
        `by CPU per delivery ${ratioText(rates.map((each) => each.bareUs / each.hubUs))}: hub ${of('hubUs')} us (node ${of('hubNodeUs')}), bare ${of('bareUs')} us, with Postgres`,
        `commit to receiver, p50: hub ${hubP50.toFixed(1)} ms, bare job ${workerP50.toFixed(1)} ms: ${(hubP50 / workerP50).toFixed(1)} times`,
      ],
    };
  } finally {
    receiver.close();
    await Promise.all([toHub.close(), toBare.close()]);
    await database.close();
  }
};

/** A push of three commits, as `push.received` has it: about 3.4 KB when it is sent. */
const payload = (userId: number) => ({
  ref: 'refs/heads/main',
  before: '1'.repeat(40),
  after: '2'.repeat(40),
  checkout_sha: '2'.repeat(40),
  ref_protected: false,
  message: null,
  commits: Array.from({ length: 3 }, (_, i) => ({
    id: String(i).repeat(40),
    message: `Change number ${i}\n\n${'With a reason that takes a few lines to explain. '.repeat(4)}`,
    title: `Change number ${i}`,
    timestamp: '2026-01-02T03:04:05+00:00',
    url: `http://127.0.0.1/bench/team-1/project-1/-/commit/${String(i).repeat(40)}`,
    author: { name: 'Bench User 1', email: 'bench-1@example.com' },
    added: ['docs/added.md'],
    modified: ['src/modified.ts', 'src/another.ts'],
    removed: [],
  })),
  total_commits_count: 3,
  fires_hooks: true,
  user: { id: userId, name: 'Bench User 1', username: 'bench-1', email: 'bench-1@example.com', avatar_url: null },
  project: {
    id: 1,
    name: 'Project 1',
    description: 'The project number 1 of Team 1, with a description of usual length.',
    web_url: 'http://127.0.0.1/bench/team-1/project-1',
    avatar_url: null,
    git_ssh_url: 'git@127.0.0.1:bench/team-1/project-1.git',
    git_http_url: 'http://127.0.0.1/bench/team-1/project-1.git',
    namespace: 'Team 1',
    visibility_level: 0,
    path_with_namespace: 'bench/team-1/project-1',
    default_branch: 'main',
  },
  repository: {
    name: 'Project 1',
    url: 'git@127.0.0.1:bench/team-1/project-1.git',
    description: 'The project number 1 of Team 1, with a description of usual length.',
    homepage: 'http://127.0.0.1/bench/team-1/project-1',
    visibility_level: 0,
  },
});
