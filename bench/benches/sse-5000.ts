import { setTimeout as sleep } from 'node:timers/promises';
import { median } from '../lib/compare.ts';
import { seed, tokensOf } from '../lib/data.ts';
import { openHttp } from '../lib/http.ts';
import { cpuMs, rssMiB } from '../lib/processes.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import { openStreams } from '../lib/streams.ts';
import type { World } from '../lib/world.ts';

const SUBSCRIBERS = 5_000;
const USERS = 500;
const ROUNDS = 12;
const QUERY = `subscription ($path: ID!) { events(scope: { projectPath: $path }) {
  cursor kind createdAt actorId subjectType subjectId projectId namespaceIds payload } }`;

/**
 * One event of a private project to 5,000 subscribers, from its commit (sequencing, reading, the permissions of 500
 * users) to the last socket, against a server that writes the same frame to as many sockets.
 */
export const sse5000 = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const hub = await database.startHub();
  await seed(database.pool, { groups: 1, projectsPerGroup: 1, users: USERS });
  const users = await database.pool.query<{ id: number }>(`select id from users where username like 'bench-%'`);
  const tokens = await tokensOf(
    database.pool,
    users.rows.map(({ id }) => id),
  );
  const projects = await database.pool.query<{ id: number; path: string; namespaces: number[] }>(
    `select p.id, p.full_path as path, n.traversal_ids as namespaces
     from projects p join namespaces n on n.id = p.namespace_id`,
  );
  const [project] = projects.rows;
  if (!project) throw new Error('there is no project');
  const idleMiB = rssMiB(hub.pid);

  const body = JSON.stringify({ query: QUERY, variables: { path: project.path } });
  const ofHub = await openStreams(
    hub.url,
    SUBSCRIBERS,
    (index) =>
      `POST /api/graphql HTTP/1.1\r\nhost: hub\r\naccept: text/event-stream\r\ncontent-type: application/json\r\n` +
      `authorization: Bearer ${tokens[index % tokens.length]}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
  const bare = await database.startBaseline('sse.ts');
  const toBare = openHttp(bare.url);
  const ofBare = await openStreams(bare.url, SUBSCRIBERS, () => 'GET / HTTP/1.1\r\nhost: bare\r\n\r\n');
  try {
    // The last subscriptions are still being opened after their first byte.
    await sleep(2_000);
    const perSubscriberKiB = ((rssMiB(hub.pid) - idleMiB) * 1_024) / SUBSCRIBERS;
    const commit = () =>
      database.pool.query(
        `with event as (
           insert into events (kind, actor_id, subject_type, subject_id, project_id, namespace_ids, payload)
           values ('push.received', $1, 'project', $2, $2, $3, $4))
         select pg_notify('event_committed', '')`,
        [users.rows[0]?.id, project.id, project.namespaces, PAYLOAD],
      );
    await ofHub.nextEvent(commit);
    const text = ofHub.lastEvent();
    const frame = `${text.slice(text.indexOf('event: next'), text.lastIndexOf('\n\n'))}\n\n`;
    await toBare.post('/frame', frame);
    const send = () => toBare.post('/send', '');
    await ofBare.nextEvent(send);

    const times: { hub: number; bare: number; hubCpu: number; bareCpu: number }[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const hubCpu = cpuMs([hub.pid, ...database.backends()]);
      const hubMs = await ofHub.nextEvent(commit);
      await sleep(100);
      const bareCpu = cpuMs([bare.pid]);
      const hubUsed = cpuMs([hub.pid, ...database.backends()]) - hubCpu;
      const bareMs = await ofBare.nextEvent(send);
      await sleep(100);
      times.push({ hub: hubMs, bare: bareMs, hubCpu: hubUsed, bareCpu: cpuMs([bare.pid]) - bareCpu });
    }
    const ratios = times.map((each) => each.hub / each.bare);
    const of = (key: 'hub' | 'bare' | 'hubCpu' | 'bareCpu') => median(times.map((each) => each[key])).toFixed(0);
    return {
      target: 'at most 2.5 times writing one prepared frame to each',
      reached: median(ratios) <= 2.5,
      lines: [
        `until the last of ${SUBSCRIBERS} has it, ${ratioText(ratios)}: hub ${of('hub')} ms, bare ${of('bare')} ms`,
        `CPU per event: hub ${of('hubCpu')} ms with Postgres, bare ${of('bareCpu')} ms; ${frame.length} bytes`,
        `memory of the hub per subscriber: ${perSubscriberKiB.toFixed(0)} KiB`,
      ],
    };
  } finally {
    ofHub.close();
    ofBare.close();
    await toBare.close();
    await database.close();
  }
};

const PAYLOAD = {
  ref: 'refs/heads/main',
  before: '0'.repeat(40),
  after: '1'.repeat(40),
  commits: Array.from({ length: 3 }, (_, i) => ({ id: String(i).repeat(40), title: 'A commit like any other' })),
};
