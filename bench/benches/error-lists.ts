import { cpuOf, median, type Side, takeTurns } from '../lib/compare.ts';
import { fillErrors } from '../lib/fill/errors.ts';
import { type Http, openHttp } from '../lib/http.ts';
import type { Options } from '../lib/options.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import type { Database, World } from '../lib/world.ts';

const MOST = 1.3;
const SMALL = 10_000;

const QUERIES = {
  list: 'errors(first: 20) { nodes { id title culprit count userCount lastSeen } pageInfo { endCursor } }',
  'list with charts': 'errors(first: 20) { nodes { id title count hourlyCounts { time count } } }',
  'list by status': 'errors(first: 20, status: RESOLVED) { nodes { id title } }',
  'list by environment and count':
    'errors(first: 20, environment: "staging", sort: COUNT_DESC) { nodes { id title count } }',
  detail:
    'error(id: $id) { title count dailyCounts { count } hourlyCounts { count } newestEvent { exceptions { frames { function } } } }',
  events: 'error(id: $id) { events(first: 20) { nodes { eventId receivedAt } } }',
  tags: 'error(id: $id) { tags { key values { value count } } }',
} as const;
type Name = keyof typeof QUERIES;
const isName = (name: string): name is Name => Object.hasOwn(QUERIES, name);

/** Lists and details of errors in a project with a million events, or `--many`, against one with 10,000. */
export const errorLists = async (world: World, { many }: Options): Promise<Outcome> => {
  const [small, large] = [await openFilled(world, SMALL), await openFilled(world, many)];
  const lines: string[] = [];
  let reached = true;
  try {
    for (const name of Object.keys(QUERIES).filter(isName)) {
      const rounds = await takeTurns({
        hub: await sideOf(large, name),
        baseline: await sideOf(small, name),
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
      reached &&= median(ratios) <= MOST;
      lines.push(
        `${name}: ${ratioText(ratios)}; CPU ${us('hub')} us at ${many} events, ${us('baseline')} us at ${SMALL}`,
      );
      console.log(lines.at(-1));
    }
  } finally {
    await Promise.all([small.close(), large.close()]);
  }
  return { target: `each at most ${MOST} times as much as at ${SMALL} events`, reached, lines };
};

interface Filled {
  readonly database: Database;
  readonly pid: number;
  readonly http: Http;
  readonly token: string;
  readonly path: string;
  readonly errorId: number;
  close(): Promise<void>;
}

const openFilled = async (world: World, events: number): Promise<Filled> => {
  const database = await world.createDatabase();
  const filled = await fillErrors(database.pool, events);
  const hub = await database.startHub();
  const http = openHttp(hub.url);
  const close = async () => {
    await http.close();
    await database.close();
  };
  return { ...filled, database, pid: hub.pid, http, close };
};

const sideOf = async ({ http, pid, token, path, errorId }: Filled, name: Name): Promise<Side> => {
  const text = QUERIES[name];
  const declared = text.includes('$id') ? ', $id: ErrorTrackingErrorID!' : '';
  const body = JSON.stringify({
    query: `query ($path: ID!${declared}) { project(fullPath: $path) { errorTracking { ${text} } } }`,
    variables: { path, id: `gid://gitlab/ErrorTracking::Error/${errorId}` },
  });
  const headers = { 'private-token': token, 'content-type': 'application/json' };
  const answer = await http.post('/api/graphql', body, headers);
  if (answer.status !== 200 || answer.text.includes('"errors":[{'))
    throw new Error(`${name} answered ${answer.status}: ${answer.text.slice(0, 300)}`);
  if (/"(?:errorTracking|error|newestEvent)":null|"nodes":\[\]/.test(answer.text))
    throw new Error(`${name} found nothing: ${answer.text.slice(0, 300)}`);
  const request = {
    method: 'POST' as const,
    path: '/api/graphql',
    body,
    headers,
    leastBytes: answer.text.length * 0.9,
  };
  return { name, pid, send: () => http.drain(request) };
};
