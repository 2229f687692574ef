import { compare, type Side } from '../lib/compare.ts';
import { liftLimits, seed } from '../lib/data.ts';
import { type Http, openHttp } from '../lib/http.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const AT_LEAST = 0.75;

/**
 * `GET /projects` with 20 full records and a total, as a user who sees 1,000 projects by membership. Then the same by
 * keyset, which counts nothing, like the baseline. Then both for anonymous callers when all 1,000 are public: they get
 * the simple record, which is shorter than the baseline's.
 */
export const restProjects = async (world: World): Promise<Outcome> => {
  const member = await against(world, 'private');
  const anonymous = await against(world, 'public');
  return { ...member, lines: [...member.lines, 'anonymous:', ...anonymous.lines] };
};

/** Offset pagination decides the verdict. */
const against = async (world: World, visibility: 'private' | 'public'): Promise<Outcome> => {
  const database = await world.createDatabase();
  await liftLimits(database.pool);
  const hub = await database.startHub();
  const { token } = await seed(database.pool, { groups: 20, projectsPerGroup: 50, visibility });
  const bare = await database.startBaseline('rest.ts');
  const [toHub, toBare] = [openHttp(hub.url), openHttp(bare.url)];
  try {
    const headers: Record<string, string> = visibility === 'private' ? { 'private-token': token } : {};
    const sideOf = async (name: string, pid: number, http: Http, path: string): Promise<Side & { text: string }> => {
      const { status, text } = await http.get(path, headers);
      if (status !== 200) throw new Error(`${name} answered ${status}: ${text}`);
      const leastBytes = text.length * 0.9;
      return { name, pid, text, send: () => http.drain({ method: 'GET', path, headers, leastBytes }) };
    };
    const page = await sideOf('hub', hub.pid, toHub, '/api/v4/projects');
    const keyset = await sideOf('hub by keyset', hub.pid, toHub, '/api/v4/projects?pagination=keyset&order_by=id');
    const baseline = await sideOf('bare node:http', bare.pid, toBare, '/');
    if (idsOf(page.text) !== idsOf(baseline.text)) throw new Error('the two servers list different projects');
    const comparison = { baseline, databaseMs: database.cpuMs, atLeast: AT_LEAST };
    const outcome = await compare({ ...comparison, hub: page });
    const beside = await compare({ ...comparison, hub: keyset, rounds: 4 });
    const sizes = `bodies: hub ${page.text.length} bytes, bare ${baseline.text.length} bytes`;
    return { ...outcome, lines: [...outcome.lines, ...beside.lines, sizes] };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
    await database.close();
  }
};

const idsOf = (text: string): string => {
  const rows: readonly { readonly id: number }[] = JSON.parse(text);
  return rows.map(({ id }) => id).join();
};
