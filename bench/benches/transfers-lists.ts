import { join } from 'node:path';
import { writeIssueArchive } from '../lib/archive.ts';
import { liftLimits, seed } from '../lib/data.ts';
import { latencyText, listLatencies, p95 } from '../lib/latencies.ts';
import type { Outcome } from '../lib/report.ts';
import { exportByHub, idOf, importByHub } from '../lib/transfers.ts';
import type { World } from '../lib/world.ts';

const AT_MOST = 3;

/**
 * The latency of a list while another process, which only runs jobs, imports 50,000 issues and exports them. Before and
 * after each of them the same hubs are idle, because a machine with other work changes.
 */
export const transfersLists = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  try {
    await liftLimits(database.pool);
    const { token } = await seed(database.pool, { groups: 20, projectsPerGroup: 50, visibility: 'private' });
    const web = await database.startHub({ env: { MILLRACE_ROLE: 'web' } });
    await database.startHub({ env: { MILLRACE_ROLE: 'worker' } });
    const file = join(world.directory, 'lists.tar.gz');
    await writeIssueArchive(file);
    const steps = {
      import: () => importByHub(web, file, 'imported'),
      export: async () => exportByHub(web, await idOf(database, 'imported')),
    };
    const lines: string[] = [];
    const ratios: number[] = [];
    let before = await listLatencies(web, token, () => true);
    for (const [name, step] of Object.entries(steps)) {
      let isDone = false;
      const transfer = step().finally(() => {
        isDone = true;
      });
      const busy = await listLatencies(web, token, () => isDone);
      await transfer;
      const after = await listLatencies(web, token, () => true);
      const idle = [...before, ...after];
      ratios.push(p95(busy) / p95(idle));
      lines.push(`${name}: ${latencyText(busy, idle)}`);
      before = after;
    }
    return {
      target: `list p95 at most ${AT_MOST} times idle while a transfer runs in a worker process of its own`,
      reached: ratios.every((ratio) => ratio <= AT_MOST),
      lines,
    };
  } finally {
    await database.close();
  }
};
