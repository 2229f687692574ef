import { join } from 'node:path';
import { compare, type Side } from '../lib/compare.ts';
import { seed } from '../lib/data.ts';
import { fillBranches, repositoryIn } from '../lib/fill/branches.ts';
import { BRANCHES } from '../lib/fill/watched.ts';
import { type Http, openHttp } from '../lib/http.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const AT_LEAST = 0.5;
const LISTS = {
  'first page': '',
  'search, rare': '?search=quokka',
  'search, common': '?search=^feature',
  regex: `?regex=${encodeURIComponent('^(fix|chore)/[0-9]+-quokka$')}`,
  'page 100': '?page=100',
  'a hundred a page': '?per_page=100',
};

/** Branch lists of a repository with 10,000 branches, against a server that only has git list them all. */
export const branches = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const dataDir = join(world.directory, 'branches');
  const { token } = await seed(database.pool, { groups: 1, projectsPerGroup: 1, visibility: 'public' });
  const { rows } = await database.pool.query<{ id: number; disk_path: string }>(`
    update projects set disk_path = '@hashed/aa/bb/branches.git' returning id, disk_path`);
  const { id = 0, disk_path: diskPath = '' } = rows[0] ?? {};
  await database.pool.query(`
    with protected as (
      insert into protected_branches (project_id, name) select ${id}, unnest(array['main', 'release/*']) returning id)
    insert into protection_levels (protected_branch_id, action, access_level)
      select id, action, 40 from protected, unnest(array['push', 'merge']) action`);
  const hub = await database.startHub({ dataDir });
  await fillBranches(repositoryIn(dataDir, diskPath));
  const bare = await database.startBaseline('branches.ts', { REPOSITORY: repositoryIn(dataDir, diskPath) });
  const [toHub, toBare] = [openHttp(hub.url), openHttp(bare.url)];
  try {
    const headers = { 'private-token': token };
    const sideOf = async (name: string, pid: number, http: Http, path: string): Promise<Side & { total: number }> => {
      const { status, text, headers: answered } = await http.get(path, headers);
      if (status !== 200) throw new Error(`${name} answered ${status}: ${text}`);
      const send = () => http.drain({ method: 'GET', path, headers, leastBytes: text.length * 0.9 });
      return { name, pid, children: true, total: Number(answered['x-total']), send };
    };
    const baseline = await sideOf('git for-each-ref', bare.pid, toBare, '/');
    if (baseline.total !== BRANCHES.total) throw new Error(`there are ${baseline.total} branches`);
    const lines: string[] = [];
    let reached = true;
    for (const [name, query] of Object.entries(LISTS)) {
      const side = await sideOf('hub', hub.pid, toHub, `/api/v4/projects/${id}/repository/branches${query}`);
      const settings = { atLeast: AT_LEAST, concurrency: 2, rounds: 5, windowMs: 1_000, warmUpMs: 500 };
      const outcome = await compare({ hub: side, baseline, databaseMs: database.cpuMs, ...settings });
      reached &&= outcome.reached;
      lines.push(`${name} (${side.total} of ${BRANCHES.total}):`, ...outcome.lines);
    }
    return { target: `at least ${AT_LEAST} of git for-each-ref alone, each`, reached, lines };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
    await database.close();
  }
};
