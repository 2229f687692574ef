import { expect, it } from 'vitest';
import { startProcesses } from '#platform/process/processes.ts';
import { createTestDatabase } from '../support/database.ts';
import { createTestServices } from '../support/services.ts';
import { until } from '../support/until.ts';

it('resumes the work of a process that seemed dead, also if connections are lost meanwhile', async () => {
  const database = await createTestDatabase();
  await using held = await createTestServices(database.url);
  const { services } = held;
  const processes = await startProcesses({ services, heartbeatMs: 10 });
  try {
    const calls: string[] = [];
    const failing = new Set(['pause 1', 'resume 1']);
    const note = async (call: string) => {
      calls.push(call);
      if (failing.delete(`${call} ${calls.filter((each) => each === call).length}`))
        throw new Error('Connection terminated unexpectedly');
    };
    processes.guard({ pause: () => note('pause'), resume: () => note('resume') });
    await services.pool.query(`update hub_processes set seen_at = '2020-01-01'`);
    await until('the work to be resumed', () => calls.filter((each) => each === 'resume').length === 2);
    expect(calls).toEqual(['pause', 'pause', 'resume', 'pause', 'resume']);
    expect((await services.pool.query(`select id from hub_processes where seen_at > '2020-01-01'`)).rows).toEqual([
      { id: services.processId },
    ]);
  } finally {
    await processes.stop();
    await database.drop();
  }
});
