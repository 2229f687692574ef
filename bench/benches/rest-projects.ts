import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { HubAnswer } from '../baselines/rest.ts';
import { compare, type Side } from '../lib/compare.ts';
import { liftLimits, seed } from '../lib/data.ts';
import { type Http, openHttp } from '../lib/http.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const AT_LEAST = 0.8;

/**
 * `GET /projects` with 20 full records and a total, as a user who sees 1,000 projects by membership. Then the same by
 * keyset, which counts nothing, like the baseline. Then both for anonymous callers when all 1,000 are public: they get
 * the simple record. The baseline sends the same bytes and headers. The goal is for callers with a token, so only those
 * decide.
 */
export const restProjects = async (world: World): Promise<Outcome> => {
  const member = await against(world, 'private');
  const anonymous = await against(world, 'public');
  return {
    ...member,
    lines: [...member.lines, 'anonymous, not judged:', ...anonymous.lines],
  };
};

const LISTS = [
  { name: 'by pages', path: '/api/v4/projects', orderBy: 'created_at' },
  { name: 'by keyset', path: '/api/v4/projects?pagination=keyset&order_by=id', orderBy: 'id' },
] as const;

/** Headers of one connection or one request. */
const OWN_HEADERS = new Set(['connection', 'keep-alive', 'date', 'content-length', 'transfer-encoding']);

const against = async (world: World, visibility: 'private' | 'public'): Promise<Outcome> => {
  const database = await world.createDatabase();
  await liftLimits(database.pool);
  const hub = await database.startHub();
  const { token } = await seed(database.pool, { groups: 20, projectsPerGroup: 50, visibility });
  const toHub = openHttp(hub.url);
  const headers: Record<string, string> = visibility === 'private' ? { 'private-token': token } : {};
  const answers: HubAnswer[] = [];
  for (const { name, path, orderBy } of LISTS) {
    const { status, text, headers: sent } = await toHub.get(path, headers);
    if (status !== 200) throw new Error(`${name} answered ${status}: ${text}`);
    const kept = Object.entries(sent).flatMap(([key, value]) =>
      typeof value === 'string' && !OWN_HEADERS.has(key) ? [[key, value] as const] : [],
    );
    answers.push({ path, orderBy, text, headers: Object.fromEntries(kept) });
  }
  const file = join(world.directory, `rest-projects-${visibility}.json`);
  await writeFile(file, JSON.stringify(answers));
  const bare = await database.startBaseline('rest.ts', { ANSWERS: file });
  const toBare = openHttp(bare.url);
  const sideOf = (name: string, pid: number, http: Http, { path, text }: HubAnswer): Side => ({
    name,
    pid,
    send: () => http.drain({ method: 'GET', path, headers, leastBytes: Buffer.byteLength(text) }),
  });
  try {
    const outcomes: Outcome[] = [];
    for (const answer of answers) {
      if ((await toBare.get(answer.path)).text !== answer.text) throw new Error('the two servers send different bytes');
      outcomes.push(
        await compare({
          hub: sideOf('hub', hub.pid, toHub, answer),
          baseline: sideOf('bare node:http', bare.pid, toBare, answer),
          databaseMs: database.cpuMs,
          atLeast: AT_LEAST,
        }),
      );
    }
    return {
      target: `at least ${AT_LEAST} of bare node:http that sends the same bytes`,
      reached: outcomes.every(({ reached }) => reached),
      lines: outcomes.flatMap(({ lines }, i) => [
        `${LISTS[i]?.name}, ${answers[i]?.text.length} characters:`,
        ...lines,
      ]),
    };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
    await database.close();
  }
};
