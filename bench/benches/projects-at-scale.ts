import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cpuOf, median, type Round, type Side, takeTurns, type Window } from '../lib/compare.ts';
import { liftLimits } from '../lib/data.ts';
import { commonLists, type ListRequest } from '../lib/fill/lists.ts';
import { openFilled } from '../lib/fill/open.ts';
import { openPlans } from '../lib/fill/plans.ts';
import { PEOPLE } from '../lib/fill/watched.ts';
import { type Http, openHttp } from '../lib/http.ts';
import type { Options } from '../lib/options.ts';
import type { Server } from '../lib/processes.ts';
import { type Outcome, savePlans } from '../lib/report.ts';
import { type Database, openDatabase, type World } from '../lib/world.ts';

const [SMALL, LARGE] = [20_000, 1_000_000];
const MOST_GROWTH = 1.3;
/** Lists slower than this are requested one at a time. */
const SLOW_MS = 250;

interface Hub {
  readonly database: Database;
  readonly server: Server;
  readonly http: Http;
  readonly projects: number;
  readonly directory: string;
  close(): Promise<void>;
}

/**
 * Each common list of projects in a hub of a million projects, against a hub of 20,000. The databases come from `npm
 * run bench:fill`, in directories that are kept: `--small DIR`, `--large DIR`. Missing ones are filled. `--only TEXT`
 * selects the lists whose names contain it. `--plans` measures nothing: it prints how Postgres finds the lists in the
 * large database, and without `--only` writes `docs/performance/plans.md`.
 */
export const projectsAtScale = async (_world: World, options: Options): Promise<Outcome> => {
  const lists = commonLists(0).filter(({ name }) => name.includes(options.only ?? ''));
  const large = await openHub(options.large ?? join(tmpdir(), 'millrace-bench-large'), LARGE);
  if (options.plans) {
    const plans = await explainLists(large, lists).finally(() => large.close());
    if (options.only === undefined) await savePlans(plans);
    return { target: 'plans, nothing measured', reached: true, lines: [] };
  }
  const small = await openHub(options.small ?? join(tmpdir(), 'millrace-bench-small'), SMALL);
  const databaseMs = () => small.database.cpuMs() + large.database.cpuMs();
  try {
    const lines = [TITLE];
    const over: string[] = [];
    for (const { name } of lists) {
      try {
        const [few, many] = [await sideOf(small, name), await sideOf(large, name)];
        if (few.matches !== many.matches && few.sameMatches)
          throw new Error(`${few.matches} projects among ${SMALL}, ${many.matches} among ${LARGE}`);
        const slow = Math.max(few.ms, many.ms) > SLOW_MS;
        const rounds = await takeTurns({
          hub: many,
          baseline: few,
          databaseMs,
          concurrency: slow ? 1 : 4,
          // Many short rounds, because other load on the machine comes and goes.
          rounds: slow ? 3 : 9,
          windowMs: 300,
          leastRequests: slow ? 1 : 20,
          warmUpMs: slow ? 10 : 250,
        });
        if (growthOf(rounds) > MOST_GROWTH) over.push(name);
        lines.push(row(name, rounds));
      } catch (error) {
        over.push(name);
        lines.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
      }
      console.log(lines.at(-1));
    }
    return {
      target: `among ${LARGE} at most ${MOST_GROWTH} times the cost among ${SMALL}, for each of ${lists.length} lists`,
      reached: over.length === 0,
      lines: [...lines, over.length === 0 ? 'none over the limit' : `over: ${over.join('; ')}`],
    };
  } finally {
    await small.close();
    await large.close();
  }
};

const openHub = async (directory: string, projects: number): Promise<Hub> => {
  const place = { databaseUrl: null, dataDir: directory };
  const filled = await openFilled(place, projects, (line) => console.log(`filling ${directory}: ${line}`));
  await liftLimits(filled.pool);
  const database = await openDatabase(filled.url, directory);
  const server = await database.startHub();
  const http = openHttp(server.url);
  const close = async () => {
    await http.close();
    await database.close();
    await filled.close();
  };
  return { database, server, http, projects, directory, close };
};

/** Returns the list of this name, with the middle of the hub's own projects. */
const requestOf = (hub: Hub, name: string): ListRequest => {
  const found = commonLists(hub.projects / 2).find((each) => each.name === name);
  if (!found) throw new Error(`there is no list ${name}`);
  return found;
};

const send = (hub: Hub, { path, as }: ListRequest) => {
  const headers: Record<string, string> = as ? { 'private-token': PEOPLE[as].token } : {};
  if (typeof path === 'string')
    return {
      ask: () => hub.http.get(`/api/v4${path}`, headers),
      method: 'GET',
      path: `/api/v4${path}`,
      headers,
    } as const;
  const body = JSON.stringify(path);
  const typed = { ...headers, 'content-type': 'application/json' };
  const to = '/api/graphql';
  return { ask: () => hub.http.post(to, body, typed), method: 'POST', path: to, body, headers: typed } as const;
};

const sideOf = async (
  hub: Hub,
  name: string,
): Promise<Side & { readonly matches: number; readonly sameMatches: boolean; readonly ms: number }> => {
  const request = requestOf(hub, name);
  const { ask, ...prepared } = send(hub, request);
  await ask();
  const start = performance.now();
  const { status, text, headers } = await ask();
  const ms = performance.now() - start;
  if (status !== 200 || text.startsWith('{"errors"')) throw new Error(`answered ${status}: ${text.slice(0, 300)}`);
  const matches = Number(headers['x-total'] ?? text.split('"fullPath"').length - 1);
  return {
    name: `${hub.projects}`,
    pid: hub.server.pid,
    matches,
    sameMatches: request.sameMatches ?? false,
    ms,
    send: () => hub.http.drain({ ...prepared, leastBytes: text.length * 0.9 }),
  };
};

/**
 * The median of windows, because other work of the databases and the machine can multiply the cost of a single window.
 */
const growthOf = (rounds: readonly Round[]): number =>
  median(rounds.map(({ hub, baseline }) => cpuOf(hub) / cpuOf(baseline)));

const TITLE =
  'list | CPU us among 20,000 | among 1,000,000 | times by CPU (median, least and most of windows) | requests a second | and | times slower';

const row = (name: string, rounds: readonly Round[]): string => {
  const of = (side: keyof Round, part: (window: Window) => number) => median(rounds.map((round) => part(round[side])));
  const rate = (side: keyof Round) => of(side, ({ perSecond }) => perSecond);
  const rounded = (perSecond: number) => perSecond.toFixed(perSecond < 10 ? 1 : 0);
  const each = rounds.map(({ hub, baseline }) => cpuOf(hub) / cpuOf(baseline));
  const spread = `${Math.min(...each).toFixed(2)} to ${Math.max(...each).toFixed(2)}`;
  return [
    name,
    of('baseline', cpuOf).toFixed(0),
    of('hub', cpuOf).toFixed(0),
    `${growthOf(rounds).toFixed(2)} (${spread})`,
    rounded(rate('baseline')),
    rounded(rate('hub')),
    median(rounds.map(({ hub, baseline }) => baseline.perSecond / hub.perSecond)).toFixed(2),
  ].join(' | ');
};

/**
 * Requests each list a few times in a separate hub whose statements Postgres explains. Prints and returns the last
 * plans.
 */
const explainLists = async (hub: Hub, lists: readonly ListRequest[]): Promise<string[]> => {
  const sections: string[] = [];
  const plans = await openPlans(hub.database.pool, hub.directory);
  try {
    const server = await hub.database.startHub();
    const http = openHttp(server.url, 1);
    const explained: Hub = { ...hub, server, http };
    for (const { name } of lists) {
      const { ask } = send(explained, requestOf(explained, name));
      await ask();
      let plan = '';
      for (let tries = 0; plan === '' && tries < 3; tries++) {
        await plans.mark();
        const { status } = await ask();
        if (status !== 200) throw new Error(`${name} answered ${status}`);
        plan = (await plans.since()).map(({ text }) => text).join('\n\n');
      }
      const section = `## ${name}\n\n\`\`\`\n${plan}\n\`\`\`\n`;
      console.log(section);
      sections.push(section);
    }
    await http.close();
    await server.stop();
    return sections;
  } finally {
    await plans.close();
  }
};
