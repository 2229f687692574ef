import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { liftLimits } from '../lib/data.ts';
import { openFilled } from '../lib/fill/open.ts';
import { openPlans, type Plans } from '../lib/fill/plans.ts';
import { PEOPLE } from '../lib/fill/watched.ts';
import { openHttp } from '../lib/http.ts';
import type { Options } from '../lib/options.ts';
import { type Outcome, saveScalePlans } from '../lib/report.ts';
import { connections } from '../lib/scale/connections.ts';
import { type PageRequest, restLists } from '../lib/scale/rest-lists.ts';
import { findSamples } from '../lib/scale/samples.ts';
import { openDatabase, type World } from '../lib/world.ts';

const MOST_MS = 100;
/** Shorter statements are not counted. */
const LEAST_MS = 2;
const KEPT_PLANS = 50;
/** Tells how far it is after so many pages. */
const PROGRESS = 200;
/** A request over the limit is repeated, because other load on the machine delays it too. */
const TRIES = 3;

const CALLERS = { anonymous: null, member: PEOPLE.large.token, administrator: PEOPLE.administrator.token } as const;

interface Measured {
  readonly name: string;
  readonly ms: number;
  readonly pages: number;
  /** The pages of the first try. Later ones know which way finds the list, and its count. */
  readonly firstPages: number;
  readonly plans: string;
}

/**
 * A page of every REST list and GraphQL connection, with each of its orders and its first ten filters, as anonymous,
 * member and administrator. The lists come from the OpenAPI document and the GraphQL schema. The database comes from
 * `npm run bench:fill -- --scale`, in a directory that is kept: `--large DIR --projects N`. The time is what Postgres
 * itself measures (auto_explain) for the statements of a request that take 2 ms or more. `--only TEXT` selects lists.
 * Without it, the plans of the slowest fifty are written to `docs/performance/plans-scale.md`. `--plans` prints those of
 * all slow ones.
 */
export const scale = async (_world: World, options: Options): Promise<Outcome> => {
  const directory = options.large ?? join(tmpdir(), 'millrace-bench-scale');
  const place = { databaseUrl: null, dataDir: directory, scale: true };
  const filled = await openFilled(place, options.projects, (line) => console.log(line));
  const database = await openDatabase(filled.url, directory);
  try {
    await liftLimits(filled.pool);
    const samples = await findSamples(filled.pool);
    const all = [...(await restLists(samples)), ...(await connections(samples))];
    const requests = all.filter(({ list }) => list.includes(options.only ?? ''));
    const plans = await openPlans(filled.pool, directory, { leastMs: LEAST_MS, timing: false });
    try {
      const server = await database.startHub();
      const { measured, answers } = await measureAll(server.url, requests, plans, options);
      measured.sort((a, b) => b.ms - a.ms);
      if (options.only === undefined)
        await saveScalePlans(
          options.projects,
          measured.slice(0, KEPT_PLANS).map(({ name, plans: text }) => `## ${name}\n\n\`\`\`\n${text}\n\`\`\`\n`),
        );
      const over = measured.filter(({ ms }) => ms > MOST_MS);
      return {
        target: `at most ${MOST_MS} ms of Postgres time for each of ${requests.length} pages of ${options.projects} projects, as 3 callers`,
        reached: over.length === 0,
        lines: [
          `answers: ${[...answers].map(([status, count]) => `${count} times ${status}`).join(', ')}`,
          ...measured.slice(0, KEPT_PLANS).map(line),
        ],
      };
    } finally {
      await plans.close();
    }
  } finally {
    await database.close();
    await filled.close();
  }
};

const line = ({ name, ms, pages, firstPages }: Measured): string =>
  `${ms.toFixed(0)} ms, ${pages} pages${firstPages > pages ? ` (${firstPages} at first)` : ''}: ${name}`;

const measureAll = async (
  url: string,
  requests: readonly PageRequest[],
  plans: Plans,
  options: Options,
): Promise<{ measured: Measured[]; answers: ReadonlyMap<string, number> }> => {
  const http = openHttp(url, 1);
  const measured: Measured[] = [];
  const answers = new Map<string, number>();
  for (const [caller, token] of Object.entries(CALLERS)) {
    const headers: Record<string, string> = token === null ? {} : { 'private-token': token };
    console.log(`${caller}: ${requests.length} pages`);
    for (const [n, { list, what, path }] of requests.entries()) {
      if (n > 0 && n % PROGRESS === 0) console.log(`${caller}: ${n} of ${requests.length} pages`);
      let best: Measured | undefined;
      let firstPages = 0;
      for (let tries = 0; tries < TRIES && (best?.ms ?? Number.POSITIVE_INFINITY) > MOST_MS / 4; tries++) {
        await plans.mark();
        const { status, text } = await (typeof path === 'string'
          ? http.get(path, headers)
          : http.post('/api/graphql', JSON.stringify(path), headers));
        const outcome = status === 200 && text.startsWith('{"errors"') ? 'errors' : String(status);
        if (tries === 0) answers.set(outcome, (answers.get(outcome) ?? 0) + 1);
        if (tries === 0 && /errors|400|5\d\d|429/.test(outcome))
          console.error(`${caller} ${list} ${what}: ${outcome} ${text.slice(0, 160)}`);
        const statements = await plans.since();
        const ms = statements.reduce((sum, each) => sum + each.ms, 0);
        const pages = statements.reduce((sum, each) => sum + each.pages, 0);
        if (tries === 0) firstPages = pages;
        if (!best || ms < best.ms)
          best = {
            firstPages,
            name: `${caller}: ${list}, ${what}`,
            ms,
            pages,
            plans: statements.map((each) => each.text).join('\n\n'),
          };
      }
      if (!best || best.ms === 0) continue;
      measured.push(best);
      if (best.ms > MOST_MS / 4) console.log(`${line(best)}${options.plans ? `\n${best.plans}\n` : ''}`);
    }
  }
  await http.close();
  return { measured, answers };
};
