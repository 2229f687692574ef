import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { createContextFactory } from '#platform/create-context.ts';
import { startJobRunner } from '#platform/job-runner/job-runner.ts';
import { defineJob, runnable } from '#platform/jobs.ts';
import { startProcesses } from '#platform/process/processes.ts';
import { createTestServices } from './services.ts';

// A worker process for tests to kill: `node job-process.ts <databaseUrl> <heartbeatMs> <deadAfterMs>`. Its jobs write
// to the table `runs`, and on request never end.
const [url = '', heartbeatMs = '', deadAfterMs = ''] = process.argv.slice(2);
const { services } = await createTestServices(url);
const createContext = createContextFactory(services);

const input = z.object({ name: z.string(), hang: z.boolean() });
const define = (name: string, long: boolean) =>
  runnable(
    defineJob({
      name,
      input,
      maxAttempts: 2,
      long,
      run: async (ctx, { name: job, hang }, { attempt }) => {
        const record = (what: string) =>
          services.pool.query('insert into runs (process, job, attempt, what) values ($1, $2, $3, $4)', [
            services.processId,
            job,
            attempt,
            what,
          ]);
        await record('started');
        if (hang) await sleep(600_000, undefined, { signal: ctx.signal }).catch(() => record('aborted'));
        ctx.signal.throwIfAborted();
        await record('finished');
      },
    }),
  );

const processes = await startProcesses({
  services,
  heartbeatMs: Number(heartbeatMs),
  deadAfterMs: Number(deadAfterMs),
});
await startJobRunner({
  services,
  processes,
  createContext,
  jobs: [define('test.short', false), define('test.long', true)],
  concurrency: 4,
});
console.log(services.processId);
