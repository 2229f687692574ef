import { compare } from '../lib/compare.ts';
import { seed } from '../lib/data.ts';
import { openHttp } from '../lib/http.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

/** `GET /projects`, 20 full records, as a user who sees 1,000 by his membership, with total. */
export const restProjects = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const hub = await database.startHub();
  const { token } = await seed(database.pool, { groups: 20, projectsPerGroup: 50 });
  const bare = await database.startBaseline('rest.ts');
  const [toHub, toBare] = [openHttp(hub.url), openHttp(bare.url)];
  try {
    const path = process.env.BENCH_PATH ?? '/api/v4/projects';
    const headers = { 'private-token': token };
    const answer = await toHub.get(path, headers);
    const rows = await toBare.get('/');
    const ids = (text: string): string => JSON.stringify(JSON.parse(text).map(({ id }: { id: number }) => id));
    if (ids(answer.text) !== ids(rows.text)) throw new Error('the two servers list different projects');
    const outcome = await compare({
      hub: {
        name: 'hub',
        send: () => toHub.drain({ method: 'GET', path, headers, leastBytes: answer.text.length * 0.9 }),
        pid: hub.pid,
      },
      baseline: {
        name: 'bare node:http',
        send: () => toBare.drain({ method: 'GET', path: '/', headers: {}, leastBytes: rows.text.length * 0.9 }),
        pid: bare.pid,
      },
      backends: database.backends,
      atLeast: 0.75,
    });
    const sizes = `bodies: hub ${answer.text.length} bytes, bare ${rows.text.length} bytes`;
    return { ...outcome, lines: [...outcome.lines, sizes] };
  } finally {
    await Promise.all([toHub.close(), toBare.close()]);
    await database.close();
  }
};
